"""Primitives, tracers and interpreters: what happens when an operation meets its arguments.

A primitive (`add`, `sin`, `dot_general`) does not compute. It hands itself and its arguments to the
current *interpreter*, which decides what applying it means: run it on the device, record it,
differentiate it, apply it to a whole batch. A *tracer* is a value inside one interpreter; it looks
like an array, so the user's function runs on it unchanged.

Interpreters form a stack through `parent`: each does its part, and applies what it needs in the
interpreter below. Differentiating while tracing, for example:

    f(x)  with x a JVPTracer           sin_p.bind(x)
      -> JVP.process                   takes value and tangent apart, applies the jvp rule of sin
           -> Staging.process          sin, cos and mul of that rule are recorded

There is no search for the right interpreter among the arguments: the current one is in a context
variable, and a tracer of another interpreter is a constant to it. It is handed down unopened until
the interpreter that it belongs to. That alone keeps nested derivatives apart (see `jvp.py`).

In JAX: jax/_src/core.py (`Primitive`, `Trace`, `Tracer`). The context variable is that of
"Autodidax2" (docs.jax.dev, autodidax2_part1.html). Unlike in JAX, all rules of a primitive are
attributes of it rather than entries of one table per transformation.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxlens.core.kernel.types import Setting, ShapedArray, canonical

Rule = Callable[..., Any]


class Primitive:
    """An operation, with one rule for each thing that an interpreter may do with it.

    Attributes:
        name: Its name in jaxprs.
        multiple_results: Whether applying it gives a list.
        abstract: `(*avals, **params) -> aval`, or a list of them: the type of the result.
        lower: `(ctx, *operands, **params) -> operand`, or a list of them: StableHLO for it.
        jvp: `(primals, tangents, **params) -> (result, tangent)`. A tangent may be `Zero`.
        transpose: `(ct, *args, **params) -> cts`, one per argument: the cotangent of each
            `Linear` among them, None for the others. `ct` is never `Zero` for one result.
        batch: `(size, args, dims, **params) -> (result, dim)`: all examples at once; `dims` says
            which axis of each argument counts the examples, None for the same value in all.
        partial: `(interpreter, args, params) -> result`: for primitives that can do part of their
            work while some arguments are unknown, which calls and loops can; else None (`vjp.py`).
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
        """Decorates a function as a rule of this primitive: `@sin_p.rule("jvp")`."""

        def register(function: Rule) -> Rule:
            setattr(self, kind, function)
            return function

        return register

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive in the current interpreter."""
        interpreter = _current.get()
        if observer.listeners:
            observer.emit("bind", self.name, interpreter=interpreter, args=args, params=params)
        return interpreter.process(self, args, params)

    def __repr__(self) -> str:
        return self.name


class Interpreter:
    """Decides what applying a primitive means.

    Attributes:
        parent: The interpreter below, which this one computes with.
        done: Whether it has ended. A tracer of it that is still used has leaked.
    """

    parent: "Interpreter | None" = None
    done = False

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Applies a primitive to values, some of which may be tracers of this interpreter."""
        raise NotImplementedError


class Ground(Interpreter):
    """The interpreter below all others: it computes. `run.py` sets `run`."""

    run: Rule

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return self.run(primitive, args, params)


GROUND = Ground()
_current: ContextVar[Interpreter] = ContextVar("interpreter", default=GROUND)
current = _current.get


def interpreting(interpreter: Interpreter) -> Setting:
    """Within it primitives are applied in this interpreter."""
    return Setting(_current, interpreter)


# ---- values -------------------------------------------------------------------------------------


class Value:
    """An array-like object: a tracer, or an array on a device.

    It has no operators and methods: `numpy/` adds them.

    Attributes:
        aval: Its type, whose attributes are also its own.
    """

    __slots__ = ()
    __array_priority__ = 100  # NumPy arrays on the left leave the operation to us
    aval: ShapedArray

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)


