"""The arrays that a program closes over, measured before it is lowered.

Lowering copies every captured array into the program, twice, and JAX's printers print it: a
gigabyte takes 20 s and 6 GB. `captured_limits.py` limits that.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Span
from jaxlens.ir.jaxpr.bodies import Finder, opened
from jaxlens.ir.jaxpr.frames import Resolver, resolver
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.spans import describe
from jaxlens.stages.arguments.closed_over import Binding, closed_over, identities


@dataclass(frozen=True, slots=True)
class CapturedArray:
    """One captured array, the first equation that reads it, and how many do, in how many bodies."""

    value: Any
    aval: Any
    traceback: Any
    bytes: int
    reads: int = 0
    bodies: int = 1


@dataclass(frozen=True, slots=True)
class Survey:
    """What one walk over a traced program finds.

    Attributes:
        captured: Each distinct array that it closed over, in order.
        foreign: Whether a nested body was made by a function that is not JAX's.
    """

    captured: tuple[CapturedArray, ...]
    foreign: bool

    @property
    def bytes(self) -> int:
        """Bytes of all captured arrays."""
        return sum(c.bytes for c in self.captured)


def survey(closed: Any) -> Survey:
    """Walks every distinct nested jaxpr once; reads no array."""
    captured: dict[int, CapturedArray] = {}
    seen: set[int] = set()
    foreign = False
    pending = [closed]
    find = _Holders()
    while pending:
        part = pending.pop()
        body = opened(part)
        if id(body) in seen:
            continue
        seen.add(id(body))
        foreign = foreign or (part is not closed and _is_foreign(body))
        for constant in _closed_over(part, body):
            known = captured.get(id(constant.value))
            if known is not None:
                reads, bodies = known.reads + constant.reads, known.bodies + 1
                constant = replace(known, reads=reads, bodies=bodies)
            captured[id(constant.value)] = constant
        pending.extend(find.in_body(body))
    return Survey(tuple(captured.values()), foreign)


class _Holders:
    """Finds the values that hold jaxprs; a primitive without any is skipped from then on."""

    def __init__(self) -> None:
        self._find = Finder()
        self._plain: set[Any] = set()

    def in_body(self, body: Any) -> Iterator[Any]:
        for eqn in body.eqns:
            if eqn.primitive in self._plain:
                continue
            holders = [value for _, value in self._find.closed_jaxprs(eqn.params)]
            if not holders:
                self._plain.add(eqn.primitive)
            yield from holders


def _closed_over(part: Any, body: Any) -> Iterator[CapturedArray]:
    values = getattr(part, "consts", None) or ()
    variables = body.constvars
    if not values or len(values) != len(variables):
        return
    readers = _readers(body, {id(v) for v in variables})
    for variable, value in zip(variables, values, strict=True):
        if not isinstance(value, jax.core.Tracer):
            first, reads = readers.get(id(variable), (None, 0))
            yield CapturedArray(value, variable.aval, first, _bytes(value), reads)


def _readers(body: Any, wanted: set[int]) -> dict[int, tuple[Any, int]]:
    """The traceback of the first equation that reads each wanted variable, and how many do."""
    found: dict[int, tuple[Any, int]] = {}
    for eqn in body.eqns:
        for key in {id(atom) for atom in eqn.invars} & wanted:
            first, reads = found.get(key, (getattr(eqn.source_info, "traceback", None), 0))
            found[key] = first, reads + 1
    return found


def _bytes(value: Any) -> int:
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", None)
    return math.prod(shape) * int(getattr(dtype, "itemsize", 0))


def _is_foreign(body: Any) -> bool:
    file = getattr(getattr(body, "debug_info", None), "func_filename", None)
    return isinstance(file, str) and not describe(file).own


def constants(
    found: Survey, function: Callable[..., Any], owner: Any = None
) -> tuple[Constant, ...]:
    """Describes what a survey found.

    Args:
        found: The survey.
        function: The traced function; its closure and globals give the arrays their names.
        owner: The object whose method it is, whose attributes do too.

    Returns:
        One entry per array. An array whose name is unknown is called "constant 2".
    """
    known = closed_over(function, owner)
    spans = resolver()
    return tuple(_constant(n, c, known, spans) for n, c in enumerate(found.captured))


def _constant(
    index: int, captured: CapturedArray, known: Mapping[Any, list[Binding]], spans: Resolver
) -> Constant:
    """One array; of several functions that hold it, the one that reads it first."""
    span = _owner(spans(captured.traceback))
    names = next((known[k] for k in identities(captured.value) if k in known), [])
    reader = span.function if span else ""
    nearest = [held for held in names if held.function == reader]
    held = next(iter([*nearest, *names]), Binding(f"constant {index}", "", "", None))
    return Constant(
        held.name,
        type_of(captured.aval),
        captured.bytes,
        span,
        held.how,
        held.function,
        held.span,
        captured.reads,
        captured.bodies,
    )


def names(found: Survey, described: Sequence[Constant]) -> dict[Any, str]:
    """The arrays' names by their identities; see `closed_over.identities`."""
    pairs = zip(found.captured, described, strict=True)
    return {key: one.name for held, one in pairs for key in identities(held.value)}


def _owner(spans: tuple[Span, ...]) -> Span | None:
    return next((s for s in spans if not s.library), spans[0] if spans else None)
