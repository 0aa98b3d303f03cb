"""Compiles a program with a change that could remove copies.

The jaxpr of the call is evaluated again, with the change, while JAX traces a new function of its
array leaves. The user's Python does not run again, and nothing is executed.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxlens.call.arguments.written_shapes import abstract
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError, first_line
from jaxlens.ir.graph import Module
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.trace.trace import Trace, trace
from jaxlens.taps.evaluate import equations
from jaxlens.taps.reordered import reordered


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
    try:
        capture = Capture(*live.retraced(partial(_traced, live.traced.jaxpr, change)))
        return capture.optimized.module
    except UnavailableError:
        raise
    except Exception as error:  # JAX or XLA can reject the change for any reason
        raise UnavailableError(f"{type(error).__name__}: {first_line(error)}") from None


def _traced(closed: Any, change: Alteration, call: TraceableCall, place: ResolvedTarget) -> Trace:
    """Traces a program with a change."""
    avals, eqns = list(closed.in_avals), equations(closed)
    if len(avals) != len(call.inputs):
        raise UnavailableError("its inputs are not those of the call")
    loops = (eqns[id] for id in change.unrolled if id in eqns)
    unrolled = {id(eqn) for eqn in loops if eqn.primitive.name == "scan"}
    if change.unrolled and not unrolled:
        raise UnavailableError("it is no lax.scan")

    def changed(*args: Any) -> list[Any]:
        given = list(args)
        for n, order in change.arguments.items():
            given[n] = given[n].transpose(np.argsort(order))
        results = reordered(closed, unrolled, change.reordered, given)
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
