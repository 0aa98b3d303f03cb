"""Traces a call."""

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.errors import OptionError
from jaxlens.stages.trace import modules
from jaxlens.stages.trace.captured_arrays import Survey, survey


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced call.

    Attributes:
        traced: The `jax.stages.Traced`.
        survey: The arrays that the function closes over.
        seconds: Wall-clock seconds of tracing.
        context: Cache key under which it was traced; lowering uses the same.
    """

    traced: Any
    survey: Survey
    seconds: float
    context: Any


def trace(
    call: TraceableCall, place: ResolvedTarget, during: AbstractContextManager[None] | None = None
) -> Trace:
    """Traces a call for a target. The user's function runs once, on tracers.

    Args:
        call: The call.
        place: The target.
        during: Context manager around the trace itself, such as a recorder of executed lines.

    Raises:
        Exception: Any error of the user's function or of JAX, unchanged; its traceback has JAX's
            own frames, whose variables say what was traced.
    """
    context = isolate.context()
    with isolate.untouched(context, call.owner, call.function), compat.whole_tracebacks():
        start = time.perf_counter()
        with during or nullcontext(), modules.naming(sys._getframe()):
            traced = call.trace(place)
        seconds = time.perf_counter() - start
    if len(traced.jaxpr.in_avals) > traced.in_tree.num_leaves:
        _refuse_tracers(traced, call.name)
    captured = survey(traced.jaxpr)
    if captured.foreign:
        isolate.retire()
    return Trace(traced, captured, seconds, context)


def _refuse_tracers(traced: Any, name: str) -> None:
    """Raises an error for a function that closes over a tracer, which JAX made an extra input.

    A leaked tracer is first passed to a jitted function, so that JAX raises its own
    UnexpectedTracerError, which names the line that created the tracer.
    """
    for tracer in compat.leaked_tracers(traced):
        jax.jit(lambda value: value)(tracer)
    raise OptionError(
        f"{name} closes over a value that JAX is tracing, which is no array yet: "
        "pass it as an argument, or look at a call outside of the traced function"
    )
