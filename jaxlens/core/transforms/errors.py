"""Errors for what Python cannot do with a traced value, which has a type but no numbers.

Importing this file gives the kernel's `Tracer.__bool__`, `__index__`, ... errors that name the
user's line, the line where the value comes from, and what to write instead.

In JAX: jax/_src/errors.py, with a page per error in the documentation.
"""

from functools import cache
from typing import Any

from jaxlens.core.kernel.interpreter import (
    ConcretizationTypeError,
    Tracer,
    UnexpectedTracerError,
    observer,
)
from jaxlens.core.kernel.jvp import JVPTracer
from jaxlens.core.kernel.trace import StagedTracer, Staging
from jaxlens.core.kernel.vmap import BatchTracer
from jaxlens.core.transforms.sources import line, place


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a condition of Python's."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was used where Python needs an integer."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value was handed to NumPy or JAX."""


class ForeignTracerError(TypeError):
    """A tracer of JAX's was passed to a function of the core."""


def origin(value: Any) -> str:
    """Formats the line that a traced value comes from."""
    if isinstance(value, JVPTracer):
        return origin(value.primal)
    if isinstance(value, BatchTracer):
        return origin(value.value)
    if isinstance(value, StagedTracer) and isinstance(value.interpreter, Staging):
        for eqn in value.interpreter.eqns:
            if value.variable in eqn.outvars:
                return place(eqn.source_info)
    return "the arguments"


# ---- values without numbers ---------------------------------------------------------------------


def _refuse(methods: str, request: str, remedy: str, error: type = ConcretizationTypeError) -> None:
    """Makes methods of `Tracer` raise an error that says what was wanted and what to do."""

    def method(self: Tracer, *_: Any, **__: Any) -> Any:
        if self.interpreter.done:
            raise UnexpectedTracerError(self)
        raise error(
            f"{line()} asks for {request}, but the value is traced: "
            f"{self.aval.str_short()} made at {origin(self)} has no numbers yet. "
            f"To mend it, {remedy}."
        )

    for name in methods.split():
        setattr(Tracer, name, method)


_refuse(
    "__bool__",
    "a Python `if`, `while`, `and` or `bool()`",
    "use core.cond, core.while_loop or cnp.where, or mark the argument static "
    "(static_argnums) if it need not be traced",
    TracerBoolConversionError,
)
_refuse(
    "__index__",
    "an integer that Python needs now (a shape, an axis, range())",
    "mark the argument static (static_argnums), or use core.fori_loop for range()",
    TracerIntegerConversionError,
)
_refuse("__int__", "int()", "use .astype(int), or mark the argument static (static_argnums)")
_refuse("__float__", "float()", "use .astype(float)")
_refuse("__complex__", "complex()", "use .astype(complex)")
_refuse("item tolist", ".item()", "keep it an array")
_refuse(
    "__array__",
    "a NumPy array",
    "call the function of jaxlens.core.numpy in its place",
    TracerArrayConversionError,
)
_refuse(
    "__jax_array__",
    "an array of JAX's",
    "call the function of jaxlens.core.numpy in place of JAX's",
    TracerArrayConversionError,
)


def _hash(self: Tracer) -> int:
    raise TypeError(f"unhashable type: {self!r} has no numbers yet to hash")


def _leaked(self: UnexpectedTracerError, tracer: Tracer) -> None:
    Exception.__init__(
        self,
        f"{line()} uses a traced value after its function had ended: "
        f"{tracer.aval.str_short()} made at {origin(tracer)}. A function under a transformation "
        f"must return what it computes; storing it in a global, an attribute or a list leaks it.",
    )


setattr(Tracer, "__hash__", _hash)  # noqa: B010 - mypy forbids the assignment
setattr(UnexpectedTracerError, "__init__", _leaked)  # noqa: B010

# ---- tracers of JAX's ---------------------------------------------------------------------------


def _check(value: Any) -> None:
    """Raises for a tracer of JAX's, which looks like an array."""
    kind: Any = type(value)
    if _is_jax_tracer(kind):
        raise ForeignTracerError(
            f"{line()}: {value} is a tracer of JAX's. jax.jit, jax.grad and the others "
            f"cannot trace functions of jaxlens.core: use core.jit, core.grad, ..."
        )


@cache
def _is_jax_tracer(kind: Any) -> bool:
    names = {(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__}
    return ("jax", "Tracer") in names


observer.check = _check
