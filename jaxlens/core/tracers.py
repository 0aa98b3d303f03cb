"""Primitives, tracers and interpreters: what happens when an operation meets its arguments.

A primitive (`add`, `sin`, `dot_general`) does not compute: it hands itself and its arguments to
the current *interpreter*, and that decides what applying it means: run it on the device, write it
down, differentiate it, do it for a whole batch. A *tracer* stands for a value inside one
interpreter; it looks like an array, so a user's function runs on it without knowing. Interpreters
stand on one another: each does its part and applies what it made in the one below.

After "Autodidax2" (docs.jax.dev, autodidax2_part1.html): one context variable holds the current
interpreter. Every rule of a primitive is an attribute of it, so a primitive is one block of code.
"""

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jaxlens.core import sources
from jaxlens.core.avals import Setting, ShapedArray, canonical

Rule = Callable[..., Any]


@dataclass(slots=True, eq=False)
class Zero:
    """The tangent or cotangent that is known to be zero, without an array full of zeros."""

    aval: ShapedArray


@dataclass(slots=True, eq=False)
class Linear:
    """Stands in a transposition rule for an argument that the result is linear in."""

    aval: ShapedArray


class Primitive:
    """An operation that every interpreter knows by its rules.

    Attributes:
        name: Its name in jaxprs.
        multiple_results: Whether applying it gives a list.
        abstract: `(*avals, **params) -> aval`, or a list of them: the type of the result.
        lower: `(ctx, *operands, **params) -> operand`, or a list of them: StableHLO for it.
        jvp: `(primals, tangents, **params) -> (result, tangent)`. A tangent may be `Zero`.
        transpose: `(ct, *args, **params) -> cts`, one per argument: the cotangent of each
            `Linear` among them, None for the others. `ct` is never `Zero` for one result.
        batch: `(size, args, dims, **params) -> (result, dim)`: all examples at once; `dims` says
            which axis of each argument counts them, None for the same value in all.
        partial: `(interpreter, args, params) -> result`, only where arguments that are known can
            be used before the others are: what a call or a loop does (`reverse.py`).
    """

    abstract: Rule
    lower: Rule
    jvp: Rule
    transpose: Rule
    batch: Rule
    partial: Rule | None

    def __init__(self, name: str, *, multiple_results: bool = False, **rules: Rule) -> None:
        self.name = name
        self.multiple_results = multiple_results
        self.partial = rules.pop("partial", None)
        for kind in ("abstract", "lower", "jvp", "transpose", "batch"):
            setattr(self, kind, rules.pop(kind, self._missing(kind)))
        if rules:
            raise TypeError(f"{name}: there is no rule named {', '.join(rules)}")

    def _missing(self, kind: str) -> Rule:
        def missing(*_: Any, **__: Any) -> Any:
            raise NotImplementedError(f"`{self.name}` has no {kind} rule.")

        return missing

    def rule(self, kind: str) -> Callable[[Rule], Rule]:
        """A decorator that gives a primitive a rule."""

        def keep(function: Rule) -> Rule:
            setattr(self, kind, function)
            return function

        return keep

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies it in the current interpreter."""
        interpreter = _current.get()
        if sources.listeners:
            sources.emit("bind", self.name, interpreter=interpreter, args=args, params=params)
        return interpreter.process(self, args, params)

    def __repr__(self) -> str:
        return self.name


class Interpreter:
    """What applying a primitive means.

    Attributes:
        parent: The interpreter below, which this one computes with.
        done: Whether it has ended; a tracer of it that is still used has leaked.
    """

    parent: "Interpreter | None" = None
    done = False

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Applies a primitive to values, some of which may be tracers of this interpreter."""
        raise NotImplementedError


class Ground(Interpreter):
    """Below all others: computes on the device. `programs.py` gives it what it runs."""

    run: Rule

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return self.run(primitive, args, params)


GROUND = Ground()
_current: ContextVar[Interpreter] = ContextVar("interpreter", default=GROUND)
current = _current.get


def interpreting(interpreter: Interpreter) -> Setting:
    """While primitives are applied in this interpreter."""
    return Setting(_current, interpreter)


_mapped: ContextVar[str | None] = ContextVar("mapped", default=None)
mapped_axis = _mapped.get  # what collectives call the axis that a batch rule at work is for


def mapping(name: str | None) -> Setting:
    """While a batch rule is applied for the examples along an axis of this name."""
    return Setting(_mapped, name)


class Value:
    """What behaves like an array: a tracer, or an array on a device.

    Operators and methods are the functions of `numpy/`, which puts them here.

    Attributes:
        aval: Its type, whose attributes it has too.
    """

    __slots__ = ()
    __array_priority__ = 100  # so that a NumPy array on the left lets us answer
    aval: ShapedArray

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of an array without axes")
        return self.aval.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.aval.shape:
            raise TypeError("iteration over an array without axes")
        return (self[i] for i in range(self.aval.shape[0]))

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError  # numpy's


