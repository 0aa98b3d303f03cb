"""Puzzle 19.3."""

import operator
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    close,
    edited,
    equal,
)

_OPERATORS: dict[str, Function] = {
    "add": operator.add,
    "mul": operator.mul,
    "max": jax.lax.max,
    "min": jax.lax.min,
}
_INF = np.float32(np.inf)
_ROWS = (
    (-4.0, -2.0, -3.0),
    (3.0, 2.0, 4.0),
    (-1e30, -2e30),
    (1e30, 2e30),
    (-_INF, -_INF),
    (_INF, _INF),
)


def check(identity: Mapping[str, Any]) -> Facts:
    missing = sorted(set(_OPERATORS) - set(identity))
    yield equal("operators without an entry", missing, [])
    for name, combine in _OPERATORS.items():

        def reduced(x: Any, name: str = name, combine: Function = combine) -> Any:
            return jax.lax.reduce(x, np.float32(identity[name]), combine, (0,))

        for row in _ROWS:
            x = np.array(row, np.float32)
            with np.errstate(over="ignore"):
                right = getattr(np, {"add": "sum", "mul": "prod"}.get(name, name))(x)
            start = float(identity[name])
            hint = f"{name}({start:g}, x) must be x for every x. Try x = {row[0]:g}."
            if name in ("max", "min") and np.isinf(row[0]):
                hint += " Infinity is a number of float32 too."
            fact = close(f"{name} of {', '.join(f'{n:g}' for n in row)}", reduced(x), right)
            proof = Proof(jaxlens.jaxpr, (reduced, x))
            if not fact.holds:
                yield Fact(fact.name, fact.wanted, fact.actual, False, hint, proof)
        yield equal(f"{name}({start:g}, x) == x", "for every x", "for every x")


_SOLUTION = """\
identity = {
    "add": 0.0,
    "mul": 1.0,
    "max": -np.inf,
    "min": np.inf,
}
"""

PUZZLE = Puzzle(
    id="19.3",
    title="What changes nothing",
    task="""\
A reduction starts from a value that **changes nothing**: `combine(start, x) == x` for every `x` of
float32. For a sum it is 0. `lax.reduce(x, start, combine, (0,))` uses your table: fix it.
""",
    starter="""\
identity = {
    "add": 0.0,
    "mul": 0.0,
    "max": 0.0,
    "min": 0.0,
}
""",
    solution=_SOLUTION,
    wrong=(
        WrongAnswer(edited(_SOLUTION, ("-np.inf", "0.0")), "Try x = -4"),
        WrongAnswer(edited(_SOLUTION, ("-np.inf", "-1e9")), "Try x = -1e+30"),
    ),
    cheats=(
        WrongAnswer(edited(_SOLUTION, ('"min": np.inf', '"min": 1e38')), "Infinity is a number"),
    ),
    hints=(
        "Set an entry to 5 and reduce an array without elements: the result is the start itself.",
        "For which start is `start * x` always x? For which is `max(start, x)`?",
        "`np.inf` is larger than every other number of float32, and `-np.inf` smaller.",
    ),
    check=check,
    after="An associative operator and the value that changes nothing: together they are a monoid.",
)
