"""Reads the plain values of a function object: closure, defaults, a partial's arguments, globals.

Functions that are created in a loop usually differ in these only. Arrays and functions are left
out: deciding whether two of them are equal takes a computation.
"""

import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

from jaxlens import compat
from jaxlens.call.arguments.closed_over_names import closure, code_globals, defaults
from jaxlens.call.arguments.inputs import positional_names, signature_of
from jaxlens.keys.value_diff import tuple_steps

_PLAIN = (bool, int, float, complex, str, np.generic)
_MOST = 64
_DEEPEST = 300  # things that are opened


def values(fun: Any) -> dict[str, Any]:
    """Returns the plain values that a function refers to, those inside by their paths.

    Closures of closures, tuples, dicts and partials are opened, to an optimiser's rate; globals
    are not.
    """
    plain: dict[str, Any] = {}
    pending = deque(_references(fun))
    opened: set[int] = set()
    while pending and len(opened) < _DEEPEST and len(plain) < _MOST:
        path, value, kind = pending.popleft()
        if _is_plain(value):
            plain[path] = value
        elif kind != "global" and id(value) not in opened:
            opened.add(id(value))
            pending.extend((path + step, part, kind) for step, part in _parts(value))
    return plain


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, FunctionType | functools.partial):
        references = _references(value)
        yield from ((f".{name}", part) for name, part, kind in references if kind != "global")
    elif isinstance(value, tuple):
        yield from zip(tuple_steps(value), value, strict=True)
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items() if isinstance(key, str))


def with_values(fun: Any, changed: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns a copy of a function with other values for some names; None if it cannot be copied.

    Args:
        fun: A function, or a partial of one.
        changed: New values by name, as `values` has them.
    """
    inner = fun.func if isinstance(fun, functools.partial) else fun
    kinds = {name: kind for name, _, kind in _references(fun)}
    if not changed.keys() <= kinds.keys():
        return None
    own = {n: v for n, v in changed.items() if kinds[n] != "partial"}
    copy: Callable[..., Any] = inner
    if isinstance(inner, FunctionType):
        copy = _function(inner, own)
    elif own or inner is fun:
        return None
    if not isinstance(fun, functools.partial):
        return copy
    names = positional_names(signature_of(inner))
    args = [changed.get(names[i], v) if i < len(names) else v for i, v in enumerate(fun.args)]
    return functools.partial(copy, *args, **{n: changed.get(n, v) for n, v in fun.keywords.items()})


def recipe(fun: Any) -> Callable[[], Any] | None:
    """Returns a function that recreates `fun` after it is deleted, and keeps no array alive.

    Returns None if `fun` closes over other than plain values, or is not a plain function.
    """
    if isinstance(fun, functools.partial):
        return _partial_recipe(fun)
    if not isinstance(fun, FunctionType) or hasattr(fun, "__wrapped__"):
        return None
    cells = [value for _, value in closure(fun)]
    references = (*cells, *(value for _, value in defaults(fun)))
    if len(cells) < len(fun.__code__.co_freevars) or not all(map(_is_plain, references)):
        return None
    code, namespace, name = fun.__code__, fun.__globals__, fun.__name__
    positional, keywords = fun.__defaults__, fun.__kwdefaults__

    def make() -> FunctionType:
        copy = FunctionType(code, namespace, name, positional, tuple(map(CellType, cells)))
        copy.__kwdefaults__ = keywords
        return copy

    return make


def _partial_recipe(fun: Any) -> Callable[[], Any] | None:
    if not all(map(_is_plain, (*fun.args, *fun.keywords.values()))):
        return None
    living: Callable[[], Any] | None = None
    if isinstance(fun.func, FunctionType):
        living = weakref.ref(fun.func)
    elif isinstance(fun.func, MethodType):
        living = weakref.WeakMethod(fun.func)
    inner, args, keywords = recipe(fun.func) or living, fun.args, fun.keywords
    if inner is None:
        return None

    def make() -> Any:
        function = inner()
        return None if function is None else functools.partial(function, *args, **keywords)

    return make


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(value) <= _MOST and all(isinstance(part, _PLAIN) for part in value)
    return value is None or isinstance(value, _PLAIN)


def _references(fun: Any) -> Iterator[tuple[str, Any, str]]:
    """Yields name, value and kind of each reference, innermost scope last."""
    if isinstance(fun, functools.partial):
        yield from _references(fun.func)
        bound = zip(positional_names(signature_of(fun.func)), fun.args, strict=False)
        yield from ((n, v, "partial") for n, v in (*bound, *fun.keywords.items()))
        return
    *_, fun = compat.layers(fun)
    if isinstance(fun, MethodType):
        own = getattr(fun.__self__, "__dict__", {})
        yield from ((f"self.{name}", value, "attribute") for name, value in own.items())
        fun = fun.__func__
    if not isinstance(fun, FunctionType):
        return
    yield from ((name, value, "global") for name, value in code_globals(fun))
    yield from ((name, value, "default") for name, value in defaults(fun))
    yield from ((name, value, "closure") for name, value in closure(fun))


def _function(fun: FunctionType, changed: Mapping[str, Any]) -> FunctionType:
    """Copies a function with other globals, defaults and closed-over values."""
    cells = zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True)
    values = [changed.get(name, value) for name, value in defaults(fun)]
    variables = {n: v for n, v in changed.items() if n in fun.__globals__}
    copy = FunctionType(
        fun.__code__,
        {**fun.__globals__, **variables} if variables else fun.__globals__,
        fun.__name__,
        tuple(values[: len(fun.__defaults__ or ())]),
        tuple(CellType(changed[n]) if n in changed else cell for n, cell in cells),
    )
    if fun.__kwdefaults__:
        copy.__kwdefaults__ = {n: changed.get(n, v) for n, v in fun.__kwdefaults__.items()}
    return copy
