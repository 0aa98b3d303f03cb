"""The one trace of a look."""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax

from jaxlens.errors import OptionError
from jaxlens.stages import compat
from jaxlens.stages.arguments.captured_arrays import Survey, survey
from jaxlens.stages.call import isolate
from jaxlens.stages.call.target import ResolvedTarget
from jaxlens.stages.call.traceable import TraceableCall


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced call.

    Attributes:
        traced: JAX's own object.
        survey: The arrays that it closed over.
        seconds: How long tracing took, wall clock.
        context: Key of the caches that it was traced under; lowering uses the same.
    """

    traced: Any
    survey: Survey
    seconds: float
    context: Any


def trace(
    call: TraceableCall, place: ResolvedTarget, during: AbstractContextManager[None] | None = None
) -> Trace:
    """Traces a call for a place. The user's function runs once, on tracers.

    Args:
        call: The call.
        place: Where it is to run.
        during: Is entered round the trace itself, such as a recorder of what happens.

    Raises:
        Exception: Whatever the user's function or JAX raises, unchanged.
    """
    context = isolate.context()
    with isolate.untouched(context, call.owner, call.function):
        start = time.perf_counter()
        with during or nullcontext():
            traced = call.trace(place)
        seconds = time.perf_counter() - start
    if len(traced.jaxpr.in_avals) > traced.in_tree.num_leaves:
        _refuse_tracers(traced, call.name)
    found = survey(traced.jaxpr)
    if found.foreign:
        isolate.retire()
    return Trace(traced, found, seconds, context)


def _refuse_tracers(traced: Any, name: str) -> None:
    """Ends a look at a function that closed over a tracer, which JAX took for one input more.

    Only using it tells that it has leaked, in JAX's own words, with the line that made it.
    """
    for tracer in compat.leaked_tracers(traced):
        jax.jit(lambda value: value)(tracer)
    raise OptionError(
        f"{name} closes over a value that JAX is tracing, which is no array yet: "
        "pass it as an argument, or look at a call outside of the traced function"
    )
