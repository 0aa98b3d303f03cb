"""Compiles a program with a change that could remove copies.

The jaxpr of the call is evaluated again, with the change, while JAX traces a new function of its
array leaves. The user's Python does not run again, and nothing is executed.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxlens import progress
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

_BODIES = {"jit": "jaxpr", "pjit": "jaxpr", "scan": "jaxpr", "while": "body_jaxpr"}


@dataclass(frozen=True, slots=True)
class Alteration:
    """A change of a program.

    Attributes:
        donated: Indices of the inputs that are donated too.
        kept: Indices of the inputs that are not donated.
        arguments: By index of an input, the order of dimensions in which it is given.
        results: By index of a result, the order in which it is returned.
        unrolled: Ids of the scans that take two steps a trip.
        reordered: Whether reads of an array come before an update of it, by a barrier.
    """

    donated: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()
    arguments: dict[int, tuple[int, ...]] = field(default_factory=dict)
    results: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unrolled: frozenset[str] = frozenset()
    reordered: bool = False


def compiled(live: LiveDriver, change: Alteration) -> Module:
    """Returns the optimised program of a call with a change.

    Raises:
        UnavailableError: It cannot be traced or compiled so; says why.
    """
    traced = partial(_traced, live.traced.jaxpr, change)
    try:
        with warnings.catch_warnings(), progress.step("jaxlens compiles it with a change"):
            warnings.simplefilter("ignore")  # of donated arrays that the changed program cannot use
            return Capture(*live.retraced(traced)).optimized.module
    except UnavailableError:
        raise
    except Exception as error:  # JAX or XLA can reject the change for any reason
        raise UnavailableError(f"{type(error).__name__}: {first_line(error)}") from None


def _traced(closed: Any, change: Alteration, call: TraceableCall, place: ResolvedTarget) -> Trace:
    """Traces a program with a change."""
    avals, eqns = list(closed.in_avals), equations(closed)
    if len(avals) != len(call.inputs):
        raise UnavailableError("its inputs are not those of the call")
    unrolled = {id(eqns[name]) for name in change.unrolled}

    def changed(*args: Any) -> list[Any]:
        given = list(args)
        for n, order in change.arguments.items():
            given[n] = given[n].transpose(np.argsort(order))
        results = _evaluated(closed, unrolled, change.reordered, given)
        for n, order in change.results.items():
            results[n] = results[n].transpose(order)
        return results

    for n, order in change.arguments.items():
        avals[n] = avals[n].update(shape=tuple(avals[n].shape[axis] for axis in order))
    shapes = tuple(abstract(a.shape, a.dtype, None, getattr(a, "weak_type", False)) for a in avals)
    donated = {n for n, leaf in enumerate(call.inputs) if leaf.donated} | change.donated
    jitted = jax.jit(changed, donate_argnums=tuple(sorted(donated - change.kept)))
    own: dict[str, Any] = {"traceable": jitted, "function": changed, "owner": None, "inner": None}
    # `tracings` is of the user's function, which does not run.
    return trace(replace(call, args=shapes, kwargs={}, tracings=[], **own), place)


def _evaluated(closed: Any, unrolled: set[int], reorder: bool, args: Sequence[Any]) -> list[Any]:
    """Evaluates a jaxpr with scans unrolled, and reads of an array before an update of it.

    Args:
        closed: The jaxpr.
        unrolled: `id` of the equations of the scans that take twice as many steps a trip.
        reorder: Whether reads come first, held there by a barrier.
        args: Its arguments.
    """
    jaxpr = opened(closed)
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))

    def value(var: Any) -> Any:
        return var.val if isinstance(var, LITERAL) else values[var]

    for eqn, ties in _ordered(jaxpr, reorder):
        operands, more = [value(var) for var in eqn.invars], {}
        if ties:
            barrier: Any = jax.lax.optimization_barrier
            operands[0] = barrier((operands[0], *map(value, ties)))[0]
        if body := _BODIES.get(eqn.primitive.name):
            inner = eqn.params[body]
            changed = partial(_evaluated, inner, unrolled, reorder)
            more[body] = jax.make_jaxpr(lambda *given, f=changed: f(given))(*inner.in_avals)
        if id(eqn) in unrolled:
            more["unroll"] = 2 * eqn.params["unroll"]
        values.update(zip(eqn.outvars, bind(eqn, operands, **more), strict=True))
    return [value(var) for var in jaxpr.outvars]


def _ordered(jaxpr: Any, reorder: bool) -> Iterator[tuple[Any, list[Any]]]:
    """Yields the equations, each update with the results of what reads its operand before it.

    Where they are reordered, what depends on an update comes after all that does not.
    """
    reorder = reorder and not jaxpr.effects
    early, late, changed = list[Any](), list[Any](), set[Any]()
    for eqn in jaxpr.eqns:
        reads = {var for var in eqn.invars if not isinstance(var, LITERAL)}
        is_late = reorder and (_updates(eqn) or not reads.isdisjoint(changed))
        (late if is_late else early).append(eqn)
        changed.update(eqn.outvars if is_late else ())
    done: list[Any] = []
    for eqn in (*early, *late):
        readers = done if reorder and _updates(eqn) else ()
        yield eqn, [var for one in readers if eqn.invars[0] in one.invars for var in one.outvars]
        done.append(eqn)


def _updates(eqn: Any) -> bool:
    """Whether an equation updates a part of its first operand."""
    name: str = eqn.primitive.name
    return name == "dynamic_update_slice" or name.startswith("scatter")