class ConcretizationTypeError(TypeError):
    """Python asked for the numbers of a traced value."""


class UnexpectedTracerError(Exception):
    """A tracer was used after its interpreter had ended: it has leaked."""

    def __init__(self, tracer: "Tracer") -> None:
        super().__init__(f"{tracer!r} is used after its function had ended.")


def _no_numbers(self: "Tracer", *_: Any) -> Any:
    raise ConcretizationTypeError(f"{self!r} has no numbers: only its type is known.")


class Tracer(Value):
    """A value inside an interpreter. Its type is known; its numbers are not, or not here."""

    __slots__ = ("aval", "interpreter")
    interpreter: Interpreter

    def __repr__(self) -> str:
        return f"Traced<{self.aval.str_short()}>with<{type(self.interpreter).__name__}>"

    # `transforms/errors.py` has longer messages for these, which say what to write instead.
    __bool__ = __index__ = __int__ = __float__ = __complex__ = __array__ = _no_numbers
    __hash__ = _no_numbers


_WEAK = {int: np.dtype("int64"), float: np.dtype("float64"), complex: np.dtype("complex128")}
NUMBERS = (bool, int, float, complex, np.ndarray, np.generic)


def aval_of(value: Any) -> ShapedArray:
    """Returns the type of anything that can be an argument of a primitive.

    Raises:
        TypeError: The value is neither an array nor a number.
        OverflowError: It is a Python integer with more bits than arrays may have.
    """
    if isinstance(value, Value):
        return value.aval
    kind = type(value)
    if kind in _WEAK:
        if kind is int and not -(2**31) <= value < 2**31:
            np.asarray(value, canonical(np.int64))  # raises where it does not fit
        return ShapedArray((), canonical(_WEAK[kind]), True)
    if isinstance(value, NUMBERS):
        array = np.asarray(value)
        return ShapedArray(array.shape, canonical(array.dtype))
    observer.check(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):  # an array of JAX's, or a type alone
        weak = bool(getattr(value, "weak_type", False))
        return ShapedArray(tuple(value.shape), canonical(value.dtype), weak)
    raise TypeError(
        f"{observer.line()}: expected an array or a number, got {kind.__name__}: {str(value)[:60]}"
    )


# ---- what outer rings may watch -----------------------------------------------------------------


@dataclass(slots=True)
class Observer:
    """Knows where in the user's program each step is. This one knows nothing.

    `transforms/sources.py` replaces the functions, so that equations have Python lines and names,
    and `transforms/events.py` the listeners. Skip them when reading: no result depends on them.

    Attributes:
        listeners: Are called with the kind and name of each step, and details.
        line: The user's current line, for error messages.
        here: Returns the position for a new equation.
        at: Within it new equations inherit the position of an old one.
        scope: Within it new equations get a name, such as `jvp()`.
        transposed: Returns the position of the backward equations of a forward one.
        call: Calls a function on tracers, `(f, args, alone)`: see `trace`.
        check: Raises for a value that no primitive can take, though it looks like an array.
        locate: Returns the scopes and the MLIR location for `(equation, scopes, cache)`.
    """

    listeners: tuple[Callable[[str, str, dict[str, Any]], None], ...] = ()
    line: Callable[[], str] = lambda: "an unknown line"
    here: Callable[[], Any] = lambda: None
    at: Callable[[Any], Any] = nullcontext
    scope: Callable[[str], Any] = nullcontext
    transposed: Callable[[Any], Any] = lambda source: source
    call: Callable[..., Any] = lambda f, args, alone: f(*args)
    check: Callable[[Any], None] = lambda value: None
    locate: Callable[..., tuple[Any, Any]] = lambda eqn, scopes, cache: (scopes, None)

    def emit(self, kind: str, name: str, **detail: Any) -> None:
        """Notifies the listeners of a step. Callers test `listeners` first, which is cheap."""
        for listener in self.listeners:
            listener(kind, name, detail)


observer = Observer()
