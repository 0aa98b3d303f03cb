"""The arrays that a program closes over, measured before it is lowered.

Lowering copies every captured array into the program, twice, and JAX's printers print it: a
gigabyte takes 20 s and 6 GB. XLA copies it again, and computes with it while it compiles. Measured
on XLA:CPU for float32, without and with much of that: 50 MB take 0.4 to 18 s and 0.2 to 0.5 GB, 200
MB take 2.5 to 12 s and 0.6 to 1.8 GB. Beyond a limit only the jaxpr is shown: the same function
with the arrays as arguments has all stages.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import jax

from jaxlens.call.arguments.closed_over_names import Binding, closed_over, identities
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import owner as innermost
from jaxlens.ir.jaxpr.bodies import Finder, opened
from jaxlens.ir.jaxpr.frames import Resolver, resolver
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.spans import describe
from jaxlens.report import amount

MOST = 256 * 10**6  # bytes of captured arrays from which nothing is compiled


@dataclass(frozen=True, slots=True)
class CapturedArray:
    """A captured array, the traceback of its first reader, and the counts of readers and bodies."""

    value: Any
    aval: Any
    traceback: Any
    bytes: int
    reads: int = 0
    bodies: int = 1


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of one walk over a traced program.

    Attributes:
        captured: Each distinct array that the program closes over, in order.
        foreign: Whether a nested body was made by a function that is not JAX's and may outlive
            the trace: JAX's caches would give its body to a later one, whatever it reads by then.
    """

    captured: tuple[CapturedArray, ...]
    foreign: bool

    @property
    def bytes(self) -> int:
        """Bytes of all captured arrays."""
        return sum(c.bytes for c in self.captured)


def survey(closed: Any) -> Survey:
    """Visits every distinct nested jaxpr once; reads no array."""
    captured: dict[int, CapturedArray] = {}
    bodies: set[int] = set()
    foreign = False
    pending = [(closed, None)]
    finder = Finder()
    first_order: set[Any] = set()  # primitives met without a jaxpr: skipped from then on
    while pending:
        part, traceback = pending.pop()
        body = opened(part)
        if id(body) in bodies:
            continue
        bodies.add(id(body))
        if part is not closed:
            foreign = foreign or _outlives(getattr(body, "debug_info", None), traceback)
        for constant in _closed_over(part, body):
            earlier = captured.get(id(constant.value))
            if earlier is not None:
                reads = earlier.reads + constant.reads
                constant = replace(earlier, reads=reads, bodies=earlier.bodies + 1)
            captured[id(constant.value)] = constant
        for eqn in body.eqns:
            if eqn.primitive not in first_order:
                jaxprs = [value for _, value in finder.closed_jaxprs(eqn.params)]
                pending += [(value, eqn.source_info.traceback) for value in jaxprs]
                if not jaxprs:
                    first_order.add(eqn.primitive)
    return Survey(tuple(captured.values()), foreign)


def _outlives(debug_info: Any, traceback: Any) -> bool:
    """Whether a body was made by a function that is not JAX's and may outlive the trace.

    A function inside one that ran when its equation was recorded is made anew by each trace, as
    the body of most scans is.
    """
    file = getattr(debug_info, "func_filename", None)
    if not isinstance(file, str) or describe(file).own:
        return False
    place = file, getattr(debug_info, "func_lineno", None)
    codes = traceback.raw_frames()[0] if hasattr(traceback, "raw_frames") else ()
    return not any(
        isinstance(constant, CodeType) and (constant.co_filename, constant.co_firstlineno) == place
        for code in codes
        for constant in code.co_consts
    )


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


def _readers(body: Any, variables: set[int]) -> dict[int, tuple[Any, int]]:
    """Returns, per variable, the traceback of its first reader and its number of readers."""
    readers: dict[int, tuple[Any, int]] = {}
    for eqn in body.eqns:
        for key in {id(atom) for atom in eqn.invars} & variables:
            first, reads = readers.get(key, (getattr(eqn.source_info, "traceback", None), 0))
            readers[key] = first, reads + 1
    return readers


def _bytes(value: Any) -> int:
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", None)
    return math.prod(shape) * int(getattr(dtype, "itemsize", 0))


def constants(
    survey: Survey, function: Callable[..., Any], owner: Any = None
) -> tuple[Constant, ...]:
    """Describes the arrays of a survey.

    Args:
        survey: The survey of the traced program.
        function: The traced function; its closure and globals give the arrays their names.
        owner: The object whose method it is, whose attributes do too.

    Returns:
        One entry per array. An array whose name is unknown is called "constant 2".
    """
    bindings = closed_over(function, owner)
    spans = resolver()
    return tuple(_constant(n, c, bindings, spans) for n, c in enumerate(survey.captured))


def _constant(
    index: int, captured: CapturedArray, bindings: Mapping[Any, list[Binding]], spans: Resolver
) -> Constant:
    """Describes one array; of several functions that refer to it, names the first reader."""
    span = innermost(spans(captured.traceback))
    own = next((bindings[k] for k in identities(captured.value) if k in bindings), [])
    reader = span.function if span else ""
    nearest = [binding for binding in own if binding.function == reader]
    binding = next(iter([*nearest, *own]), Binding(f"constant {index}", "", "", None))
    return Constant(
        binding.name,
        type_of(captured.aval),
        captured.bytes,
        span,
        binding.how,
        binding.function,
        binding.span,
        captured.reads,
        captured.bodies,
        binding.argument,
    )


def refusal(name: str, constants: Sequence[Constant]) -> str:
    """Returns the message for a program that is not lowered, with what to do."""
    largest = max(constants, key=lambda constant: constant.bytes)
    size, more = amount(sum(constant.bytes for constant in constants)), len(constants) - 1
    arrays = f"`{largest.name}` ({largest.type}, {amount(largest.bytes)})"
    if more:
        arrays += f" and {more:,} other captured array{'s' if more > 1 else ''} ({size} in all)"
    return (
        f"jax.jit would copy {arrays} into the program of {name}, more than the {amount(MOST)} "
        f"that are compiled here: pass {'them as arguments' if more else 'it as an argument'}; the "
        "jaxpr is there"
    )
