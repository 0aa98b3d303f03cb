"""Puzzle 22.4."""

from typing import Any

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    at_most,
    close,
    edited,
)


def check(norm: Function) -> Facts:
    import jax.numpy as jnp

    def two_passes(x: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(1, keepdims=True))

    x = jnp.sin(jnp.arange(1.0, 13.0)).reshape(3, 4)
    hint = "Each row must have mean 0 and standard deviation 1."
    yield close("norm(x)", as_program(norm, x), two_passes(x), rtol=1e-3, hint=hint)
    big = jnp.sin(jnp.arange(512.0 * 512)).reshape(512, 512)
    yield close("norm(x) of 512x512", as_program(norm, big), two_passes(big), rtol=1e-2, hint=hint)
    moved = jaxlens.receipt(two_passes, big).moved
    capture = jaxlens.capture(norm, big)
    now = jaxlens.receipt(capture).moved
    hint = (
        "The deviations need the mean before they can be squared and summed, so they are "
        "written to memory and read again. Which two sums can be taken of `x` itself?"
    )
    proof = Proof(jaxlens.fusion, (capture,))
    limit = int(0.85 * moved)
    yield at_most("bytes moved", now, limit, unit="B", hint=hint, evidence=proof)


SOLUTION = """\
def norm(x):
    mean = x.mean(1, keepdims=True)
    square = (x * x).mean(1, keepdims=True)
    return (x - mean) / jnp.sqrt(square - mean * mean)
"""

PUZZLE = Puzzle(
    id="22.4",
    title="Fewer passes",
    task="""\
`norm` shifts and scales each row to mean 0 and standard deviation 1. It computes the mean, then the
deviations from it, then their squares, and so it goes through memory more often than it must.
Change it so that it moves **at most 85 %** of the bytes.
""",
    starter="""\
def norm(x):
    centred = x - x.mean(1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(1, keepdims=True))
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            "def norm(x):\n    return (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)\n",
            "written to memory and read again",
        ),
        WrongAnswer(
            edited(SOLUTION, ("square - mean * mean", "square")),
            "standard deviation 1",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def norm(x):
    x = x.astype(jnp.bfloat16)
    centred = x - x.mean(1, keepdims=True)
    return (centred / jnp.sqrt((centred**2).mean(1, keepdims=True))).astype(jnp.float32)
""",
            "standard deviation 1",
        ),
    ),
    hints=(
        "Run `%hlo --fusion` on the starter: which value is as large as `x` and travels?",
        "The variance is a difference of two means, and neither needs the other.",
        "The variance is the mean of the squares less the square of the mean.",
    ),
    check=check,
    after=(
        "Both sums are taken of `x` itself, so the deviations need not be written. The price is "
        "digits: where the mean is much larger than the deviations, the difference loses them."
    ),
    backends=("cpu",),
    seconds=30.0,
)
