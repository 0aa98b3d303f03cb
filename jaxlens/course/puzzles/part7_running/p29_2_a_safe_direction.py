"""Puzzle 29.2."""

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

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


def check(direction: Function) -> Facts:
    import jax
    import jax.numpy as jnp

    hint = "The length of (3, 4, 0) is 5, and each number is divided by it."
    found = as_program(direction, jnp.array([3.0, 4.0, 0.0]))
    yield close("direction of (3, 4, 0)", found, [0.6, 0.8, 0.0], hint=hint)
    zero = jnp.zeros(3)
    hint = "0/0 was computed on the way, even if something else was returned. Guard the divisor."
    yield _no_nan("direction of (0, 0, 0)", direction, zero, hint)
    yield close("direction of (0, 0, 0)", direction(zero), [0.0, 0.0, 0.0])

    def first(x: Any) -> Any:
        return direction(x)[0]

    hint = (
        "The derivative of the root divides by the root, which is 0 there, or nearly. Let a "
        "number like 1 go into the root instead."
    )
    yield _no_nan("gradient at (0, 0, 0)", jax.grad(first), zero, hint)
    slope = jax.grad(first)(jnp.array([3.0, 4.0, 0.0]))
    hint = "Away from zero it has the derivative of x divided by its length."
    yield close("gradient at (3, 4, 0)", slope, [0.128, -0.096, 0.0], hint=hint)
    found = direction(jnp.array([3e-18, 4e-18, 0.0]))
    hint = "A short vector has a direction too: nothing may be added to its length."
    yield close("direction of (3e-18, 4e-18, 0)", found, [0.6, 0.8, 0.0], hint=hint)


def _no_nan(name: str, f: Function, x: Any, hint: str) -> Fact:
    """Returns the fact that no operation of `f(x)` gives a NaN, by JAX's own check of each."""
    import jax

    proof = Proof(jaxlens.jaxpr, (f, x))
    try:
        with jax.debug_nans(True), redirect_stdout(StringIO()):  # JAX prints that it looks closer
            value = np.asarray(f(x))
    except FloatingPointError:
        return Fact(name, "no NaN on the way", "FloatingPointError", False, hint, proof)
    holds = not np.isnan(value).any()
    return Fact(name, "no NaN on the way", "none" if holds else "NaN", holds, hint, proof)


PUZZLE = Puzzle(
    id="29.2",
    title="The direction of nothing",
    task="""\
`direction(x)` is `x` divided by its length. For a vector of zeros it should return zeros, and
neither its value nor its gradient there may compute a NaN **on the way**: the check runs both
under `jax.debug_nans(True)`.
""",
    starter="""\
def direction(x):
    return x / jnp.sqrt(jnp.sum(x * x))
""",
    solution="""\
def direction(x):
    squares = jnp.sum(x * x)
    safe = jnp.where(squares > 0, squares, 1.0)
    return x / jnp.sqrt(safe)
""",
    wrong=(
        WrongAnswer(
            """\
def direction(x):
    return x / jnp.sqrt(jnp.sum(x * x) + 1e-12)
""",
            "nothing may be added to its length",
        ),
        WrongAnswer(
            """\
def direction(x):
    length = jnp.sqrt(jnp.sum(x * x))
    return jnp.where(length > 0, x / length, 0.0)
""",
            "Guard the divisor",
        ),
        WrongAnswer(
            """\
def direction(x):
    return x / jnp.maximum(jnp.sqrt(jnp.sum(x * x)), 1e-6)
""",
            "go into the root",
        ),
        WrongAnswer(
            """\
def direction(x):
    return x * lax.rsqrt(jnp.maximum(jnp.sum(x * x), 1e-30))
""",
            "or nearly",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def direction(x):
    squares = jnp.sum(x * x)
    safe = lax.stop_gradient(jnp.where(squares > 0, squares, 1.0))
    return x / jnp.sqrt(safe)
""",
            "Away from zero",
        ),
    ),
    hints=(
        "Run `direction(jnp.zeros(3))` in `with jax.debug_nans(True):` and read the error.",
        "Two operations are dangerous at 0: the division, and the derivative of the root.",
        "Choose a harmless sum of squares with `where` before the root, as in puzzle 29.1.",
    ),
    check=check,
    after="One guard, placed before the first dangerous operation, protects all that follow.",
)
