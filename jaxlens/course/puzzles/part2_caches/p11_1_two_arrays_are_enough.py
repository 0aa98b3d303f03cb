"""Puzzle 11.1."""

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Function, Proof, Puzzle, WrongAnswer, at_most, close


def check(step: Function) -> Facts:
    import jax.numpy as jnp
    import numpy as np

    n = 128
    w = np.linspace(1, 9, n * n, dtype=np.float32).reshape(n, n)
    g = np.linspace(30, -20, n * n, dtype=np.float32).reshape(n, n)
    result = step(jnp.array(w), jnp.array(g))
    yield close("the new weights", result, w - 0.1 * g, rtol=2e-2)
    arrays = jnp.array(w), jnp.array(g)
    memory = jaxlens.memory(step, *arrays)
    proof = Proof(jaxlens.memory, (step, *arrays))
    donated = [entry for entry in memory.donations if entry.donated]
    used = [entry for entry in donated if entry.result]
    if donated:
        hint = "; ".join(f"{entry.name} is donated, but {entry.why}" for entry in donated) + "."
    else:
        hint = "`step` donates none of its arguments, so all of them stay there beside the result."
    words = ", ".join(f"{entry.name} holds {entry.result}" for entry in used) or "none"
    yield Fact("donated arrays that hold a result", "1", words, len(used) == 1, hint, proof)
    limit = 2 * n * n * 4 + 4096
    hint = "Something between the arguments and the result has memory of its own."
    yield at_most("memory of a call", memory.reserved, limit, unit="B", hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="11.1",
    title="Two arrays are enough",
    task="""\
A call of `step` needs memory for three arrays: `w`, `g`, and the new `w`. Change it so that two are
enough, and the result is the same.
""",
    starter="""\
from functools import partial


@jax.jit
def step(w, g):
    return w - 0.1 * g
""",
    solution="""\
from functools import partial


@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return w - 0.1 * g
""",
    wrong=(
        WrongAnswer(
            """\
from functools import partial


@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return (w - 0.1 * g).astype(jnp.bfloat16)
""",
            "has its shape, but is bf16",
        ),
        WrongAnswer(
            """\
from functools import partial


@partial(jax.jit, donate_argnames="w")
def step(w, g):
    return jnp.sum(w - 0.1 * g)
""",
            "the new weights, wanted shape (128, 128)",
        ),
        WrongAnswer(
            """\
@jax.jit
def step(w, g):
    w -= 0.1 * g
    return w
""",
            "donates none",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
from functools import partial


@partial(jax.jit, donate_argnames=("w", "g"))
def step(w, g):
    return w
""",
            "the new weights",
        ),
    ),
    hints=(
        "`%compile --memory step(jnp.ones((128, 128)), jnp.ones((128, 128)))`: what is reserved?",
        "The table *Donation* there says which argument could hold the result.",
        '`partial(jax.jit, donate_argnames="w")` gives the memory of `w` away.',
    ),
    check=check,
    after="The new weights are written where the old ones were.",
)
