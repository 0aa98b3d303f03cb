"""Text of a variable's value: the type of a tracer or array, plain values, containers.

No user code is called: no `__repr__`, no `__len__`, no property. Types are tested by `type`, not by
`isinstance`, which reads an object's `__class__`, and that may be a property.
"""

from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

from jaxlens.ir.jaxpr.types import type_of

_ITEMS, _LETTERS = 4, 40  # shown of a container; of a string or number
_ARRAYS = (jax.Array, np.ndarray, np.generic)
_CONTAINERS = (list, dict, set, tuple)
_PLAIN = (bool, int, float, complex, str, bytes)


def text(value: Any, depth: int = 0) -> str:
    """Returns the text of a value, without calling user code.

    Args:
        value: Any object.
        depth: Number of containers around it; a container at depth 2 is shown by its size only.
    """
    kind = type(value)  # not `isinstance`, which reads `__class__`, perhaps a user's property
    if issubclass(kind, jax.core.Tracer) or _is_core(kind):
        return f"tracer {_aval(value)}"
    if issubclass(kind, _ARRAYS):
        return f"array {_aval(value)}"
    if value is None or kind in _PLAIN:
        return _short(value)
    if kind in _CONTAINERS:
        return _container(value, depth)
    if kind is ModuleType:
        return f"module {value.__name__}"
    if issubclass(kind, type):
        return f"class {type.__getattribute__(value, '__qualname__')}"
    if kind is FunctionType:
        return f"function {value.__qualname__}"
    if issubclass(kind, tuple):  # a NamedTuple
        return f"{kind.__name__}{_container(tuple.__getitem__(value, slice(None)), depth)}"
    return f"{kind.__name__} object"


def fixed(value: Any) -> bool:
    """Whether the text of an object never changes, as the object is immutable."""
    kind = type(value)
    return value is None or kind in _PLAIN or issubclass(kind, jax.core.Tracer)


def _short(value: Any) -> str:
    """Returns the repr of a built-in value; a long string is truncated before its repr is made."""
    if type(value) in (str, bytes) and len(value) > _LETTERS:
        return f"{value[:_LETTERS]!r}..."
    if type(value) is int and abs(value) >> 128:
        return f"int of {value.bit_length()} bits"
    code = repr(value)
    return code if len(code) <= _LETTERS + 2 else f"{code[:_LETTERS]}..."


def _container(value: Any, depth: int) -> str:
    kind = type(value)
    if not value or depth > 1:
        return f"{kind.__name__} of {len(value)}"
    if kind is dict:
        items = islice(value.items(), _ITEMS)
        parts = [f"{text(k, 2)}: {text(v, depth + 1)}" for k, v in items]
    else:
        parts = [text(item, depth + 1) for item in islice(value, _ITEMS)]
    more = f", ... {len(value) - _ITEMS} more" if len(value) > _ITEMS else ""
    ends = ("[", "]") if kind is list else ("(", ")") if kind is tuple else ("{", "}")
    return f"{ends[0]}{', '.join(parts)}{more}{ends[1]}"


def _is_core(kind: type) -> bool:
    module = kind.__dict__.get("__module__", "")
    return type(module) is str and module.startswith("jaxlens.core.") and hasattr(kind, "aval")


def _aval(value: Any) -> str:
    try:
        aval = value.aval if hasattr(type(value), "aval") else jax.typeof(value)
        weak = ", weak" if getattr(aval, "weak_type", False) else ""
        return f"{type_of(aval)}{weak}"
    except Exception:  # a leaked tracer, or a deleted array
        return "of a type that cannot be told"
