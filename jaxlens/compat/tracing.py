"""Reads the current trace, and the origin of its tracers."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, NamedTuple

from jaxlens.compat.import_private import private, when_gone


@when_gone(None)
def recorded() -> tuple[int, list[Any]] | None:
    """Returns the equations recorded so far by the innermost trace, and an id of that trace.

    Gone: None, and a line trace does not say which line recorded an equation.
    """
    trace = private("core").trace_ctx.trace
    while not hasattr(trace, "frame"):
        trace = trace.parent_trace
    return id(trace.frame), trace.frame.tracing_eqns


def leaked_tracers(traced: Any) -> Sequence[Any]:
    """Returns the tracers of other traces that a traced function closes over.

    Gone: an empty list; whether there are any is known without it (`Traced.in_tree`).
    """
    import jax

    constants = getattr(traced, "_consts", ())
    return [value for value in constants if isinstance(value, jax.core.Tracer)]


@when_gone((), TypeError)
def shardings_within(traced: Any) -> Sequence[Any]:
    """Returns the shardings of the equations of a traced function, and of their meshes.

    Gone: (), and a mesh within a function is known once the function is lowered.
    """
    within = private("dispatch").get_intermediate_shardings(traced.jaxpr.jaxpr)
    return [sharding for sharding, _ in within]


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


@when_gone(ValueOrigin(), TypeError, IndexError)
def origin(tracer: Any) -> ValueOrigin:
    """Returns the origin of a traced value, read from its trace.

    A tracer of `jax.vmap` or `jax.grad` wraps a tracer of the enclosing trace, whose origin is
    returned.

    Gone: an empty `ValueOrigin`; the origin is in JAX's message only.
    """
    while not hasattr(tracer._trace, "frame"):
        tracer = tracer.primal if hasattr(tracer, "primal") else tracer.val
    frame, debug = tracer._trace.frame, tracer._debug_info
    positions, _ = frame.find_progenitors(tracer)
    equations = (eqn for eqn in frame.get_eqns() if any(v is tracer.val for v in eqn.outvars))
    names = tuple(debug.arg_names[position] for position in positions or ())
    return ValueOrigin(next(equations, None), names, debug.func_name, debug.func_filename or "")


def stack_before_transform(error: BaseException) -> TracebackType | None:
    """Returns the stack of the equation that a transform failed on; None where JAX kept none.

    The error of a backward pass is raised where `jax.grad` is called, far from the loop.

    Gone: None, and the line that called the transform is shown.
    """
    cause = error.__cause__
    known = type(cause).__name__ == "JaxStackTraceBeforeTransformation"
    return cause.__traceback__ if cause is not None and known else None


@when_gone(nullcontext())
def whole_tracebacks() -> AbstractContextManager[None]:
    """Keeps JAX's own frames in the tracebacks of this thread.

    Gone: JAX takes them out, and which value was traced is known of fewer errors.
    """
    kept: AbstractContextManager[None] = private("config").traceback_filtering("off")
    return kept


@when_gone(None)
def hide_frames_of_jax(error: BaseException) -> None:
    """Takes JAX's own frames out of a traceback, unless the user wants to see them.

    Gone: they stay.
    """
    import jax

    settings: Any = jax.config
    if settings.jax_traceback_filtering != "off":
        filtered = private("traceback_util").filter_traceback(error.__traceback__)
        error.with_traceback(filtered)


@when_gone(frozenset())
def varying_axes(value: Any) -> frozenset[str]:
    """Returns the mesh axes over which a value within a `shard_map` differs.

    Gone: none, and a `shard_map` that checks this cannot be evaluated again.
    """
    import jax

    axes: frozenset[str] = jax.typeof(value).manual_axis_type.varying
    return axes
