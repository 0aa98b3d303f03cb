"""The names of the arrays that a function closes over, and the functions that use these names.

Searched is what Python would read when the function runs: closures, globals that its
code names, defaults, arguments of partials, attributes of objects, and the same of the functions
that it names in turn. Nothing is called; a property is not asked for.
"""

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax

from jaxlens.ir.graph import Span
from jaxlens.ir.spans import describe
from jaxlens.stages.arguments.pytrees import leaves

_MOST, _LEAVES = 5_000, 200_000  # things that are looked at, and values in them


@dataclass(frozen=True, slots=True)
class Binding:
    """A name for a value.

    Attributes:
        name: "params['w']", "self.table".
        how: "global", "closure", "default argument", "argument of a partial" or "attribute".
        function: The function, or class, that uses the name.
        span: Where that function is defined; None where unknown.
    """

    name: str
    how: str
    function: str
    span: Span | None


def closed_over(function: Any, owner: Any = None) -> dict[Any, list[Binding]]:
    """Names of the arrays that a function and those it names can see, by identity, nearest first.

    Args:
        function: Any callable.
        owner: The object whose method it is.
    """
    found: dict[Any, list[Binding]] = {}
    pending: deque[tuple[Any, str]] = deque()
    if owner is not None:
        pending.append((owner, "self"))
    pending.append((function, ""))
    seen: set[int] = set()
    opened: set[int] = set()  # containers
    left = _LEAVES
    while pending and len(seen) < _MOST and left > 0:
        thing, path = pending.popleft()
        if id(thing) in seen or isinstance(thing, ModuleType | str | bytes | int | float):
            continue
        seen.add(id(thing))
        for held, value in _holds(thing, path):
            if isinstance(value, list | dict | tuple | set) and id(value) in opened:
                continue
            opened.add(id(value))
            for step, leaf in leaves(value, left):
                left -= 1
                name = held.name + step
                if callable(leaf) or hasattr(leaf, "__dict__"):
                    pending.append((leaf, name))
                for identity in identities(leaf):
                    names = found.setdefault(identity, [])
                    names.append(Binding(name, held.how, held.function, held.span))
    return found


def identities(value: Any) -> Iterator[Any]:
    """Identities of an array: of the object, and of its data, which JAX and NumPy may share."""
    yield id(value)
    data = getattr(value, "__array_interface__", None) if _is_numpy_like(value) else None
    if isinstance(data, dict):
        yield data["data"][0], data["shape"], data["typestr"]


def _is_numpy_like(value: Any) -> bool:
    return hasattr(type(value), "__array_interface__") and not isinstance(value, jax.Array)


def _holds(thing: Any, path: str) -> Iterator[tuple[Binding, Any]]:
    """The values that a function or an object refers to, by name."""
    if isinstance(thing, MethodType):
        yield Binding(path or "self", "attribute", _called(thing), _where(thing)), thing.__self__
        thing = thing.__func__
    if isinstance(thing, functools.partial):
        yield from _of_partial(thing)
        yield Binding(path, "closure", "", None), thing.func
        return
    wrapped = getattr(thing, "__wrapped__", None)
    if wrapped is not None:
        yield Binding(path, "closure", "", None), wrapped
    if isinstance(thing, FunctionType):
        if not describe(thing.__code__.co_filename).library:
            yield from _of_function(thing)
        return
    yield from _of_object(thing, path)


def _of_partial(thing: Any) -> Iterator[tuple[Binding, Any]]:
    names = _parameters(thing.func)
    for index, value in enumerate(thing.args):
        name = names[index] if index < len(names) else f"argument {index}"
        yield _held(name, "argument of a partial", thing.func), value
    for name, value in thing.keywords.items():
        yield _held(name, "argument of a partial", thing.func), value


def _parameters(function: Any) -> tuple[str, ...]:
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return code.co_varnames[: code.co_argcount] if isinstance(code, CodeType) else ()


def _of_function(function: FunctionType) -> Iterator[tuple[Binding, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield _held(name, "closure", function), cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
    codes = [code]
    for part in codes:
        codes += [const for const in part.co_consts if isinstance(const, CodeType)]
        for name in part.co_names:
            if name in function.__globals__:
                yield _held(name, "global", function), function.__globals__[name]
    defaults = function.__defaults__ or ()
    last = code.co_varnames[: code.co_argcount][-len(defaults) :] if defaults else ()
    for name, value in (
        *zip(last, defaults, strict=True),
        *(function.__kwdefaults__ or {}).items(),
    ):
        yield _held(name, "default argument", function), value
    for name, value in vars(function).items():
        if name != "__wrapped__":
            yield _held(f"{function.__name__}.{name}", "attribute", function), value


def _of_object(thing: Any, path: str) -> Iterator[tuple[Binding, Any]]:
    attributes = getattr(thing, "__dict__", None)
    if not isinstance(attributes, Mapping) or isinstance(thing, type):
        return
    kind = type(thing)
    call = kind.__dict__.get("__call__")
    own = call if isinstance(call, FunctionType) else None
    span = _where(own) if own else None
    for name, value in list(attributes.items()):
        if isinstance(name, str) and name != "__wrapped__":
            called = f"{path or 'self'}.{name}"
            yield Binding(called, "attribute", kind.__qualname__, span), value
    if own is not None:
        yield Binding(path, "closure", "", None), own


def _held(name: str, how: str, function: Any) -> Binding:
    return Binding(name, how, _called(function), _where(function))


def _called(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _where(function: Any) -> Span | None:
    """Where a function's text begins."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    file = describe(code.co_filename)
    line = code.co_firstlineno
    return Span(
        file.name,
        line,
        line,
        function=code.co_qualname,
        key=code.co_filename,
        library=file.library,
    )
