"""Finds the names of the arrays that a function closes over, and the functions that use them.

The search follows what Python would read when the function runs: closures, globals that its code
names, defaults, arguments of partials, attributes of objects, and the same of the functions that
it refers to. Nothing is called and no property is evaluated.
"""

import dis
import functools
import inspect
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import jax

from jaxlens.call.arguments.pytrees import leaves
from jaxlens.ir.graph import Span
from jaxlens.ir.spans import describe

_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_PLAIN = (ModuleType, str, bytes, int, float)
_OF_C = (GetSetDescriptorType, MemberDescriptorType)
_MOST, _LEAVES = 5_000, 200_000  # things that are looked at, and values in them


@dataclass(frozen=True, slots=True)
class Binding:
    """A name for a value.

    Attributes:
        name: "params['w']", "self.table".
        how: "global", "closure", "default argument", "argument of a partial" or "attribute".
        function: The function or class that uses the name.
        span: Where that function is defined; None if unknown.
        argument: See `Constant.argument`.
    """

    name: str
    how: str
    function: str
    span: Span | None
    argument: str = ""


def closed_over(function: Any, owner: Any = None) -> dict[Any, list[Binding]]:
    """Returns the names of the arrays that a function can reach, by identity, nearest first.

    Args:
        function: Any callable.
        owner: The object whose method it is.
    """
    bindings: defaultdict[Any, list[Binding]] = defaultdict(list)
    pending: deque[tuple[Any, str]] = deque()
    if owner is not None:
        pending.append((owner, "self"))
    pending.append((function, ""))
    visited: set[int] = set()
    opened: set[int] = set()  # containers
    left = _LEAVES
    while pending and len(visited) < _MOST and left > 0:
        obj, path = pending.popleft()
        if id(obj) in visited or issubclass(type(obj), _PLAIN):
            continue
        visited.add(id(obj))
        for binding, value in _references(obj, path):
            if isinstance(value, list | dict | tuple | set) and id(value) in opened:
                continue
            opened.add(id(value))
            for step, leaf in leaves(value, left):
                left -= 1
                name = binding.name + step
                if callable(leaf) or type(leaf).__dictoffset__:
                    pending.append((leaf, name))
                for identity in identities(leaf):
                    bindings[identity].append(replace(binding, name=name))
    return bindings


def stored(obj: Any, name: str) -> Any:
    """Returns what an object holds under a name; None where code of its class would compute it."""
    value = inspect.getattr_static(obj, name, None)
    return None if hasattr(type(value), "__set__") else value


def plain_function(obj: Any) -> FunctionType | None:
    """Returns a Python function, or that of a bound method; None for any other object."""
    function = obj.__func__ if type(obj) is MethodType else obj
    return function if type(function) is FunctionType else None


def identities(value: Any) -> Iterator[Any]:
    """Yields identities of an array: its `id`, and its buffer, which JAX and NumPy may share."""
    yield id(value)
    is_numpy_like = hasattr(type(value), "__array_interface__") and not isinstance(value, jax.Array)
    data = getattr(value, "__array_interface__", None) if is_numpy_like else None
    if isinstance(data, dict):
        yield data["data"][0], data["shape"], data["typestr"]


def _references(obj: Any, path: str) -> Iterator[tuple[Binding, Any]]:
    """Yields the values that a function or an object refers to."""
    if type(obj) is MethodType:
        yield _binding(path or "self", "attribute", obj), obj.__self__
        obj = obj.__func__
    if issubclass(type(obj), functools.partial):
        inner = plain_function(stored(obj.func, "__wrapped__") or obj.func)
        code = inner.__code__ if inner is not None else None
        names = code.co_varnames[: code.co_argcount] if code is not None else ()
        rest = (f"argument {index}" for index in range(len(names), len(obj.args)))
        positional = zip((*names, *rest), obj.args, strict=False)
        for name, value in (*positional, *obj.keywords.items()):
            yield _binding(name, "argument of a partial", obj.func), value
        yield Binding(path, "closure", "", None), obj.func
        return
    wrapped = stored(obj, "__wrapped__")
    if wrapped is not None:
        yield Binding(path, "closure", "", None), wrapped
    if type(obj) is FunctionType:
        if not describe(obj.__code__.co_filename).library:
            yield from _of_function(obj)
        return
    yield from _of_object(obj, path)


def _of_function(function: FunctionType) -> Iterator[tuple[Binding, Any]]:
    attributes = (
        (f"{function.__name__}.{name}", value)
        for name, value in vars(function).items()
        if name != "__wrapped__"
    )
    for how, values in (
        ("closure", closure(function)),
        ("global", code_globals(function)),
        ("default argument", defaults(function)),
        ("attribute", attributes),
    ):
        yield from ((_binding(name, how, function), value) for name, value in values)


def closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the variables that a function closes over, without those that have no value yet."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents


def code_globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the globals that a function's code names, also in functions defined inside it."""
    codes, names = [function.__code__], dict[str, None]()
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
        names |= dict.fromkeys(_loads(code))
    yield from ((n, function.__globals__[n]) for n in names if n in function.__globals__)


def _loads(code: CodeType) -> Iterator[str]:
    """Yields the names that bytecode loads as globals; `co_names` has those of attributes too."""
    # `dis.get_instructions` takes a hundred times as long, and a model has many functions.
    pairs, high = code.co_code, 0
    for op, low in zip(pairs[::2], pairs[1::2], strict=True):
        index = high | low
        high = index << 8 if op == dis.EXTENDED_ARG else 0
        if op == _LOAD_GLOBAL:
            yield code.co_names[index >> 1]  # the lowest bit says that a call follows


def defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the default values of a function's parameters."""
    values = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    yield from zip(names[len(names) - len(values) :], values, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _of_object(obj: Any, path: str) -> Iterator[tuple[Binding, Any]]:
    kind = type(obj)
    found = None if issubclass(kind, type) else inspect.getattr_static(obj, "__dict__", None)
    attributes = found.__get__(obj) if isinstance(found, _OF_C) else None
    if not isinstance(attributes, Mapping):
        return
    call = kind.__dict__.get("__call__")
    own = call if isinstance(call, FunctionType) else None
    span = definition(own) if own else None
    is_pytree = not jax.tree_util.all_leaves([obj])
    for attribute, value in list(attributes.items()):
        if isinstance(attribute, str) and attribute != "__wrapped__":
            name = f"{path or 'self'}.{attribute}"
            argument = "" if is_pytree else name
            yield Binding(name, "attribute", kind.__qualname__, span, argument), value
    if own is not None:
        yield Binding(path, "closure", "", None), own


def _binding(name: str, how: str, function: Any) -> Binding:
    qualname = str(getattr(function, "__qualname__", type(function).__qualname__))
    return Binding(name, how, qualname, definition(function))


def definition(function: Any) -> Span | None:
    """Returns the line where a function's definition begins; None if it has no Python code."""
    function = plain_function(function)
    if function is None:
        return None
    code = function.__code__
    file, line = describe(code.co_filename), code.co_firstlineno
    return Span(file.name, line, line, -1, -1, code.co_qualname, file.key, file.library)
