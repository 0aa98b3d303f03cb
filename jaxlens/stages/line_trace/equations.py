"""Assigns the equations of the finished jaxpr to the steps of a line trace.

A transform may replace an equation later, as differentiation does with those of a loop. The new
equation keeps the traceback of the old one and is assigned to the same step. An equation that a
library traces within a line (in the body of JAX's own `jit`) is assigned to the line of the call.
"""

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.ir.jaxpr.types import type_of

_MOST = 3  # results and operands in the text of an equation

Part = tuple[tuple[int, str], int]
"""The key of an equation (`key`), and the id of its traceback, 0 for none."""


def part(eqn: Any) -> Part:
    """Returns the `Part` of an equation. It holds ids: the caller must keep the equation alive."""
    return key(eqn), _traceback(eqn)


def alive(eqn: Any) -> Any:
    """Dereferences an equation that JAX keeps as a weakref; None if it was garbage-collected."""
    return eqn() if isinstance(eqn, weakref.ref) else eqn


def key(eqn: Any) -> tuple[int, str]:
    """Returns a key that is unique among the live equations."""
    source = eqn.source_info
    if isinstance(source.name_stack, tuple):  # `jaxlens.core` never replaces its equation objects
        return id(eqn), ""
    return id(source), eqn.primitive.name


def equation_text(eqn: Any) -> str:
    """Returns the text of an equation of an unfinished trace: "bool[] = gt f32[] 0.0"."""
    read = getattr(eqn, "in_tracers", None) or eqn.invars
    types = [str(type_of(variable.aval)) for variable in eqn.outvars]
    made = ", ".join(types[:_MOST]) + (", ..." if len(types) > _MOST else "")
    name = eqn.params.get("name", "")
    called = f"{eqn.primitive} {name}" if isinstance(name, str) and name else str(eqn.primitive)
    more = " ..." if len(read) > _MOST else ""
    return f"{made} = {called} {' '.join(map(_operand, read[:_MOST]))}{more}".rstrip()


def _operand(atom: Any) -> str:
    """Returns the value of a scalar literal, the type of any other operand."""
    literal = getattr(atom, "val", None)  # value of a Literal; Var or Literal of a tracer
    number = getattr(literal, "val", literal)
    if isinstance(number, bool | int | float | complex):
        return str(number)
    if isinstance(number, np.generic | np.ndarray) and number.ndim == 0:
        return str(number.item())
    return str(type_of(atom.aval))


def _traceback(eqn: Any) -> int:
    traceback = getattr(eqn.source_info, "traceback", None)
    return 0 if traceback is None else id(traceback)


def given(steps: Sequence[Iterable[Part]], jaxpr: Any) -> tuple[list[tuple[str, ...]], list[str]]:
    """Returns the ids of the equations that each step recorded, and of those assigned to none.

    Args:
        steps: The parts that each step recorded.
        jaxpr: The jaxpr that the trace returned.
    """
    final = _final(jaxpr)
    ids: dict[tuple[int, str], list[str]] = {}
    for one in reversed(final):
        ids.setdefault(one.key, []).append(one.id)
    home: dict[str, int] = {}
    places: dict[int, int] = {}
    for n, step in enumerate(steps):
        for told, place in step:
            if place:
                places.setdefault(place, n)
            if waiting := ids.get(told):
                home[waiting.pop()] = n
    # An equation without a step of its own is assigned by its traceback, else with the equation
    # whose body contains it. A line with `lax.scan(f, x, ys)` records a scan; differentiation
    # replaces the scan by a new one with the same traceback. The traceback of a backward equation
    # is that of a forward line, which did not record it: only its enclosing equation counts.
    for one in final:  # enclosing equations first
        if one.id in home:
            continue
        if not one.backward and one.place in places:
            home[one.id] = places[one.place]
        elif one.holder in home:
            home[one.id] = home[one.holder]
    made: list[list[str]] = [[] for _ in steps]
    for one in sorted(final, key=lambda one: int(one.id[1:])):
        if one.id in home:
            made[home[one.id]].append(one.id)
    return list(map(tuple, made)), [one.id for one in final if one.id not in home]


@dataclass(frozen=True, slots=True)
class _Made:
    """An equation of the finished jaxpr: its id, key, traceback and enclosing equation."""

    id: str
    key: tuple[int, str]
    place: int
    backward: bool
    holder: str


def _final(jaxpr: Any) -> list[_Made]:
    """Returns all equations, an enclosing equation before those of its body."""
    found: list[_Made] = []
    turned: set[int] = set()  # ids of jaxprs in the backward pass
    holders: dict[int, str] = {}
    transposed = cache(lambda stack: "transpose" in str(stack))  # few stacks, and str() is slow
    for number, body in bodies(opened(jaxpr)).items():
        for n, (eqn, ident) in enumerate(zip(body.jaxpr.eqns, body.ids, strict=True)):
            back = number in turned or transposed(eqn.source_info.name_stack)
            if back:
                turned.update(map(id, body.inner.get(n, ())))
            for held in body.inner.get(n, ()):
                holders.setdefault(id(held), ident)
            found.append(_Made(ident, *part(eqn), back, holders.get(number, "")))
    return found
