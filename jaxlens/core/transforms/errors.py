"""Errors for what Python cannot do with a traced value, which has a type but no numbers.

They name the user's line, the line where the value comes from, and what to write instead. The
kernel's `Tracer.__bool__`, `__index__`, ... raise what `refusal` returns.

In JAX: jax/_src/errors.py, with a page per error in the documentation.
"""

from typing import Any, NamedTuple

from jaxlens.core.kernel.interpreter import (
    ConcretizationTypeError,
    Tracer,
    UnexpectedTracerError,
)
from jaxlens.core.kernel.jvp import JVPTracer
from jaxlens.core.kernel.sources import here
from jaxlens.core.kernel.trace import StagedTracer, Staging
from jaxlens.core.kernel.vmap import BatchTracer


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a condition of Python's."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was used where Python needs an integer."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value was handed to NumPy or JAX."""


def origin(value: Any) -> str:
    """Returns the line that made a traced value, "the arguments", or "" if nothing was recorded."""
    if isinstance(value, JVPTracer):
        return origin(value.primal)
    if isinstance(value, BatchTracer):
        return origin(value.value)
    if isinstance(value, StagedTracer) and isinstance(value.interpreter, Staging):
        for eqn in value.interpreter.eqns:
            if value.variable in eqn.outvars:
                return str(eqn.source_info)
        return "the arguments"
    return ""


class _Refusal(NamedTuple):
    """What Python asks for by a method, what to do instead, and the class of the error."""

    request: str
    remedy: str
    error: type[Exception] = ConcretizationTypeError


_REFUSALS = {
    "__bool__": _Refusal(
        "a Python `if`, `while`, `and` or `bool()`",
        "use core.cond, core.while_loop or cnp.where, or mark the argument static "
        "(static_argnums) if it need not be traced",
        TracerBoolConversionError,
    ),
    "__index__": _Refusal(
        "an integer that Python needs now (a shape, an axis, range())",
        "mark the argument static (static_argnums), or use core.fori_loop for range()",
        TracerIntegerConversionError,
    ),
    "__int__": _Refusal("int()", "use .astype(int), or mark the argument static (static_argnums)"),
    "__float__": _Refusal("float()", "use .astype(float)"),
    "__complex__": _Refusal("complex()", "use .astype(complex)"),
    "item": _Refusal(".item()", "keep it an array"),
    "tolist": _Refusal(".tolist()", "keep it an array"),
    "__array__": _Refusal(
        "a NumPy array",
        "call the function of jaxlens.core.numpy in its place",
        TracerArrayConversionError,
    ),
    "__jax_array__": _Refusal(
        "an array of JAX's",
        "call the function of jaxlens.core.numpy in place of JAX's",
        TracerArrayConversionError,
    ),
}


def refusal(tracer: Tracer, method: str) -> Exception:
    """Returns the error for a method that needs numbers, or for any use of a leaked tracer."""
    line, made, came = here(), tracer.aval.str_short(), origin(tracer)
    if came:
        made += " of the arguments" if came == "the arguments" else f" made at {came}"
    if method == "__hash__":
        return TypeError(f"unhashable type: {tracer!r} has no numbers yet to hash")
    if tracer.interpreter.done:
        return UnexpectedTracerError(
            f"{line} uses a traced value after its function had ended: {made}. A function under a "
            f"transformation must return what it computes; storing it in a global, an attribute "
            f"or a list leaks it."
        )
    request, remedy, error = _REFUSALS[method]
    holds = (
        "has a number for each example" if isinstance(tracer, BatchTracer) else "has no numbers yet"
    )
    return error(
        f"{line} asks for {request}, but the value is traced: {made} {holds}. To mend it, {remedy}."
    )