# ---- what Python cannot ask of a value without numbers ------------------------------------------


class ConcretizationTypeError(TypeError):
    """Python needed the numbers of a value while a function was traced on types only."""

    def __init__(self, tracer: "Tracer", wanted: str, cure: str) -> None:
        super().__init__(
            f"{sources.line()} asks for {wanted}, but the value is traced: "
            f"{tracer.aval.str_short()} made at {tracer.made()} has no numbers yet. "
            f"To mend it, {cure}."
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a condition of Python's."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was used where Python needs an integer."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value was handed to NumPy."""


class ForeignTracerError(TypeError):
    """A tracer of JAX's met a function of the core."""


class UnexpectedTracerError(Exception):
    """A tracer was used after its interpreter had ended."""


def leaked(tracer: "Tracer") -> UnexpectedTracerError:
    """The error for a tracer that outlived its trace."""
    return UnexpectedTracerError(
        f"{sources.line()} uses a traced value after its function had ended: "
        f"{tracer.aval.str_short()} made at {tracer.made()}. A function under a transformation "
        f"must return what it computes; storing it in a global, an attribute or a list leaks it."
    )


def _no_numbers(wanted: str, cure: str, error: type = ConcretizationTypeError) -> Any:
    """A method that fails, since it would need numbers."""

    def method(self: "Tracer", *_: Any, **__: Any) -> Any:
        raise leaked(self) if self.interpreter.done else error(self, wanted, cure)

    return method


class Tracer(Value):
    """A value inside an interpreter: its type is known, its numbers are not (or not here)."""

    __slots__ = ("aval", "interpreter")
    interpreter: Interpreter

    def made(self) -> str:
        """Where it came from, in words."""
        return "an unknown line"

    def __repr__(self) -> str:
        return f"Traced<{self.aval.str_short()}>with<{type(self.interpreter).__name__}>"

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: {self!r} has no numbers yet to hash")

    __bool__ = _no_numbers(
        "a Python `if`, `while`, `and` or `bool()`",
        "use core.cond, core.while_loop or cnp.where, or mark the argument static "
        "(static_argnums) if it need not be traced",
        TracerBoolConversionError,
    )
    __index__ = _no_numbers(
        "an integer that Python needs now (a shape, an axis, range())",
        "mark the argument static (static_argnums), or use core.fori_loop for range()",
        TracerIntegerConversionError,
    )
    __int__ = _no_numbers("int()", "use .astype(int), or mark the argument static (static_argnums)")
    __float__ = _no_numbers("float()", "use .astype(float)")
    __complex__ = _no_numbers("complex()", "use .astype(complex)")
    item = tolist = _no_numbers(".item()", "keep it an array")
    __array__ = _no_numbers(
        "a NumPy array",
        "call the function of jaxlens.core.numpy in its place",
        TracerArrayConversionError,
    )
    __jax_array__ = _no_numbers(
        "an array of JAX's",
        "call the function of jaxlens.core.numpy in place of JAX's",
        TracerArrayConversionError,
    )


# ---- the type of anything ----------------------------------------------------------------------

_WEAK = {int: np.dtype("int64"), float: np.dtype("float64"), complex: np.dtype("complex128")}
KINDS = (bool, int, float, complex, np.ndarray, np.generic)


def aval_of(value: Any) -> ShapedArray:
    """The type of anything that can be an argument of a primitive.

    Raises:
        TypeError: It is no array and no number.
    """
    if isinstance(value, Value):
        return value.aval
    kind = type(value)
    if kind in _WEAK:
        return ShapedArray((), canonical(_WEAK[kind]), True)
    if isinstance(value, KINDS):
        array = np.asarray(value)
        return ShapedArray(array.shape, canonical(array.dtype))
    if _is_foreign_tracer(kind):  # type: ignore[arg-type]
        raise ForeignTracerError(
            f"{sources.line()}: {value} is a tracer of JAX's. jax.jit, jax.grad and the others "
            f"cannot trace functions of jaxlens.core: use core.jit, core.grad, ..."
        )
    if hasattr(value, "shape") and hasattr(value, "dtype"):  # JAX's array, or a type alone
        weak = bool(getattr(value, "weak_type", False))
        return ShapedArray(tuple(value.shape), canonical(value.dtype), weak)
    raise TypeError(
        f"{sources.line()}: expected an array or a number, got {kind.__name__}: {str(value)[:60]}"
    )


@cache
def _is_foreign_tracer(kind: Any) -> bool:
    names = {(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__}
    return ("jax", "Tracer") in names
