"""A trace at work, and what it left behind."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxlens.stages.compat.import_private import private


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


class ValueOrigin(NamedTuple):
    """What a traced value is computed from.

    Attributes:
        equation: The equation that made it; None for an argument.
        arguments: The arguments that it is computed from, as JAX calls them: "params['w']".
        function: The name of the function that was being traced.
        file: The file that it is written in, as Python knows it.
    """

    equation: Any = None
    arguments: tuple[str, ...] = ()
    function: str = ""
    file: str = ""


def origin(tracer: Any) -> ValueOrigin:
    """What a traced value is computed from, read off the trace that it belongs to.

    A value under `jax.vmap` or `jax.grad` stands for one of the trace around that.

    Gone: nothing is known, and JAX's message alone says it.
    """
    try:
        while not hasattr(tracer._trace, "frame"):
            tracer = tracer.primal if hasattr(tracer, "primal") else tracer.val
        frame, debug = tracer._trace.frame, tracer._debug_info
        positions, _ = frame.find_progenitors(tracer)
        made = [eqn for eqn in frame.get_eqns() if any(v is tracer.val for v in eqn.outvars)]
        names = tuple(debug.arg_names[place] for place in positions or ())
        return ValueOrigin(
            next(iter(made), None), names, debug.func_name, debug.func_filename or ""
        )
    except (AttributeError, TypeError, IndexError):
        return ValueOrigin()
