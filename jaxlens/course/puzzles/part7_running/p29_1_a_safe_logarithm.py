"""Puzzle 29.1."""

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
    figure,
)


def check(safe_log: Function) -> Facts:
    import jax

    hint = "For x > 0 it is the logarithm, and 0 elsewhere."
    for x, wanted in ((2.0, np.log(2.0)), (0.0, 0.0), (-1.0, 0.0)):
        yield close(f"safe_log({x:g})", safe_log(x), wanted, hint=hint)
    hint = "A small x has a logarithm of its own: nothing may be added to x, and no x replaced."
    for x in (1e-8, 1e-31, 1e-37):
        yield close(f"safe_log({x:g})", safe_log(x), np.log(x), hint=hint)
    row = np.array([2.0, 0.0, -1.0], np.float32)
    hint = "The losses of this lesson call it on an array."
    right = [np.log(2.0), 0.0, 0.0]
    yield close("safe_log of an array", safe_log(row), right, hint=hint)
    found = as_program(safe_log, row + 1)
    yield close("of other numbers, in a program", found, [np.log(3.0), 0.0, 0.0], hint=hint)
    gradient = jax.grad(safe_log)
    yield close("gradient at 2", gradient(2.0), 0.5, hint="There it is a logarithm.")
    hint = "A derivative of 1/0 times 0 is no number: the logarithm was taken at 0 all the same."
    for x in (0.0, -1.0):
        found = float(gradient(x))
        proof = Proof(jaxlens.jaxpr, (gradient, x))
        name = f"gradient at {x:g}"
        yield Fact(name, "finite", figure(found), bool(np.isfinite(found)), hint, proof)


PUZZLE = Puzzle(
    id="29.1",
    title="A safe logarithm",
    task="""\
The values of `safe_log` are right: it takes a number or an array, and is 0 wherever x is not
positive. But its gradient at 0 is NaN. Change it so that the values stay as they are, and the
gradient is **finite everywhere**.
""",
    starter="""\
def safe_log(x):
    return jnp.where(x > 0, jnp.log(x), 0.0)
""",
    solution="""\
def safe_log(x):
    y = jnp.where(x > 0, x, 1.0)
    return jnp.where(x > 0, jnp.log(y), 0.0)
""",
    wrong=(
        WrongAnswer(
            """\
def safe_log(x):
    return jnp.where(x > 0, jnp.log(jnp.abs(x) + 1e-30), 0.0)
""",
            "nothing may be added to x",
        ),
        WrongAnswer(
            """\
def safe_log(x):
    return jnp.log(x) if x > 0 else 0.0
""",
            "truth value of an array",
        ),
        WrongAnswer(
            """\
def safe_log(x):
    return jnp.nan_to_num(jnp.log(x), nan=0.0, neginf=0.0)
""",
            "no number",
        ),
        WrongAnswer(
            """\
def safe_log(x):
    return jnp.log(jnp.maximum(x, 1e-6))
""",
            "0 elsewhere",
        ),
        WrongAnswer(
            """\
def safe_log(x):
    y = jnp.where(x > 0, x, 1.0)
    return jnp.log(y + 0.01)
""",
            "safe_log(2)",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def safe_log(x):
    y = jnp.where(x > 1e-9, x, 1.0)
    return jnp.where(x > 1e-9, jnp.log(y), 0.0)
""",
            "no x replaced",
        ),
    ),
    hints=(
        "Run `%jaxpr --grad safe_log(0.0)`: which equation divides by x?",
        "Both branches of a `where` are computed, and both are differentiated, at every x.",
        "Choose a harmless x before the logarithm; then choose the result as before: two `where`s.",
    ),
    check=check,
    after="The logarithm never sees 0, so no 1/0 is there to be multiplied by 0.",
)
