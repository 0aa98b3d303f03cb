"""Unwraps the partials, bound methods and callable pytrees of a call down to what JAX receives.

The result matches what JAX would do: the bound arguments of a partial of a jitted function are
inputs of the program, those of any other partial are closed over, as in `jax.jit(partial)`.
"""

import enum
import functools
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call.arguments import flax_models, pytrees
from jaxlens.call.arguments.inputs import named_arguments, root_names, signature_of


@dataclass(frozen=True, slots=True)
class Call:
    """A call with its partials and bound methods unwrapped.

    Attributes:
        function: The innermost function.
        args: All positional arguments, those that wrappers bind first.
        kwargs: All keyword arguments.
        signature: Its signature, with the owner as first parameter; None if Python has none.
        owner: The object whose method or `__call__` it is, or None.
        names: The user's names of the array leaves, if they are not the paths of `args`.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    signature: inspect.Signature | None
    owner: Any = None
    names: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, positional ones first."""
        return named_arguments(self.args, self.kwargs, self.signature)

    def with_arguments(self, new: Mapping[str, Any]) -> "Call":
        """Returns the call with some arguments replaced, by the names in `arguments`."""
        values = list({**self.arguments, **new}.values())
        args, named = values[: len(self.args)], values[len(self.args) :]
        return replace(self, args=tuple(args), kwargs=dict(zip(self.kwargs, named, strict=True)))

    def split(self, chosen: Collection[int | str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the arguments at these positions or of these names, and the others, by name."""
        parts: tuple[dict[str, Any], dict[str, Any]] = {}, {}
        for position, (name, value) in enumerate(self.arguments.items()):
            is_chosen = name in chosen or (position < len(self.args) and position in chosen)
            parts[0 if is_chosen else 1][name] = value
        return parts


def open_call(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str = "") -> Call:
    """Unwraps partials, bound methods and callable pytrees, from the outside in.

    Args:
        f: The callable.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        name: The object's name in the user's source, if `f` is an object or a method of one.

    Raises:
        OptionError: An argument contains itself, or nests too deep for JAX.
    """
    owner = signature = None
    while True:
        if _is_partial(f):
            inner, bound_to = _innermost(f)
            if not _is_jitted(inner) and flax_models.cached(inner) is None:
                return _checked(Call(f, args, kwargs, signature_of(f), bound_to or owner))
            f, args, kwargs, signature = f.func, (*f.args, *args), {**f.keywords, **kwargs}, None
        elif (cached := flax_models.cached(f)) is not None:
            f, args, signature = cached[0], (*cached[1], *args), None
        elif _is_method(f):
            owner, signature = f.__self__, with_owner(f, name)
            f, args = f.__func__, (owner, *args)
        elif not (_is_jitted(f) or jax.tree_util.all_leaves([f])) and pytrees.holds_arrays(f):
            owner, signature = f, with_owner(f, name)
            f, args = type(f).__call__, (owner, *args)
        else:
            return _checked(Call(f, args, kwargs, signature or signature_of(f), owner))


def _checked(call: Call) -> Call:
    pytrees.check_call(call.args, call.kwargs, call.signature)
    return call


def _is_partial(f: Any) -> bool:
    """Whether `f` is a partial of Python or JAX, or the one that binds methods in Equinox."""
    kind = type(f)
    if isinstance(f, functools.partial):
        return True
    return kind.__name__ == "Partial" and kind.__module__.startswith("equinox.")


def unbound(f: Any) -> Any:
    """Returns the function inside nested partials; returns anything else unchanged."""
    while isinstance(f, functools.partial):
        f = f.func
    return f


def bound_values(f: Any) -> list[tuple[str, Any]]:
    """Returns (name, value) of a partial's bound arguments; empty for anything else."""
    if not isinstance(f, functools.partial):
        return []
    names = root_names(len(f.args), signature_of(f.func))
    return [*zip(names, f.args, strict=True), *f.keywords.items()]


def is_plain(value: Any) -> bool:
    """Whether a value is a number, string, enum, function or None: no array and no container."""
    return value is None or isinstance(value, _PLAIN) or callable(value)


_PLAIN = (str, bytes, int, float, complex, enum.Enum)


def _innermost(f: Any) -> tuple[Any, Any]:
    """Returns the function inside partials and methods, and the outermost method's object."""
    owner = None
    while True:
        if _is_partial(f):
            f = f.func
        elif _is_method(f):
            owner, f = f.__self__ if owner is None else owner, f.__func__
        else:
            return f, owner


def _is_jitted(f: Any) -> bool:
    """Whether `f` is jitted, by JAX, a library or `jaxlens.core`."""
    core = sys.modules.get("jaxlens.core")  # imported if `f` is one of its functions
    if core is not None and isinstance(f, core.Jitted):
        return True
    return compat.jit_parts(f) is not None or compat.is_wrapper(f)


def _is_method(f: Any) -> bool:
    """Whether `f` is a method bound to an object, or a jitted method bound to a class.

    Other class methods stay bound. A bound jitted method forwards the attributes of the jitted
    function but not the bound argument, so it must be unwrapped.
    """
    if compat.attribute(f, "__func__") is None:
        return False
    bound_to_class = isinstance(getattr(f, "__self__", type), type)
    return not bound_to_class or compat.jit_parts(f.__func__) is not None


def with_owner(f: Callable[..., Any], name: str = "") -> inspect.Signature | None:
    """Returns the signature of `f` with a first parameter for the object it is bound to.

    Args:
        f: A bound method, or a callable object.
        name: The object's name in the user's source; "self" by default.
    """
    bound = signature_of(f)
    if bound is None:
        return None
    is_usable = name.isidentifier() and name not in bound.parameters
    first = inspect.Parameter(name if is_usable else "self", inspect.Parameter.POSITIONAL_ONLY)
    return bound.replace(parameters=[first, *bound.parameters.values()])
