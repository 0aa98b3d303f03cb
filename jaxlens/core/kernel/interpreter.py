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
from contextlib import AbstractContextManager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from jaxlens.core.kernel.sources import here
from jaxlens.core.kernel.types import ShapedArray, canonical, setting, x64

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
    partial: Rule | None = None
    kinds: ClassVar[list[str]] = ["abstract", "lower", "jvp", "transpose", "batch", "partial"]

    def __init__(self, name: str, *, multiple_results: bool = False, **rules: Rule) -> None:
        self.name = name
        self.multiple_results = multiple_results
        for kind, function in rules.items():
            self.rule(kind)(function)

    @classmethod
    def new_kind(cls, kind: str) -> None:
        """Adds a kind of rule, for an interpreter of the user's: then `rule` takes it."""
        if kind not in cls.kinds:
            cls.kinds.append(kind)

    def rule(self, kind: str) -> Callable[[Rule], Rule]:
        """Decorates a function as a rule of this primitive: `@sin_p.rule("jvp")`.

        Raises:
            TypeError: There is no such kind of rule.
        """
        if kind not in self.kinds:
            near = "".join(f", perhaps {name}" for name in get_close_matches(kind, self.kinds, 1))
            raise TypeError(
                f"`{self.name}` can have no rule {kind!r}{near}: the kinds are "
                f"{', '.join(self.kinds)}; Primitive.new_kind({kind!r}) adds another."
            )

        def register(function: Rule) -> Rule:
            setattr(self, kind, function)
            return function

        return register

    def __getattr__(self, kind: str) -> Any:
        """Raises the error for a rule that was not given."""
        if kind in self.kinds:
            raise NotImplementedError(
                f"`{self.name}` has no {kind} rule: give it one with .rule({kind!r})."
            )
        raise AttributeError(f"a Primitive has no attribute {kind!r}")

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive in the current interpreter."""
        interpreter = _current.get()
        observer.emit("bind", self.name, interpreter=interpreter, args=args, params=params)
        return interpreter.process(self, args, params)

    def as_list(self, results: Any) -> Any:
        """Returns what a rule or `bind` returned as a list of results."""
        return results if self.multiple_results else [results]

    def joined(self, kind: str, due: str, pair: Any, join: Callable[[Any, Any], Any]) -> Any:
        """Joins each result that a rule returned with its tangent, or with its axis."""
        many, lists = self.multiple_results, (tuple, list)
        if isinstance(pair, lists) and len(pair) == 2:
            if not many:
                return join(*pair)
            if all(isinstance(half, lists) for half in pair) and len(pair[0]) == len(pair[1]):
                return list(map(join, *pair))
        raise self.misfit(kind, f"{due}, two lists of one length" if many else due, pair)

    def misfit(self, kind: str, due: str, got: Any) -> TypeError:
        """Returns the error for a rule that returned something else than is due."""
        size = f" of {len(got)}" if isinstance(got, tuple | list) else ""
        return TypeError(
            f"the {kind} rule of `{self.name}` must return {due}, got {type(got).__name__}{size}."
        )

    def __repr__(self) -> str:
        return self.name


class Interpreter:
    """Decides what applying a primitive means.

    Attributes:
        parent: The interpreter below, which this one computes with: the current one when it began.
        done: Whether it has ended. A tracer of it that is still used has leaked.
    """

    parent: Any = None
    done = False

    def __new__(cls, *_: Any, **__: Any) -> Any:
        interpreter = super().__new__(cls)
        interpreter.parent = _current.get()
        return interpreter

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Applies a primitive to values, some of which may be tracers of this interpreter."""
        raise NotImplementedError


class Ground(Interpreter):
    """The interpreter below all others: it computes.

    Attributes:
        backend: A `Backend` of `run.py`, which `core/__init__.py` hands in.
    """

    backend: Any = None

    def __new__(cls) -> Any:
        return object.__new__(cls)  # nothing is below

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return self.backend.run(primitive, args, params)


GROUND = Ground()
_current: ContextVar[Interpreter] = ContextVar("interpreter", default=GROUND)
current = _current.get


def interpreting(interpreter: Interpreter) -> AbstractContextManager[None]:
    """Within it primitives are applied in this interpreter."""
    return setting(_current, interpreter)


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


class ForeignTracerError(TypeError):
    """A tracer of JAX's was passed to a function of the core."""


class UnexpectedTracerError(Exception):
    """A tracer was used after its interpreter had ended: it has leaked."""


def _no_numbers(method: str) -> Any:
    def refuse(self: "Tracer", *_: Any, **__: Any) -> Any:
        raise observer.refusal(self, method)

    return refuse


class Tracer(Value):
    """A value inside an interpreter. Its type is known; its numbers are not, or not here."""

    __slots__ = ("aval", "interpreter")
    interpreter: Interpreter

    def __repr__(self) -> str:
        return f"Traced<{self.aval.str_short()}>with<{type(self.interpreter).__name__}>"

    __bool__, __index__, __int__ = map(_no_numbers, ("__bool__", "__index__", "__int__"))
    __float__, __complex__ = map(_no_numbers, ("__float__", "__complex__"))
    __array__, __jax_array__ = map(_no_numbers, ("__array__", "__jax_array__"))
    item, tolist, __hash__ = map(_no_numbers, ("item", "tolist", "__hash__"))


_WEAK = {int: np.dtype("int64"), float: np.dtype("float64"), complex: np.dtype("complex128")}
NUMBERS = (bool, int, float, complex, np.ndarray, np.generic)


@lru_cache(maxsize=4096)
def _array(shape: tuple[int, ...], dtype: np.dtype, weak: bool, _: bool) -> ShapedArray:
    """Returns the type that numbers have as an array, which depends on `x64`."""
    return ShapedArray(shape, canonical(dtype), weak)


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
        return _array((), _WEAK[kind], True, x64())
    if isinstance(value, NUMBERS):
        array = np.asarray(value)
        return _array(array.shape, array.dtype, False, x64())
    if ("jax", "Tracer") in ((c.__module__.partition(".")[0], c.__name__) for c in kind.__mro__):
        raise ForeignTracerError(
            f"{here()}: {value} is a tracer of JAX's. jax.jit, jax.grad and the others "
            f"cannot trace functions of jaxlens.core: use core.jit, core.grad, ..."
        )
    if hasattr(value, "shape") and hasattr(value, "dtype"):  # an array of JAX's, or a type alone
        weak = bool(getattr(value, "weak_type", False))
        return ShapedArray(tuple(value.shape), canonical(value.dtype), weak)
    raise TypeError(
        f"{here()}: expected an array or a number, got {kind.__name__}: {str(value)[:60]}"
    )


# ---- what outer rings may watch -----------------------------------------------------------------


class Observer:
    """Follows the steps of the kernel.

    Attributes:
        listeners: Are called with the kind and name of each step, and details.
    """

    listeners: tuple[Callable[[str, str, dict[str, Any]], None], ...] = ()

    def emit(self, kind: str, name: str, **detail: Any) -> None:
        """Notifies the listeners of a step."""
        for listener in self.listeners:
            listener(kind, name, detail)

    def refusal(self, tracer: Tracer, method: str) -> Exception:
        """Returns the error for a method of Python's that needs numbers, or for any late use.

        `core/__init__.py` hands in that of `transforms/errors.py`: it says what to write instead.
        """
        if tracer.interpreter.done:
            return UnexpectedTracerError(f"{tracer!r} is used after its function had ended.")
        return ConcretizationTypeError(f"{tracer!r} has no numbers: only its type is known.")


observer = Observer()
