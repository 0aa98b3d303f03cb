"""Puzzle 21.3."""

from collections import Counter

import jax.numpy as jnp

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, equal


def check(f: Function) -> Facts:
    capture = jaxlens.capture(f, jnp.ones((64, 32)))
    count = Counter(node.opcode for node in capture.jaxpr.module.nodes())["transpose"]
    hint = "`x.T` is one transpose, and `x.T.T` two."
    shown = Proof(jaxlens.jaxpr, (capture,))
    yield equal("transposes in the jaxpr", count, 2, hint=hint, evidence=shown)
    ops = Counter(node.opcode for node in capture.optimized.module.nodes())
    left = ops["transpose"] + ops["copy"]
    hint = (
        "Between the two stands something that works on the transposed array."
        if ops["transpose"]
        else "A program that returns its argument as it is must copy it: compute something too."
    )
    proof = Proof(jaxlens.hlo, (capture,), {"stage": "optimized"})
    yield equal("transposes and copies at the end", left, 0, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="21.3",
    title="Two transposes that vanish",
    task="""\
Write a function of `x`, an `f32[64,32]`, with **two** transposes in its jaxpr, such that the
optimised program moves nothing: no `transpose` and no `copy` is left in it.
""",
    starter="""\
def f(x):
    return x.T + 1
""",
    solution="""\
def f(x):
    return x.T.T + 1
""",
    wrong=(
        WrongAnswer(
            "def f(x):\n    return jnp.sort(x.T, axis=1).T\n",
            "works on the transposed array",
        ),
        WrongAnswer("def f(x):\n    return x.T.T.T + 1\n", "transposes in the jaxpr, wanted 2"),
    ),
    cheats=(WrongAnswer("def f(x):\n    return x.T.T\n", "must copy it"),),
    hints=(
        "`%hlo f(x)`: which operations does the optimised program still have?",
        "Two transposes that follow one another change nothing.",
        "`x.T.T`, and something that gives a result of its own: a program that returns its "
        "argument as it is must still copy it.",
    ),
    check=check,
    after="XLA rewrites by rules of algebra: a transpose of a transpose is the array itself.",
)
