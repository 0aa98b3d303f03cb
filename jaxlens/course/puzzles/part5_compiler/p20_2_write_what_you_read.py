"""Puzzle 20.2."""

from collections import Counter

import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    close,
)

_WANTED = {"exponential": 1, "reduce": 1, "divide": 1, "add": 1}
_SHAPES = ("parameter", "constant", "broadcast", "reshape", "call", "tuple", "convert")


def check(f: Function) -> Facts:
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    right = np.exp(x) / np.exp(x).sum(0)
    got = as_program(f, x)
    across = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    if np.shape(got) == across.shape and np.allclose(got, across, rtol=1e-4):
        hint = "`dimensions={0}` of a reduce is the axis that is gone: which has 4 elements here?"
    else:
        hint = "Read from the top: each name stands for the result of its line."
    yield close("f of random numbers", got, right, hint=hint)
    capture = jaxlens.capture(f, x)
    ops = Counter(node.opcode for node in capture.hlo.module.nodes())
    found = {name: n for name, n in sorted(ops.items()) if name not in _SHAPES}
    extra = [name for name in found if name not in _WANTED]
    if found.get("exponential", 0) > 1:
        hint = "The text has one exponential, read twice: give its result a name."
    elif extra:
        hint = f"The value is right. The text has no {' and no '.join(extra)}: write out its steps."
    else:
        hint = "Compare with the text, line by line."
    yield Fact(
        "ops (without constants and shapes)",
        ", ".join(f"{n} {name}" for name, n in sorted(_WANTED.items())),
        ", ".join(f"{n} {name}" for name, n in found.items()),
        found == _WANTED,
        hint,
        Proof(jaxlens.hlo, (capture,), {"stage": "hlo"}),
    )


PUZZLE = Puzzle(
    id="20.2",
    title="Write what you read",
    task="""\
Write the function of this program. The names of the lines are made up, the ops are not.

    x     = f32[4,3] parameter(0)
    e     = f32[4,3] exponential(x)
    zero  = f32[] constant(0)
    total = f32[3] reduce(e, zero), dimensions={0}, to_apply=add
    wide  = f32[4,3] broadcast(total), dimensions={1}
    ROOT  = f32[4,3] divide(e, wide)
""",
    starter="""\
def f(x):
    return x
""",
    solution="""\
def f(x):
    e = jnp.exp(x)
    return e / e.sum(axis=0)
""",
    wrong=(
        WrongAnswer(
            "def f(x):\n    e = jnp.exp(x)\n    return e / e.sum(axis=1, keepdims=True)\n",
            "the axis that is gone",
        ),
        WrongAnswer(
            "def f(x):\n    return jax.nn.softmax(x, axis=0)\n",
            "The text has no maximum",
        ),
        WrongAnswer(
            "def f(x):\n    return jnp.exp(x) / jnp.exp(x).sum(axis=0)\n",
            "one exponential, read twice",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(x):
    e = jnp.exp(x)
    return e / (e[0] + e[1] + e[2] + e[3])
""",
            "The value is right",
        ),
    ),
    hints=(
        "Run `%hlo --stage hlo f(x)` on your function, and lay the two texts side by side.",
        "A reduce with `to_apply=add` is a sum. Its `dimensions` are the axes that it sums over.",
        "`e = jnp.exp(x)`, then `e` divided by its sum over axis 0.",
    ),
    check=check,
    after="You read HLO: it is softmax, without the maximum that keeps it from overflowing.",
)
