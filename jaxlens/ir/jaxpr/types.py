"""Abstract values as types in the short notation of `ir.graph`."""

from functools import lru_cache
from typing import Any

from jaxlens.ir.graph import Type

_SHORT = (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c"), ("_", ""))


def type_of(aval: Any) -> Type:
    """The type of an abstract value.

    What JAX prints beyond dtype and shape (varying axes, sharded dimensions, memory space) is
    the layout: a suffix of the type where it starts with `{` or `<`, else all that JAX prints.
    """
    try:
        return _cached_type_of(aval)
    except TypeError:  # unhashable: avals of jaxlens.core can be
        return _type_of(aval)


def _type_of(aval: Any) -> Type:
    dtype = short_dtype(getattr(aval, "dtype", None))
    shape = tuple(d if isinstance(d, int) else str(d) for d in getattr(aval, "shape", ()))
    weak = bool(getattr(aval, "weak_type", False))
    plain = Type(dtype or "token", shape, weak=weak)
    if not hasattr(aval, "str_short"):
        return plain
    printed = str(aval.str_short(short_dtypes=True))
    start = str(plain)
    if printed.replace("_", "") == start.replace("_", ""):
        return plain
    more = printed[len(start) :] if printed.startswith(start) else printed
    return Type(dtype or "token", shape, layout=more, weak=weak)


_cached_type_of = lru_cache(1024)(_type_of)  # a train step has hundreds of arrays of a few types


def notation(kind: Type) -> str:
    """The type as JAX prints it, with its layout."""
    if not kind.layout:
        return str(kind)
    return f"{kind}{kind.layout}" if kind.layout[0] in "{<" else kind.layout


def short_dtype(dtype: Any) -> str:
    """ "f32" for float32, as JAX and HLO write it; float8 types as HLO does."""
    name = str(getattr(dtype, "name", dtype or ""))
    if name == "void":
        return "float0"
    for long, short in _SHORT:
        name = name.replace(long, short)
    return name
