"""Puzzle 5.2."""

from dataclasses import replace

import numpy as np

from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, close, traced


def check(limit: Function) -> Facts:
    import jax

    numbers = np.array([0.25, -3.0, 7.0, 0.75], np.float32)
    right = np.clip(numbers, 0, 1)
    hint = "Below 0 it is 0, above 1 it is 1, and between them the number itself."
    yield close("limit of four numbers", [limit(x) for x in numbers], right, hint=hint)
    fact = traced(limit, numbers[0])
    if fact.actual == "ConcretizationTypeError":
        hint = "There is no number yet that `float` could return."
    elif fact.actual == "TracerArrayConversionError":
        hint = "NumPy needs numbers, and a tracer has none. `jnp` has the same function."
    else:
        hint = "While JAX traces, `x` has no value, so Python cannot choose a branch."
    yield replace(fact, hint=hint)
    jitted = jax.jit(lambda x: limit(x))
    numbers = np.append(numbers, np.array([-0.5, 1.5], np.float32))
    right = np.clip(numbers, 0, 1)
    hint = "Not all branches are in the program: Python chose one while JAX traced."
    yield close("limit under jit", [jitted(x) for x in numbers], right, hint=hint)


PUZZLE = Puzzle(
    id="5.2",
    title="All branches",
    task="""\
`limit` keeps a number between 0 and 1. It works when Python runs it, but under `jit` it raises an
error. Write it so that it is right **under `jit`, in all three cases**.
""",
    starter="""\
def limit(x):
    if x < 0:
        return 0.0
    if x > 1:
        return 1.0
    return x
""",
    solution="""\
def limit(x):
    return jnp.where(x < 0, 0.0, jnp.where(x > 1, 1.0, x))
""",
    wrong=(
        WrongAnswer(
            """\
def limit(x):
    if float(x) < 0:
        return 0.0
    return jnp.where(x > 1, 1.0, x)
""",
            "no number yet",
        ),
        WrongAnswer(
            """\
def limit(x):
    return min(max(x, 0.0), 1.0)
""",
            "Python cannot choose a branch",
        ),
        WrongAnswer(
            """\
def limit(x):
    return np.clip(x, 0, 1)
""",
            "`jnp` has the same function",
        ),
        WrongAnswer(
            """\
def limit(x):
    return jnp.where(x > 1, 1.0, x)
""",
            "Below 0 it is 0",
        ),
        WrongAnswer(
            """\
def limit(x):
    try:
        return min(max(float(x), 0.0), 1.0)
    except TypeError:
        return x
""",
            "Python chose one while JAX traced",
        ),
        WrongAnswer(
            """\
from jax import pure_callback


def limit(x):
    shape = jax.ShapeDtypeStruct((), np.float32)
    return pure_callback(lambda x: np.float32(min(max(x, 0.0), 1.0)), shape, x)
""",
            "calls Python back",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def limit(x):
    return jnp.where(x < -1, 0.0, jnp.where(x > 5, 1.0, x))
""",
            "limit under jit",
        ),
    ),
    hints=(
        "The error names a value that Python needed. Is it known before the program runs?",
        "If Python cannot choose, the program must: it needs the value of every branch.",
        "`jnp.where(condition, a, b)` chooses when the program runs. `a` and `b` can themselves be "
        "`jnp.where(...)`.",
    ),
    check=check,
    after="An `if` chooses while JAX traces, `jnp.where` when the program runs.",
)
