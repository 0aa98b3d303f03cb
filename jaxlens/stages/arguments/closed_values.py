"""The plain values that a function object carries: closed over, defaults, a partial's, globals.

A function that is created in a loop differs from the one before in these, as a rule. Arrays and
functions are left out: whether two of them are equal cannot be said without computing.
"""

import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

from jaxlens.stages import compat
from jaxlens.stages.arguments.inputs import signature_of

_PLAIN = (bool, int, float, complex, str, np.generic)
_MOST = 64
_DEEPEST = 300  # things that are opened


def values(fun: Any) -> dict[str, Any]:
    """The plain values of a function by their names in it."""
    found = {name: value for name, value, _ in _references(fun) if _is_plain(value)}
    return dict(list(found.items())[:_MOST])


def inside(fun: Any) -> dict[str, Any]:
    """The plain values in what a function closes over: an optimiser's rate is in its functions.

    Closures of closures, tuples, dicts and partials are opened; the paths say where they stand.
    """
    found: dict[str, Any] = {}
    pending = deque((name, value) for name, value, kind in _references(fun) if kind != "global")
    seen: set[int] = set()
    while pending and len(seen) < _DEEPEST and len(found) < _MOST:
        path, value = pending.popleft()
        if _is_plain(value):
            found[path] = value
        elif id(value) not in seen:
            seen.add(id(value))
            pending.extend((path + step, part) for step, part in _parts(value))
    return found


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, FunctionType | functools.partial):
        yield from (
            (f".{name}", part) for name, part, kind in _references(value) if kind != "global"
        )
    elif isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        steps = [f".{n}" for n in names] if names else [f"[{i}]" for i in range(len(value))]
        yield from zip(steps, value, strict=True)
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items() if isinstance(key, str))


def with_values(fun: Any, changed: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The function with other values under some names; None where that cannot be made.

    Args:
        fun: A function, or a partial of one.
        changed: New values by name, as `values` has them.
    """
    inner = fun.func if isinstance(fun, functools.partial) else fun
    ways = {name: kind for name, _, kind in _references(fun)}
    if not all(name in ways for name in changed):
        return None
    own = {n: v for n, v in changed.items() if ways[n] != "partial"}
    made: Callable[..., Any] = inner
    if isinstance(inner, FunctionType):
        made = _function(inner, own)
    elif own or inner is fun:
        return None
    if not isinstance(fun, functools.partial):
        return made
    names = _positional(inner)
    args = [changed.get(names[i], v) if i < len(names) else v for i, v in enumerate(fun.args)]
    return functools.partial(made, *args, **{n: changed.get(n, v) for n, v in fun.keywords.items()})


def recipe(fun: Any) -> Callable[[], Any] | None:
    """Makes an equal function after this one was deleted, without keeping an array alive.

    None if it closes over more than plain values, or is no plain function.
    """
    if isinstance(fun, functools.partial):
        return _partial_recipe(fun)
    if not isinstance(fun, FunctionType) or hasattr(fun, "__wrapped__"):
        return None
    try:
        cells = tuple(cell.cell_contents for cell in fun.__closure__ or ())
    except ValueError:  # not bound yet
        return None
    defaults, named = fun.__defaults__, fun.__kwdefaults__
    if not all(map(_is_plain, (*cells, *(defaults or ()), *(named or {}).values()))):
        return None
    code, space, name = fun.__code__, fun.__globals__, fun.__name__

    def make() -> FunctionType:
        made = FunctionType(code, space, name, defaults, tuple(map(CellType, cells)))
        made.__kwdefaults__ = named
        return made

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
    """Name, value, and kind of reference; the innermost scope last."""
    if isinstance(fun, functools.partial):
        yield from _references(fun.func)
        yield from (
            (n, v, "partial") for n, v in zip(_positional(fun.func), fun.args, strict=False)
        )
        yield from ((name, value, "partial") for name, value in fun.keywords.items())
        return
    *_, fun = compat.layers(fun)
    if isinstance(fun, MethodType):
        own = getattr(fun.__self__, "__dict__", {})
        yield from ((f"self.{name}", value, "attribute") for name, value in own.items())
        fun = fun.__func__
    if not isinstance(fun, FunctionType):
        return
    code = fun.__code__
    for name in code.co_names:
        if name in fun.__globals__:
            yield name, fun.__globals__[name], "global"
    positional = code.co_varnames[: code.co_argcount]
    defaults = fun.__defaults__ or ()
    yield from zip(positional[len(positional) - len(defaults) :], defaults, _DEFAULT, strict=False)
    yield from ((name, value, "default") for name, value in (fun.__kwdefaults__ or {}).items())
    for name, cell in zip(code.co_freevars, fun.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents, "closure"
        except ValueError:  # not bound yet
            continue


_DEFAULT = ("default",) * 255


def _positional(fun: Any) -> list[str]:
    signature = signature_of(fun)
    parameters = signature.parameters.values() if signature else ()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _function(fun: FunctionType, changed: Mapping[str, Any]) -> FunctionType:
    """A function of the same code with other globals, defaults and closed-over values."""
    code = fun.__code__
    cells = zip(code.co_freevars, fun.__closure__ or (), strict=True)
    names = code.co_varnames[: code.co_argcount]
    defaults = fun.__defaults__
    if defaults:
        own = names[len(names) - len(defaults) :]
        defaults = tuple(changed.get(n, v) for n, v in zip(own, defaults, strict=True))
    named = {n: v for n, v in changed.items() if n in fun.__globals__}
    made = FunctionType(
        code,
        {**fun.__globals__, **named} if named else fun.__globals__,
        fun.__name__,
        defaults,
        tuple(CellType(changed[n]) if n in changed else cell for n, cell in cells),
    )
    if fun.__kwdefaults__:
        made.__kwdefaults__ = {n: changed.get(n, v) for n, v in fun.__kwdefaults__.items()}
    return made
