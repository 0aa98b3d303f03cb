"""Which step of a tape recorded which equation of the finished program.

An equation that was made anew later, as those of a loop are when it is differentiated, has the
traceback of the one that it stands for, and belongs to the same line. What a library traced within
a line (the body of a `jit` of JAX's own) belongs to the line of its call.
"""

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.ir.jaxpr.types import type_of

_MOST = 3  # results and operands of an equation that are written out

Part = tuple[tuple[int, str], int]
"""What tells an equation while it is recorded, and the identity of its traceback, 0 for none."""


def part(eqn: Any) -> Part:
    """An equation's part of a step; whoever keeps it must keep the equation too."""
    return key(eqn), _traceback(eqn)


def alive(eqn: Any) -> Any:
    """An equation; JAX holds some weakly, and lets go of those that nothing reads."""
    return eqn() if isinstance(eqn, weakref.ref) else eqn


def key(eqn: Any) -> tuple[int, str]:
    """What tells an equation from others while they live."""
    source = eqn.source_info
    if isinstance(source.name_stack, tuple):  # the core's, whose equations stay the same objects
        return id(eqn), ""
    return id(source), eqn.primitive.name


def words(eqn: Any) -> str:
    """An equation of a trace that did not end, by types: "bool[] = gt f32[] 0.0"."""
    read = getattr(eqn, "in_tracers", None) or eqn.invars
    types = [str(type_of(variable.aval)) for variable in eqn.outvars]
    made = ", ".join(types[:_MOST]) + (", ..." if len(types) > _MOST else "")
    name = eqn.params.get("name", "")
    called = f"{eqn.primitive} {name}" if isinstance(name, str) and name else str(eqn.primitive)
    more = " ..." if len(read) > _MOST else ""
    return f"{made} = {called} {' '.join(map(_operand, read[:_MOST]))}{more}".rstrip()


def _operand(atom: Any) -> str:
    """A number as it is, anything else by its type."""
    literal = getattr(atom, "val", None)  # a literal's number; a tracer's variable or literal
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
    """The ids of the equations that each step recorded, and those that no step did.

    Args:
        steps: What each step recorded.
        jaxpr: What the trace made.
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
    for one in final:  # those that hold others first
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
    """An equation of the finished program: its id, and what tells it while it is recorded."""

    id: str
    key: tuple[int, str]
    place: int
    backward: bool
    holder: str


def _final(jaxpr: Any) -> list[_Made]:
    """Every equation, callers before callees."""
    found: list[_Made] = []
    turned: set[int] = set()  # bodies of the backward pass
    holders: dict[int, str] = {}
    transposed = cache(lambda stack: "transpose" in str(stack))  # few stacks, and long to print
    for number, body in bodies(opened(jaxpr)).items():
        for n, (eqn, ident) in enumerate(zip(body.jaxpr.eqns, body.ids, strict=True)):
            back = number in turned or transposed(eqn.source_info.name_stack)
            if back:
                turned.update(map(id, body.inner.get(n, ())))
            for held in body.inner.get(n, ()):
                holders.setdefault(id(held), ident)
            found.append(_Made(ident, *part(eqn), back, holders.get(number, "")))
    return found
