"""Puzzle 5.3."""

from dataclasses import replace

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, at_most, close, traced


def check(total: Function) -> Facts:
    import jax

    first = np.array([-1.0, 2.0, 3.0, -4.0], np.float32)
    arrays = (first, -first, first * 0, abs(first))
    right = [x[x > 0].sum() for x in arrays]
    positive = "Only the positive numbers are added; without any, the sum is 0."
    result = total(jax.numpy.asarray(first))
    one = "`total` is one number: the sum over all elements."
    yield close("total(x)", result, right[0], hint=one if np.shape(result) else positive)
    hint = "How many numbers are positive is not known while JAX traces, so neither is the shape."
    fact = traced(total, first)
    if fact.actual == "TracerBoolConversionError":
        hint = "Whether a number is positive is not known while JAX traces: Python cannot choose."
    elif fact.actual == "TracerArrayConversionError":
        hint = "NumPy needs numbers, and a tracer has none. Keep to `jnp`."
    yield replace(fact, hint=hint)
    jitted = jax.jit(lambda x: total(x))
    with jaxlens.recompiles() as log:
        results = [jitted(x) for x in arrays]
    yield close("total under jit", results, right, hint=positive)
    hint = "One program must do for every array of four numbers."
    yield at_most("compiles", log.compiles, 1, hint=hint, evidence=lambda: log)


PUZZLE = Puzzle(
    id="5.3",
    title="A sum without a shape",
    task="""\
`x[x > 0]` has as many elements as `x` has positive numbers. A shape must be known while JAX traces,
so this cannot be jitted. Write `total` so that **one program** adds the positive numbers of any
array of four.
""",
    starter="""\
def total(x):
    return x[x > 0].sum()
""",
    solution="""\
def total(x):
    return jnp.where(x > 0, x, 0.0).sum()
""",
    wrong=(
        WrongAnswer(
            """\
def total(x):
    (places,) = jnp.nonzero(x > 0)
    return x[places].sum()
""",
            "so neither is the shape",
        ),
        WrongAnswer(
            """\
def total(x):
    return sum(v for v in x if v > 0)
""",
            "Python cannot choose",
        ),
        WrongAnswer(
            """\
def total(x):
    return jnp.where(x > 0, x, 0.0)
""",
            "one number",
        ),
        WrongAnswer(
            """\
def total(x):
    return jnp.abs(x).sum()
""",
            "Only the positive numbers",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def total(x):
    return x[jnp.array([1, 2])].sum()
""",
            "Only the positive",
        ),
    ),
    hints=(
        "Which shape would `x[x > 0]` have in `%jaxpr`? JAX must write one down.",
        "Keep all four elements. What can stand where a number is not to count?",
        "Put 0 in place of what is not positive, with `jnp.where`, then add all.",
    ),
    check=check,
    seconds=20.0,
    after="Shapes stay, values change: mask an element where NumPy would drop it.",
)
