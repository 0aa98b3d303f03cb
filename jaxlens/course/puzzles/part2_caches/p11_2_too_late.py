"""Puzzle 11.2."""

from jaxlens.course.puzzle import Fact, Facts, Function, Puzzle, WrongAnswer, close, equal


def check(train: Function) -> Facts:
    import jax.numpy as jnp
    import numpy as np

    old, g = np.arange(1, 7, dtype=np.float32), np.full(6, 2, np.float32)
    w = jnp.array(old)
    try:
        new, total = train(w, jnp.array(g))
        np.asarray(total)
    except (RuntimeError, ValueError) as error:
        if "deleted" not in str(error):
            raise
        reason = "Array has been deleted"
        hint = "`w` was donated: when `step` was called, its memory went to the result."
        yield Fact("reading w after the step", "no error", reason, False, hint)
        return
    yield close("the new weights", new, old - 0.1 * g)
    wrong = np.shape(total) == () and np.allclose(total, (old - 0.1 * g).sum())
    hint = "That is the sum of the new weights; the old ones are asked for." if wrong else ""
    yield close("the sum of the old weights", total, old.sum(), hint=hint)
    hint = "Something kept `w`: no donation, a copy, or a NumPy view. Read the sum before the step."
    yield equal("w was given away", w.is_deleted(), True, hint=hint)


SOLUTION = """\
from functools import partial


@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return w - 0.1 * g


def train(w, g):
    total = w.sum()
    return step(w, g), total
"""

_TRAIN = """\
    total = w.sum()
    return step(w, g), total
"""


def answer(body: str) -> str:
    """Returns an answer with another body of `train`."""
    return SOLUTION.replace(_TRAIN, body)


PUZZLE = Puzzle(
    id="11.2",
    title="Too late",
    task="""\
`train` returns the new weights and the sum of the **old** ones, and raises an error. Fix it, and
let `step` go on donating `w`.
""",
    starter=answer("    new = step(w, g)\n    return new, w.sum()\n"),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            answer("    w = step(w, g)\n    return w, w.sum()\n"),
            "the sum of the new weights",
        ),
        WrongAnswer(
            answer("    old = w[:]\n    return step(w, g), old\n"), "its memory went to the result"
        ),
        WrongAnswer(
            SOLUTION.replace('@partial(jax.jit, donate_argnames="w")', "@jax.jit"),
            "Something kept `w`",
        ),
        WrongAnswer(
            answer("    old = w\n    new = step(w, g)\n    return new, old.sum()\n"),
            "its memory went to the result",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
from functools import partial


@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return w - 0.1 * g


def train(w, g):
    return step(w + 0, g), w.sum()
""",
            "Something kept `w`",
        ),
    ),
    hints=(
        "Run `train` in a cell, and read the last line of the error.",
        "`w` can be read until the call that gives it away.",
        "Compute the sum before the step.",
    ),
    check=check,
    after="A donated array is gone after the call, on the CPU too: read it before the call.",
)
