"""Converts dataclasses to JSON-able data; each becomes an object that names its type."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: object) -> Any:
    """Converts a value to dictionaries, lists, strings and numbers, without recursion.

    A dataclass becomes `{"type": its name, field: value, ...}`. A float that JSON cannot
    represent becomes a string ("inf", "nan").
    """
    root: list[Any] = [None]
    pending: list[tuple[object, Any, Any]] = [(value, root, 0)]
    while pending:
        item, into, key = pending.pop()
        if is_dataclass(item) and not isinstance(item, type):
            # A subclass with lazy fields (`ir.lazy.lazy`) is not itself a dataclass.
            kind = next(c for c in type(item).__mro__ if "__dataclass_fields__" in vars(c))
            into[key] = {"type": kind.__name__}
            pending += [(getattr(item, f.name), into[key], f.name) for f in fields(item)][::-1]
        elif isinstance(item, Mapping):
            into[key] = {}
            pending += [(v, into[key], str(k)) for k, v in item.items()][::-1]
        elif isinstance(item, Sequence) and not isinstance(item, str | bytes):
            into[key] = [None] * len(item)
            pending += [(v, into[key], i) for i, v in enumerate(item)]
        elif isinstance(item, str | int | None) or (
            isinstance(item, float) and math.isfinite(item)
        ):
            into[key] = item
        else:
            into[key] = str(item)
    return root[0]
