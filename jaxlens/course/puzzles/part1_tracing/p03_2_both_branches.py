"""Puzzle 3.2."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxlens.course.puzzle import Fact, Puzzle, WrongAnswer, close, traced


def check(size: Callable[..., Any]) -> Iterator[Fact]:
    import jax

    numbers = np.array([3.0, -3.0, 0.5, -20.0], np.float32)
    hint = "The size of a number is the number without its sign."
    yield close("size of each number", [size(x) for x in numbers], np.abs(numbers), hint=hint)
    hint = "While JAX traces, `x` has no value, so Python cannot go one way or the other."
    fact = traced(size, numbers[0], hint=hint)
    if fact.actual == "ConcretizationTypeError":
        fact = traced(size, numbers[0], hint="There is no number yet that `float` could return.")
    yield fact
    jitted = jax.jit(lambda x: size(x))
    hint = "The program has only the branch that was traced; both must be in it."
    yield close("size under jit", [jitted(x) for x in numbers], np.abs(numbers), hint=hint)


PUZZLE = Puzzle(
    id="3.2",
    title="Both branches",
    task="""\
`size` works on numbers, and `jax.jit(size)` raises an error. Write it so that it is right **under
`jit`, for both signs**.
""",
    starter="""\
def size(x):
    if x > 0:
        return x
    return -x
""",
    solution="""\
def size(x):
    return jnp.where(x > 0, x, -x)
""",
    wrong=(
        WrongAnswer(
            """\
def size(x):
    if float(x) > 0:
        return x
    return -x
""",
            "no number yet",
        ),
        WrongAnswer(
            """\
def size(x):
    return max(x, -x)
""",
            "Python cannot go one way or the other",
        ),
        WrongAnswer(
            """\
def size(x):
    if isinstance(x, jax.core.Tracer) or x > 0:
        return x
    return -x
""",
            "only the branch that was traced",
        ),
    ),
    hints=(
        "The error says which value Python needed. Is it known before the program runs?",
        "If Python cannot choose, the program must: it needs both values.",
        "`jnp.where(condition, a, b)` chooses element by element, when the program runs.",
    ),
    check=check,
    after="An `if` chooses while JAX traces, `jnp.where` when the program runs.",
)
