"""Dataclasses to JSON and back, checked against the types of their fields: for saved captures.

The JSON that users see (`render/to_json.py`) names types and has all fields; this one omits what
is a default, and is read from files that are not trusted.
"""

import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union

T = TypeVar("T")
_PLAIN = frozenset((str, int, float, bool, type(None)))


def to_json(value: Any) -> Any:
    """Dataclasses as objects without their defaults, tuples as lists."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if is_dataclass(kind):
        rows = ((name, getattr(value, name), default) for name, default in _defaults(kind))
        return {name: to_json(v) for name, v, default in rows if v != default}
    if isinstance(value, Mapping):
        return {str(key): to_json(v) for key, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(v) for v in value]
    return value


@cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in fields(kind))


def from_json(kind: type[T], data: Any) -> T:
    """Undoes `to_json`.

    Raises:
        TypeError: The data does not fit the type.
        ValueError: Likewise.
    """
    return typing.cast(T, _read(kind, data))


def _read(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        for option in typing.get_args(kind):
            with suppress(TypeError, ValueError):
                return _read(option, data)
        raise TypeError(f"expected {kind}, got {type(data)}")
    if origin is Literal:
        if data not in typing.get_args(kind):
            raise ValueError(f"{data!r} is none of {typing.get_args(kind)}")
        return data
    if origin is tuple:
        if not isinstance(data, list):
            raise TypeError("expected a list")
        return tuple(_read(typing.get_args(kind)[0], item) for item in data)
    if origin is not None:  # a mapping from names
        if not isinstance(data, dict):
            raise TypeError("expected an object")
        return {key: _read(typing.get_args(kind)[1], value) for key, value in data.items()}
    if is_dataclass(kind):
        return _dataclass(kind, data)
    return float(data) if kind is float and type(data) is int else checked(kind, data)


def _dataclass(kind: Any, data: Any) -> Any:
    if not isinstance(data, dict):
        raise TypeError("expected an object")
    hints = _hints(kind)
    if not data.keys() <= hints.keys():
        raise ValueError(f"unknown fields for {kind}")
    return kind(**{name: _read(hints[name], value) for name, value in data.items()})


def checked(kind: type[T], data: Any) -> T:
    """The data, which is of a plain type: `str`, `int`, `float`, `bool` or `NoneType`.

    Raises:
        TypeError: It is of another type.
        ValueError: It is a number of more than 64 bits.
    """
    if type(data) is not kind:
        raise TypeError(f"expected {kind}, got {type(data)}")
    if isinstance(data, int) and abs(data) >= 1 << 63:
        raise ValueError("expected a number of at most 64 bits")
    return data


_hints = cache(typing.get_type_hints)
