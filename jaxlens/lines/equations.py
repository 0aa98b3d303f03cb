"""Assigns the equations of the finished jaxpr to the steps of a line trace.

A transform may replace an equation later, as differentiation does with those of a loop. The new
equation keeps the traceback of the old one and is assigned to the same step. An equation that a
library traces within a line (in the body of JAX's own `jit`) is assigned to the line of the call.
"""

import weakref
from collections import defaultdict
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
    traceback = getattr(eqn.source_info, "traceback", None)
    return key(eqn), 0 if traceback is None else id(traceback)


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
    results = ", ".join(types[:_MOST]) + (", ..." if len(types) > _MOST else "")
    name = eqn.params.get("name", "")
    called = f"{eqn.primitive} {name}" if isinstance(name, str) and name else str(eqn.primitive)
    more = " ..." if len(read) > _MOST else ""
    return f"{results} = {called} {' '.join(map(_operand, read[:_MOST]))}{more}".rstrip()


def _operand(atom: Any) -> str:
    """Returns the value of a scalar literal, the type of any other operand."""
    literal = getattr(atom, "val", None)  # value of a Literal; Var or Literal of a tracer
    number = getattr(literal, "val", literal)
    if isinstance(number, bool | int | float | complex):
        return str(number)
    if isinstance(number, np.generic | np.ndarray) and number.ndim == 0:
        return str(number.item())
    return str(type_of(atom.aval))


def assigned(
    steps: Sequence[Iterable[Part]], jaxpr: Any
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Returns the ids of the equations that each step recorded, and of those assigned to none.

    Args:
        steps: The parts that each step recorded.
        jaxpr: The jaxpr that the trace returned.
    """
    final = _final(jaxpr)
    ids: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for equation in reversed(final):
        ids[equation.key].append(equation.id)
    home: dict[str, int] = {}  # step by id
    tracebacks: dict[int, int] = {}  # step by traceback
    for n, step in enumerate(steps):
        for key, traceback in step:
            if traceback:
                tracebacks.setdefault(traceback, n)
            if pending := ids.get(key):
                home[pending.pop()] = n
    # An equation without a step of its own is assigned by its traceback, else with the equation
    # whose body contains it. A line with `lax.scan(f, x, ys)` records a scan; differentiation
    # replaces the scan by a new one with the same traceback. The traceback of a backward equation
    # is that of a forward line, which did not record it: only its enclosing equation counts.
    for equation in final:  # enclosing equations first
        if equation.id in home:
            continue
        if not equation.backward and equation.traceback in tracebacks:
            home[equation.id] = tracebacks[equation.traceback]
        elif equation.holder in home:
            home[equation.id] = home[equation.holder]
    by_step: list[list[str]] = [[] for _ in steps]
    for ident in sorted(home, key=lambda ident: int(ident[1:])):
        by_step[home[ident]].append(ident)
    return list(map(tuple, by_step)), [e.id for e in final if e.id not in home]


@dataclass(frozen=True, slots=True)
class _Final:
    """An equation of the finished jaxpr: its id, key, traceback and enclosing equation."""

    id: str
    key: tuple[int, str]
    traceback: int
    backward: bool
    holder: str


def _final(jaxpr: Any) -> list[_Final]:
    """Returns all equations, an enclosing equation before those of its body."""
    final: list[_Final] = []
    turned: set[int] = set()  # ids of jaxprs in the backward pass
    holders: dict[int, str] = {}
    transposed = cache(lambda stack: "transpose" in str(stack))  # few stacks, and str() is slow
    for number, body in bodies(opened(jaxpr)).items():
        for n, (eqn, ident) in enumerate(zip(body.jaxpr.eqns, body.ids, strict=True)):
            inner = [*map(id, body.inner.get(n, ()))]
            back = number in turned or transposed(eqn.source_info.name_stack)
            if back:
                turned.update(inner)
            for child in inner:
                holders.setdefault(child, ident)
            final.append(_Final(ident, *part(eqn), back, holders.get(number, "")))
    return final
