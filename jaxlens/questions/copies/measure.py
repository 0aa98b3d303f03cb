"""Compiles a program with a change that could remove copies.

The jaxpr of the call is evaluated again, with the change, while JAX traces a new function of its
array leaves. The user's Python does not run again, and nothing is executed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

import jax
import numpy as np

from jaxlens.call import isolate
from jaxlens.call.arguments.written_shapes import abstract
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError, first_line
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr.bodies import opened
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.trace.trace import Trace, trace
from jaxlens.taps.evaluate import equations
from jaxlens.taps.refs import LITERAL, bind

_CALLS = frozenset({"jit", "pjit", "closed_call", "core_call"})


@dataclass(frozen=True, slots=True)
class Alteration:
    """A change of a program.

    Attributes:
        donated: Indices of the inputs that are donated too.
        kept: Indices of the inputs that are not donated.
        arguments: By index of an input, the order of dimensions in which it is given.
        results: By index of a result, the order in which it is returned.
        unrolled: Ids of the scans that take two steps a trip.
        reordered: Whether all reads of an array come before an update of it, by a barrier.
    """

    donated: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()
    arguments: dict[int, tuple[int, ...]] = field(default_factory=dict)
    results: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unrolled: frozenset[str] = frozenset()
    reordered: bool = False

    def __or__(self, other: "Alteration") -> "Alteration":
        own = (f.name for f in fields(self))
        return Alteration(**{name: getattr(self, name) | getattr(other, name) for name in own})


def compiled(live: LiveDriver, change: Alteration) -> Module:
    """Returns the optimised program of a call with a change.

    Raises:
        UnavailableError: It cannot be traced or compiled so; says why.
    """
    try:
        capture = Capture(*live.retraced(partial(_traced, live.traced.jaxpr, change)))
        return capture.optimized.module
    except UnavailableError:
        raise
    except Exception as error:  # JAX or XLA can reject the change for any reason
        raise UnavailableError(f"{type(error).__name__}: {first_line(error)}") from None


def _traced(closed: Any, change: Alteration, call: TraceableCall, place: ResolvedTarget) -> Trace:
    """Traces a program with a change."""
    avals, scans = list(closed.in_avals), equations(closed)
    if len(avals) != len(call.inputs):
        raise UnavailableError("its inputs are not those of the call")
    unrolled = {id(scans[name]) for name in change.unrolled if name in scans}
    if change.unrolled and not any(scans[n].primitive.name == "scan" for n in change.unrolled):
        raise UnavailableError("it is no lax.scan")

    def changed(*args: Any) -> list[Any]:
        given = list(args)
        for n, order in change.arguments.items():
            given[n] = given[n].transpose(np.argsort(order))
        results = _evaluated(closed, given, unrolled, change.reordered)
        for n, order in change.results.items():
            results[n] = results[n].transpose(order)
        return results

    shapes = [_struct(aval, change.arguments.get(n)) for n, aval in enumerate(avals)]
    donated = {n for n, leaf in enumerate(call.inputs) if leaf.donated} | change.donated
    jitted = jax.jit(changed, donate_argnums=tuple(sorted(donated - change.kept)))
    own: dict[str, Any] = {"traceable": jitted, "function": changed, "owner": None, "inner": None}
    isolate.retire()
    try:
        # `tracings` is of the user's function, which does not run.
        again = replace(call, args=tuple(shapes), kwargs={}, tracings=[], **own)
        return trace(again, place)
    finally:
        isolate.retire()


def _struct(aval: Any, order: Sequence[int] | None) -> Any:
    shape = aval.shape if order is None else tuple(aval.shape[n] for n in order)
    weak = bool(getattr(aval, "weak_type", False))
    return abstract(shape, aval.dtype, None, weak)


def _evaluated(closed: Any, args: Sequence[Any], unrolled: set[int], reorder: bool) -> list[Any]:
    """Evaluates a jaxpr with scans unrolled, and reads before updates; calls are inlined."""
    jaxpr = opened(closed)
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))

    def value(var: Any) -> Any:
        return var.val if isinstance(var, LITERAL) else values[var]

    for eqn, ties in _ordered(jaxpr, reorder):
        operands = [value(var) for var in eqn.invars]
        if ties:
            barrier: Any = jax.lax.optimization_barrier
            operands[0] = barrier((operands[0], *map(value, ties)))[0]
        name, params = eqn.primitive.name, eqn.params

        def body(name: str, params: Any = params) -> Any:
            inner = params[name]
            evaluate = partial(_evaluated, inner, unrolled=unrolled, reorder=reorder)
            return jax.make_jaxpr(lambda *given: evaluate(given))(*inner.in_avals)

        if name in _CALLS:
            inner = params.get("jaxpr") or params["call_jaxpr"]
            results = _evaluated(inner, operands, unrolled, reorder)
        elif name == "scan":
            steps = 2 * params["unroll"] if id(eqn) in unrolled else params["unroll"]
            results = bind(eqn, operands, jaxpr=body("jaxpr"), unroll=steps)
        elif name == "while":
            results = bind(eqn, operands, body_jaxpr=body("body_jaxpr"))
        else:
            results = bind(eqn, operands)
        values.update(zip(eqn.outvars, results, strict=True))
    return [value(var) for var in jaxpr.outvars]


def _ordered(jaxpr: Any, reorder: bool) -> Iterator[tuple[Any, list[Any]]]:
    """Yields equations in an order of evaluation, each update with values that must come first."""
    made = {var: n for n, eqn in enumerate(jaxpr.eqns) for var in eqn.outvars}
    needs = [[made[var] for var in _read(eqn) if var in made] for eqn in jaxpr.eqns]
    plain: list[tuple[Any, list[Any]]] = [(eqn, []) for eqn in jaxpr.eqns]
    if not reorder or jaxpr.effects:
        yield from plain
        return
    ties: dict[int, list[Any]] = {}
    for n, eqn in enumerate(jaxpr.eqns):
        if not _updates(eqn):
            continue
        after = {n}
        for later, before in enumerate(needs):
            if after.intersection(before):
                after.add(later)
        first = [
            m
            for m, other in enumerate(jaxpr.eqns)
            if m not in after and not _updates(other) and eqn.invars[0] in _read(other)
        ]
        ties[n] = [var for m in first for var in jaxpr.eqns[m].outvars]
        needs[n] += first
    try:
        order = list(TopologicalSorter(dict(enumerate(needs))).static_order())
    except CycleError:  # two updates, each of which one of the reads waits for
        yield from plain
        return
    for n in order:
        yield jaxpr.eqns[n], ties.get(n, [])


def _read(eqn: Any) -> list[Any]:
    return [var for var in eqn.invars if not isinstance(var, LITERAL)]


def _updates(eqn: Any) -> bool:
    """Whether an equation updates a part of its first operand."""
    name = eqn.primitive.name
    is_update = name == "dynamic_update_slice" or name.startswith("scatter")
    return is_update and not isinstance(eqn.invars[0], LITERAL)
