"""Compares the program that a call runs from JAX's cache with the one that the function makes now.

JAX keys a trace by the function and the types of its arguments. A global, a closed-over number or
a helper that has changed is not in the key, so the call still runs the earlier program.
"""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxlens.ir.jaxpr.bodies import Finder, opened
from jaxlens.ir.jaxpr.types import type_of

_LARGE = 16 * 2**20  # bytes of one constant from which its numbers are not compared
_PLAIN = (bool, int, float, complex, str, bytes, tuple, type(None))


def difference(before: Any, now: Any) -> str:
    """Returns the first difference of two traced programs in a few words; "" for none.

    Variables are compared by the position of their definition. Parameters that are functions or
    objects are not compared: their effect is in a nested jaxpr.

    Args:
        before: The earlier closed jaxpr.
        now: The new one.
    """
    find = Finder()
    pending, compared = [(before, now)], set[tuple[int, int]]()
    while pending:
        old, new = pending.pop()
        bodies = opened(old), opened(new)
        key = id(bodies[0]), id(bodies[1])
        if key in compared:
            continue
        compared.add(key)
        if change := _constants(old, new) or _equations(*bodies):
            return change
        for eqns in zip(bodies[0].eqns, bodies[1].eqns, strict=True):
            inner = [[body for _, body in find.jaxprs(eqn.params)] for eqn in eqns]
            if len(inner[0]) != len(inner[1]):
                return f"its {eqns[0].primitive} is another"
            pending += zip(*inner, strict=True)
    return ""


def _constants(old: Any, new: Any) -> str:
    """Returns how the arrays that two closed jaxprs captured differ."""
    constants = [getattr(closed, "consts", None) or () for closed in (old, new)]
    if len(constants[0]) != len(constants[1]):
        return "it captured other arrays"
    for was, now in zip(*constants, strict=True):
        if was is not now and not _equal(was, now):
            return f"an array of type {type_of(jax.typeof(now))} that it captured has other numbers"
    return ""


def _equal(old: Any, new: Any) -> bool:
    """Whether two constants have the same numbers; True if they cannot be compared."""
    if getattr(old, "nbytes", 0) > _LARGE:
        return True
    try:
        return bool(np.array_equal(np.asarray(old), np.asarray(new), equal_nan=True))
    except (TypeError, ValueError, RuntimeError):  # keys, deleted arrays, numbers without NaN
        return True


def _equations(old: Any, new: Any) -> str:
    """Returns the first difference of two jaxprs, without the jaxprs nested in them."""
    if len(old.eqns) != len(new.eqns):
        return f"it has {len(old.eqns)} equations where this one has {len(new.eqns)}"
    for (name, reads, params), (other, now, others) in zip(_lines(old), _lines(new), strict=True):
        if name != other or len(reads) != len(now):
            return f"it has {name} where this one has {other}"
        for was, its in zip(reads, now, strict=True):
            if was != its and not name:
                return "it returns other values"
            if was != its and isinstance(was, str) and isinstance(its, str):
                return f"its {name} reads {was} where this one reads {its}"
            if was != its:
                return f"its {name} reads another value"
        for param, value in params.items():
            if others.get(param, value) != value:
                return f"its {name} has {param}={value}, this one {others[param]}"
    return ""


def _lines(jaxpr: Any) -> Iterator[tuple[str, list[Any], dict[str, str]]]:
    """Yields primitive, operands and plain parameters of each equation, and the results."""
    places = {id(var): n for n, var in enumerate((*jaxpr.constvars, *jaxpr.invars))}
    for eqn in jaxpr.eqns:
        plain = {n: str(v) for n, v in eqn.params.items() if n != "name" and _is_plain(v)}
        yield str(eqn.primitive), [_read(atom, places) for atom in eqn.invars], plain
        for variable in eqn.outvars:
            places[id(variable)] = len(places)
    yield "", [_read(atom, places) for atom in jaxpr.outvars], {}


def _read(atom: Any, places: dict[int, int]) -> Any:
    """Returns a literal's text and type, or the position of a variable's definition."""
    if hasattr(atom, "val"):
        return f"{atom.val}:{type_of(atom.aval)}"
    return places.get(id(atom))


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) and (
        not isinstance(value, tuple) or all(map(_is_plain, value))
    )
