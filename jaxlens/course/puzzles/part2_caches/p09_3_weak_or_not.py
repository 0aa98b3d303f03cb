"""Puzzle 9.3."""

from typing import Any

import jaxlens
from jaxlens.course.puzzle import Facts, Puzzle, WrongAnswer, equal


def check(first: Any, second: Any) -> Facts:
    import jax

    types = [jax.typeof(value) for value in (first, second)]
    double = jax.jit(lambda x: x * 2)
    double(first)
    with jaxlens.recompiles() as log:
        double(second)

    one, other = ((str(aval.shape), str(aval.dtype), aval.weak_type) for aval in types)
    hint = "Another shape is a reason of its own. Both are single numbers."
    yield equal("shape of second", other[0], one[0], hint=hint)
    hint = "Another dtype is a reason of its own. Find two of the same dtype."
    yield equal("dtype of second", other[1], one[1], hint=hint)
    both = "Both are weak" if one[2] else "Neither is weak"
    hint = f"{both}, so the key is the same: where does a weak number come from?"
    yield equal("compiles for second", log.compiles, 1, hint=hint, evidence=lambda: log)


PUZZLE = Puzzle(
    id="9.3",
    title="The same number, compiled again",
    task="""\
A jitted function is called with `first`, then with `second`. Choose two numbers of the same shape
and the same dtype, such that the second call still **compiles again**.
""",
    starter="first = jnp.float32(1)\nsecond = jnp.float32(2)\n",
    solution="first = jnp.float32(1)\nsecond = 2.0\n",
    wrong=(
        WrongAnswer("first = jnp.float32(1)\nsecond = 2\n", "Another dtype is a reason"),
        WrongAnswer("first = 1.0\nsecond = 2.0\n", "where does a weak number come from"),
        WrongAnswer("first = None\nsecond = 2.0\n", "'<class 'NoneType'>' is not a valid JAX type"),
    ),
    cheats=(
        WrongAnswer(
            "first = jnp.float32(1)\nsecond = np.float64(2)\n", "where does a weak number come from"
        ),
    ),
    hints=(
        "After a call of `f(first)`, `jaxlens.key(f, second)` says whether it would compile.",
        "Look at how each is written in the key: which of them has the word `weak`?",
        "A Python number is weak; the same number as a JAX or NumPy array is not.",
    ),
    check=check,
    after=(
        "Shape and dtype are not the whole key. A weak number, for one, takes the dtype of what "
        "it meets, so the two calls may compute different things."
    ),
)
