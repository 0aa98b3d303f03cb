"""A trace at work, and what it left behind."""

from collections.abc import Sequence
from typing import Any

from jaxlens.stages.compat.private_modules import private


def recorded() -> tuple[int, list[Any]] | None:
    """The equations that the innermost trace has recorded so far, and a number for that trace.

    Gone: None, and a tape of tracing does not say which line recorded an equation.
    """
    try:
        trace = private("core").trace_ctx.trace
        while not hasattr(trace, "frame"):
            trace = trace.parent_trace
        frame = trace.frame
        return id(frame), frame.tracing_eqns
    except (ImportError, AttributeError):
        return None


def leaked_tracers(traced: Any) -> Sequence[Any]:
    """The tracers of other traces that a traced function closed over.

    Gone: none; that there are some is known without (`Traced.in_tree`).
    """
    import jax

    held = getattr(traced, "_consts", ())
    return [value for value in held if isinstance(value, jax.core.Tracer)]
