"""The grid of a sweep: the values of each axis, their names, and the call at each point."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxlens import compat
from jaxlens.call.arguments.inputs import abstract, sharding_text, static_text
from jaxlens.errors import OptionError, nearest
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.jobs.sweeps.points import SweepAxis
from jaxlens.keys.value_diff import differences
from jaxlens.report import tally

OWN = ("target", "flags")  # keys of `over` that are no argument's name
_MOST = 16  # parts of an object that a label names
_TYPES = 4  # of the arrays of a pytree, likewise
_LONGEST = 400  # characters of the text of a value
_NUMBERS = (int, float, np.integer, np.floating)


def axes(over: Any) -> tuple[SweepAxis, ...]:
    """Reads the argument `over` of a sweep.

    Args:
        over: Values by the name of what varies.

    Raises:
        OptionError: It is no such mapping, or a value is not one that the axis takes.
    """
    if not isinstance(over, Mapping) or not over:
        raise OptionError(
            "sweep takes the values to try by the argument's name, as in "
            f'over={{"x": [x1, x2]}}, got {static_text(over)}'
        )
    return tuple(_axis(name, values) for name, values in over.items())


def _axis(name: Any, given: Any) -> SweepAxis:
    if not isinstance(name, str) or isinstance(given, str) or not isinstance(given, Sequence):
        raise OptionError(
            f"expected a list of values for {name!r}, got {type(given).__name__}: "
            f'over={{"{name}": [...]}}'
        )
    if not given:
        raise OptionError(f"over={{{name!r}: []}} has no value to try")
    roots = _roots(name)
    for value in given:
        if len(roots) > 1 and (not isinstance(value, Sequence) or len(value) != len(roots)):
            raise OptionError(
                f"{name!r} names {len(roots)} arguments that vary together: each of its values is "
                f"a tuple of {len(roots)}, got {static_text(value)}"
            )
    values = tuple(_read(name, value) for value in given) if name in OWN else tuple(given)
    parts = _parts(name, values)
    words = [
        ", ".join(f"{k.removeprefix('.')}={_text(v[n])}" for k, v in parts.items())
        for n in range(len(values))
    ]
    labels = tuple(map(partial(_label, name), values, words))
    return SweepAxis(name, labels, *_numbers(name, values, parts), values)


def _read(name: str, value: Any) -> Any:
    """Returns a target or compiler options in the form that a point takes."""
    if name == "target":
        return value and str(value)
    if value is None or isinstance(value, Mapping):
        return dict(value or {})
    raise OptionError(
        "flags are a dict of XLA's options, as in {'xla_cpu_enable_fast_math': True}, "
        f"got {static_text(value)}"
    )


def _roots(name: str) -> list[str]:
    """Returns the names of the arguments that vary along an axis."""
    return [part.strip() for part in name.split(",")]


def _parts(name: str, values: Sequence[Any]) -> dict[str, list[Any]]:
    """Returns what differs inside objects, such as fields of a config; {} where it is the whole."""
    parts: dict[str, list[Any]] = {}
    if name in OWN or len(_roots(name)) > 1:
        return parts
    for n, value in enumerate(values):
        for path, now, was in differences("", value, values[0], _MOST) if n else ():
            parts.setdefault(path, [was] * len(values))[n] = now
    are_arrays = any(map(_type, jax.tree.leaves([*parts.values()])))
    return {} if "" in parts or are_arrays else parts


def _text(value: Any) -> str:
    return static_text(value, _LONGEST)


def _label(name: str, value: Any, parts: str) -> str:
    """Returns a value in words: the parts that vary in it, or the types of its arrays."""
    if name == "flags":
        return ", ".join(f"{k}={v}" for k, v in value.items()) or "none"
    if name == "target":
        return value or "here"
    if parts:
        return parts
    if isinstance(value, np.generic):
        return str(value)
    types = tally(filter(None, map(_type, jax.tree.leaves(value))))
    return ", ".join(types[:_TYPES] + ["..."] * (len(types) > _TYPES)) or _text(value)


def _type(leaf: Any) -> str:
    """Returns the type of an array or a shape, and its sharding; "" for other values."""
    is_array = hasattr(leaf, "shape") and not isinstance(leaf, np.generic)
    aval = abstract(leaf) if is_array else None
    return f"{type_of(aval)} {sharding_text(leaf)}".rstrip() if aval is not None else ""


def _numbers(
    name: str, values: Sequence[Any], parts: Mapping[str, Sequence[Any]]
) -> tuple[tuple[float, ...], str]:
    """Returns what varies along an axis as numbers, and what they are; nothing for several."""
    if name in OWN:
        return (), ""
    if len(roots := _roots(name)) > 1:
        columns: dict[str, Sequence[Any]] = dict(zip(roots, zip(*values, strict=True), strict=True))
    else:
        columns = {name + path: column for path, column in (parts or {"": values}).items()}
    rows: list[dict[str, Any]] = [{} for _ in values]
    for path, column in columns.items():
        for row, value in zip(rows, column, strict=True):
            row.update(_measures(path, value))
    if any(row.keys() != rows[0].keys() for row in rows):
        return (), ""
    varied: dict[tuple[Any, ...], str] = {}
    for what in rows[0]:
        numbers = tuple(row[what] for row in rows)
        if len(set(numbers)) > 1:
            varied.setdefault(numbers, what)
    numbers, what = next(iter(varied.items()), ((), ""))
    is_curve = len(varied) == 1 and len(set(numbers)) == len(numbers)
    is_curve = is_curve and all(not isinstance(n, str) and math.isfinite(n) for n in numbers)
    return (numbers, what) if is_curve else ((), "")


def _measures(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields numbers, sizes and types in a value; what is none of these, as text."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
        where = name + jax.tree_util.keystr(path)
        if isinstance(leaf, _NUMBERS) and not isinstance(leaf, bool):
            yield where, leaf
        elif hasattr(leaf, "shape"):
            yield f"{where}.dtype", str(getattr(leaf, "dtype", ""))
            yield from ((f"{where}.shape[{n}]", size) for n, size in enumerate(leaf.shape))
        else:
            yield where, _text(leaf)


def arguments(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call in which some have another value.

    Args:
        f: The function.
        args: Its positional arguments; those that vary may be left out.
        kwargs: Its keyword arguments, likewise.
        values: Values by the argument's name.

    Raises:
        OptionError: There is no such argument, or one is missing.
    """
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        raise OptionError(
            f"the parameters of {static_text(f)} have no names here: give sweep a function that "
            "calls it"
        ) from None
    kinds = {p.name: p.kind for p in signature.parameters.values()}
    rest = next((n for n, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD), None)
    try:
        bound = signature.bind_partial(*args, **kwargs)
        for name, value in values.items():
            if name in kinds:
                bound.arguments[name] = value
            elif rest is not None:
                bound.arguments[rest] = {**bound.arguments.get(rest, {}), name: value}
            else:
                raise OptionError(
                    f"{getattr(f, '__name__', 'the function')} has no argument {name!r}; "
                    f"{nearest(name, [*kinds, *OWN])}"
                )
        order = [name for name in kinds if name in bound.arguments]
        bound.arguments = {name: bound.arguments[name] for name in order}
        signature.bind(*bound.args, **bound.kwargs)
    except TypeError as why:  # inspect's, of the call's arguments
        raise OptionError(f"{getattr(f, '__name__', 'the function')}: {why}") from None
    # All go by position, as jit's in_shardings need it, but for what jit has static by its name
    # alone, and what follows that; *args need all before them by position.
    parts, names = compat.jit_parts(f), [*kinds]
    info = parts[1] if parts else None
    static = {*getattr(info, "static_argnames", ())} - {*names[: len(args)]}
    static -= {names[n] for n in getattr(info, "static_argnums", ()) if n < len(names)}
    is_named = [name in static for name in order]
    if True not in is_named or inspect.Parameter.VAR_POSITIONAL in map(kinds.get, order):
        return bound.args, bound.kwargs
    first = is_named.index(True)
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = {name: bound.arguments[name] for name in order[first:] if kinds[name] is either}
    return bound.args[:first], {**named, **bound.kwargs}


def values_at(
    grid: Sequence[SweepAxis], place: Sequence[int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values at a point: those of arguments, and those of `OWN`, by name."""
    values: dict[str, Any] = {}
    for row, n in zip(grid, place, strict=True):
        together = _roots(row.name)
        several = row.values[n] if len(together) > 1 else (row.values[n],)
        values |= dict(zip(together, several, strict=True))
    own = {name: values.pop(name, None) for name in OWN}
    return values, own
