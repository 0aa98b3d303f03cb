"""Arrays that a program closed over: measured before any text is asked for.

Lowering copies every captured array into the program, twice, and the printers write it out:
a gigabyte takes 20 s and 6 GB. So from `LARGE` on, `lower.py` hands them over as arguments.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Span
from jaxlens.ir.jaxpr_bodies import Finder, opened
from jaxlens.ir.jaxpr_frames import resolver
from jaxlens.ir.jaxpr_types import type_of
from jaxlens.ir.spans import describe

# Bytes of captured arrays from which a program is lowered with them as arguments.
LARGE = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Captured:
    """One captured array and the first equation that reads it."""

    value: Any
    aval: Any
    traceback: Any
    bytes: int


@dataclass(frozen=True, slots=True)
class Survey:
    """What one walk over a traced program finds.

    Attributes:
        captured: Each distinct array that it closed over, in order.
        foreign: Whether a nested body was made by a function that is not JAX's.
    """

    captured: tuple[Captured, ...]
    foreign: bool

    @property
    def bytes(self) -> int:
        """Bytes of all captured arrays."""
        return sum(c.bytes for c in self.captured)


def survey(closed: Any) -> Survey:
    """Walks every distinct nested jaxpr once; reads no array."""
    captured: dict[int, Captured] = {}
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
            captured.setdefault(id(constant.value), constant)
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
            held = [jaxpr for _, jaxpr in self._find.held(eqn.params)]
            if not held:
                self._plain.add(eqn.primitive)
                continue
            yield from _with_constants(eqn.params, held)


def _with_constants(params: dict[str, Any], held: list[Any]) -> Iterator[Any]:
    """The closed jaxprs where a parameter closes one directly; else the jaxprs themselves."""
    closed = [v for p in params.values() for v in (p if isinstance(p, tuple | list) else (p,))]
    by_body = {id(opened(v)): v for v in closed if opened(v) is not None}
    for jaxpr in held:
        yield by_body.get(id(jaxpr), jaxpr)


def _closed_over(part: Any, body: Any) -> Iterator[Captured]:
    values = getattr(part, "consts", None) or ()
    variables = body.constvars
    if not values or len(values) != len(variables):
        return
    readers = _first_readers(body, {id(v) for v in variables})
    for variable, value in zip(variables, values, strict=True):
        if not isinstance(value, jax.core.Tracer):
            yield Captured(value, variable.aval, readers.get(id(variable)), _bytes(value))


def _first_readers(body: Any, wanted: set[int]) -> dict[int, Any]:
    """The traceback of the first equation that reads each wanted variable."""
    found: dict[int, Any] = {}
    for eqn in body.eqns:
        for atom in eqn.invars:
            if id(atom) in wanted:
                found.setdefault(id(atom), getattr(eqn.source_info, "traceback", None))
                if len(found) == len(wanted):
                    return found
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
        One entry per array. One that has no name that we know is called "constant 2".
    """
    names = _names(function, owner)
    spans = resolver()
    return tuple(
        Constant(
            next((names[k] for k in _identities(c.value) if k in names), f"constant {index}"),
            type_of(c.aval),
            c.bytes,
            _owner(spans(c.traceback)),
        )
        for index, c in enumerate(found.captured)
    )


def _owner(spans: tuple[Span, ...]) -> Span | None:
    return next((s for s in spans if not s.library), spans[0] if spans else None)


def _identities(value: Any) -> Iterator[Any]:
    """What tells that two objects are one array: JAX wraps NumPy arrays, and shares their data."""
    yield id(value)
    data = getattr(value, "__array_interface__", None) if not isinstance(value, jax.Array) else None
    if isinstance(data, dict):
        yield data["data"][0], data["shape"], data["typestr"]


def _names(function: Any, owner: Any) -> dict[Any, str]:
    """Names of the arrays that a function, and what it wraps, can see, by identity."""
    names: dict[Any, str] = {}
    seen = list(_attributes(owner))
    while function is not None:
        seen += [*_visible(function), *_attributes(function)]
        function = getattr(function, "__wrapped__", None)
    for name, value in seen:
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            for identity in _identities(leaf):
                names.setdefault(identity, name + jax.tree_util.keystr(path))
    return names


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    """What an object's methods can see of it."""
    if thing is None or hasattr(thing, "__code__"):
        return
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, dict):
        yield from ((f"self.{name}", value) for name, value in attributes.items())


def _visible(function: Any) -> Iterator[tuple[str, Any]]:
    code = getattr(function, "__code__", None)
    if code is None:
        return
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars, cells, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
    spaces = getattr(function, "__globals__", {})
    for name in code.co_names:
        if name in spaces:
            yield name, spaces[name]
