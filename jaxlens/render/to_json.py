"""Data as JSON-able data: each dataclass an object that names its type."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: object) -> Any:
    """Dictionaries, lists, strings and numbers that say the same, without recursion.

    A dataclass becomes `{"type": its name, field: value, ...}`. A number that JSON has no
    form for (infinite, not a number) becomes its name as a string.
    """
    root: list[Any] = [None]
    pending: list[tuple[object, Any, Any]] = [(value, root, 0)]
    while pending:
        item, into, key = pending.pop()
        if is_dataclass(item) and not isinstance(item, type):
            # A subclass that makes its fields late is no dataclass of its own.
            kind = next(c for c in type(item).__mro__ if "__dataclass_fields__" in vars(c))
            into[key] = {"type": kind.__name__}
            pending += [(getattr(item, f.name), into[key], f.name) for f in fields(item)][::-1]
        elif isinstance(item, Mapping):
            into[key] = {}
            pending += [(v, into[key], str(k)) for k, v in item.items()][::-1]
        elif isinstance(item, Sequence) and not isinstance(item, str | bytes):
            into[key] = [None] * len(item)
            pending += [(v, into[key], i) for i, v in enumerate(item)]
        else:
            into[key] = _scalar(item)
    return root[0]


def _scalar(item: object) -> str | int | float | bool | None:
    if isinstance(item, float) and not math.isfinite(item):
        return str(item)
    if item is None or isinstance(item, str | int | float | bool):
        return item
    return str(item)
