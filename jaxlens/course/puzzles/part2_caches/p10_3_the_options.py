"""Puzzle 10.3."""

from itertools import count

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Function, Puzzle, WrongAnswer, close

_SIZES = count(5)  # every check has a size of its own, which no earlier one compiled for


def check(f: Function, Options: Function) -> Facts:  # noqa: N803
    import numpy as np

    x = np.ones(next(_SIZES), np.float32)
    factors = (3, 3, 4)
    with jaxlens.recompiles() as log:
        try:
            results = [np.asarray(f(x, Options(factor))) for factor in factors]
        except ValueError as error:
            if "hash" not in str(error):
                raise
            hint = "A class that defines `==` has no hash, unless it is frozen or defines that too."
            reason = str(error).strip().rpartition("\n")[2]
            yield Fact("looking up Options(3)", "a hash", reason, False, hint)
            return
    for place, (factor, result) in enumerate(zip(factors, results, strict=True), 1):
        other = result.shape == x.shape and np.allclose(result, x * 3)
        hint = "Options(4) was served the program of Options(3): they must not be equal."
        name = f"call {place}, with Options({factor})"
        yield close(name, result, x * factor, hint=hint if other else "")
    hint = "Two objects are different unless their class defines `==` and a hash that agrees."
    hint = hint if log.compiles else "Nothing was jitted: keep `jax.jit`."
    few = log.compiles in (1, 2)
    yield Fact("compiles", "1 or 2", str(log.compiles), few, hint, lambda: log)


SOLUTION = """\
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Options:
    factor: int


@partial(jax.jit, static_argnames="options")
def f(x, options):
    return x * options.factor
"""


def answer(options: str) -> str:
    """Returns an answer with another class `Options`."""
    start, end = SOLUTION.index("@dataclass"), SOLUTION.index("@partial")
    return SOLUTION[:start] + options + SOLUTION[end:]


PUZZLE = Puzzle(
    id="10.3",
    title="An object of options",
    task="""\
The check calls `f` with `Options(3)`, another `Options(3)`, and `Options(4)`, each made anew. It
compiles three times. Change `Options` so that **two** programs are enough.
""",
    starter=answer(
        """\
class Options:
    def __init__(self, factor):
        self.factor = factor


"""
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            answer(
                """\
class Options:
    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


"""
            ),
            "Options(4) was served the program of Options(3)",
        ),
        WrongAnswer(
            answer("@dataclass\nclass Options:\n    factor: int\n\n\n"),
            "unless it is frozen",
        ),
        WrongAnswer(
            answer(
                """\
class Options:
    def __init__(self, factor):
        self.factor = factor

    def __hash__(self):
        return hash(self.factor)


"""
            ),
            "unless their class defines",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Options:
    factor: int

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


@partial(jax.jit, static_argnames="options")
def f(x, options):
    return x * options.factor
""",
            "Options(4)",
        ),
    ),
    hints=(
        "What does Python say to `Options(3) == Options(3)`?",
        "A static argument is compared by `==`, and looked up by `hash`.",
        "`@dataclass(frozen=True)` above the class gives it both, made from its fields.",
    ),
    check=check,
    after="The key holds the object itself, so its `==` decides which program a call gets.",
)
