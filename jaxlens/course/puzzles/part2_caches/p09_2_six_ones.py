"""Puzzle 9.2."""

from collections.abc import Sequence
from typing import Any

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Puzzle, WrongAnswer, equal


def check(ones: Sequence[Any]) -> Facts:
    import jax
    import numpy as np

    yield equal("arguments", len(ones), 6, hint="`ones` has six elements, one for each call.")
    for place, one in enumerate(ones, 1):
        name = f"argument {place}"
        right = np.shape(one) == () and one == 1
        actual = repr(one) if np.shape(one) == () else f"shape {np.shape(one)}"
        hint = "Each of the six is a single number, and equal to 1."
        yield Fact(name, "the number 1", actual, bool(right), hint)
    plus_one = jax.jit(lambda x: x + 1)
    with jaxlens.recompiles() as log:
        for one in ones:
            plus_one(one)
    hint = (
        "A call compiles only if its type is new: a dtype, or weak where it was not."
        if log.compiles < 4
        else "Types are the key: let two of the arguments have the type of another."
    )
    wanted = 4
    yield equal("compiles", log.compiles, wanted, hint=hint, evidence=lambda: log)


PUZZLE = Puzzle(
    id="9.2",
    title="Six times one",
    task="""\
The check calls a jitted `x + 1` six times, with the six elements of `ones`. Every element must be
the number 1: no other value, and no axes. Choose them so that exactly **four** programs are
compiled.
""",
    starter="ones = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]\n",
    solution="ones = [1.0, 1.0, 1, 1, True, np.float32(1)]\n",
    wrong=(
        WrongAnswer(
            "ones = [1.0, 1, True, 1j / 1j, np.float32(1), np.int8(1)]\n",
            "let two of the arguments have the type of another",
        ),
        WrongAnswer("ones = [1.0, 1, 1.0, 1, 1.0, 1]\n", "only if its type is new"),
        WrongAnswer(
            "ones = [1.0, 2.0, 1, 2, True, False]\n",
            "argument 2, wanted the number 1, got 2.0",
        ),
        WrongAnswer(
            "ones = [1.0, 1.0, 1, 1, np.ones(3), np.ones(4)]\n", "a single number, and equal to 1"
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
ones = [1.0, 1.0, 1, 1, True, np.float32(1) + np.float32(1e-6)]
""",
            "argument 6",
        ),
    ),
    hints=(
        "Put `%%recompiles` above `f = jax.jit(lambda x: x + 1)` and a few calls of `f`.",
        "The value is never part of the key, so two equal types share a program.",
        "Python has `1.0`, `1`, and `True`; NumPy has a type for each dtype: `np.float32(1)`, say.",
    ),
    check=check,
    after="Six equal values, four types: the value is not in the key, and the type is.",
)
