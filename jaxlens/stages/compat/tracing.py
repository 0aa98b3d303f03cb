"""Reads the current trace, and the origin of its tracers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxlens.stages.compat.import_private import private


def recorded() -> tuple[int, list[Any]] | None:
    """Returns the equations recorded so far by the innermost trace, and an id of that trace.

    Gone: None, and a line trace does not say which line recorded an equation.
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
    """Returns the tracers of other traces that a traced function closes over.

    Gone: an empty list; whether there are any is known without it (`Traced.in_tree`).
    """
    import jax

    held = getattr(traced, "_consts", ())
    return [value for value in held if isinstance(value, jax.core.Tracer)]


class ValueOrigin(NamedTuple):
    """The origin of a traced value.

    Attributes:
        equation: The equation that computes it; None for an argument.
        arguments: JAX's names of the arguments that it depends on: "params['w']".
        function: Name of the traced function.
        file: File name of the traced function's code object.
    """

    equation: Any = None
    arguments: tuple[str, ...] = ()
    function: str = ""
    file: str = ""


def origin(tracer: Any) -> ValueOrigin:
    """Returns the origin of a traced value, read from its trace.

    A tracer of `jax.vmap` or `jax.grad` wraps a tracer of the enclosing trace, whose origin is
    returned.

    Gone: an empty `ValueOrigin`; the origin is in JAX's message only.
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
