"""The grid of a sweep: the values of each axis, their names, and the call at each point."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh

from jaxlens import compat
from jaxlens.call.arguments.inputs import abstract, sharding_text, static_text
from jaxlens.errors import OptionError, nearest
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.jobs.sweeps.points import SweepAxis
from jaxlens.keys.value_diff import differences, same
from jaxlens.report import tally

OWN = ("target", "flags")  # keys of `over` that are no argument's name
_MOST = 16  # parts of an object that a label names
_TYPES = 4  # of the arrays of a pytree, likewise
_LONGEST = 400  # characters of the text of a value
_NUMBERS = (int, float, np.integer, np.floating)
_BOOLS: dict[str, Any] = {"true": True, "false": False}  # in XLA_FLAGS; JAX takes bools


@dataclass(frozen=True, slots=True)
class AxisValues:
    """What varies, as the user gave it.

    Attributes:
        name: An argument, several ("x, y"), or one of `OWN`.
        values: Its values.
        labels: Each value in words, all different.
    """

    name: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]


def axes(over: Any) -> tuple[AxisValues, ...]:
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


def _axis(name: Any, given: Any) -> AxisValues:
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
    labels = list(map(partial(_label, name), values, words))
    return AxisValues(name, values, tuple(_different(labels)))


def sweep_axis(given: AxisValues) -> SweepAxis:
    """Returns an axis with the numbers that change along it."""
    return SweepAxis(given.name, given.labels, *_numbers(given.name, given.values))


def _read(name: str, value: Any) -> Any:
    """Returns a target or compiler options in the form that a point takes."""
    if value is None:
        return {} if name == "flags" else None
    if name == "flags":
        if isinstance(value, str):
            pairs = [part.strip().removeprefix("--").partition("=") for part in value.split(",")]
            value = {option: _BOOLS.get(text, text) for option, _, text in pairs if option}
        if not isinstance(value, Mapping):
            raise OptionError(
                f"flags are a dict of XLA's options, as in {{'xla_cpu_enable_fast_math': True}}, "
                f"got {static_text(value)}"
            )
        return dict(value)
    return str(value)


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
    if isinstance(value, Mesh | AbstractMesh):
        return f"Mesh({', '.join(f'{axis}={n}' for axis, n in value.shape.items())})"
    if parts:
        return parts
    if isinstance(value, np.integer | np.floating):
        return f"{value:.12g}"
    types = tally(filter(None, map(_type, jax.tree.leaves(value))))
    more = [f"{len(types) - _TYPES} more"] if len(types) > _TYPES else []
    return ", ".join([*types[:_TYPES], *more]) or _text(value)


def _type(leaf: Any) -> str:
    """Returns the type of an array or a shape, and its sharding; "" for other values."""
    is_array = hasattr(leaf, "shape") and not isinstance(leaf, np.generic)
    aval = abstract(leaf) if is_array else None
    return f"{type_of(aval)} {sharding_text(leaf)}".rstrip() if aval is not None else ""


def _different(labels: Sequence[str]) -> list[str]:
    """Returns the labels, those that stand twice with their number."""
    return [
        f"{label} #{labels[: n + 1].count(label)}" if labels.count(label) > 1 else label
        for n, label in enumerate(labels)
    ]


def _numbers(name: str, values: Sequence[Any]) -> tuple[tuple[float, ...], str]:
    """Returns what varies along an axis as numbers, and what they are; nothing for several."""
    if name in OWN:
        return (), ""
    roots, parts = _roots(name), _parts(name, values)
    part, plain = next(iter(parts.items())) if len(parts) == 1 else ("", values)
    if all(isinstance(v, _NUMBERS) and not isinstance(v, bool) for v in plain):
        is_curve = all(map(math.isfinite, plain)) and len(set(plain)) == len(plain)
        return (tuple(plain), name + part) if is_curve else ((), "")
    flat = [jax.tree_util.tree_flatten_with_path(value)[0] for value in values]
    if len({tuple(str(path) for path, _ in leaves) for leaves in flat}) > 1:
        return (), ""
    varied: dict[tuple[int, ...], str] = {}
    for leaves in zip(*flat, strict=True):
        shapes = [getattr(leaf, "shape", None) for _, leaf in leaves]
        if not any(shapes) and all(same(leaves[0][1], leaf) for _, leaf in leaves):
            continue  # an option, or an array of one element
        if None in shapes or len({len(shape) for shape in shapes if shape is not None}) > 1:
            return (), ""
        if len({str(getattr(leaf, "dtype", "")) for _, leaf in leaves}) > 1:
            return (), ""  # another type takes another size too
        path = leaves[0][0]
        root, rest = (roots[path[0].idx], path[1:]) if len(roots) > 1 else (name, path)
        for axis, sizes in enumerate(zip(*filter(None, shapes), strict=False)):
            if len(set(sizes)) > 1 and len(sizes) == len(values):
                where = f"{root}{jax.tree_util.keystr(rest)}.shape[{axis}]"
                varied.setdefault(sizes, where)
    if len(varied) != 1:
        return (), ""
    ((sizes, where),) = varied.items()
    return (sizes, where) if len(set(sizes)) == len(sizes) else ((), "")


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
    grid: Sequence[AxisValues], place: Sequence[int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values at a point: those of arguments, and those of `OWN`, by name."""
    values: dict[str, Any] = {}
    for row, n in zip(grid, place, strict=True):
        together = _roots(row.name)
        several = row.values[n] if len(together) > 1 else (row.values[n],)
        values |= dict(zip(together, several, strict=True))
    own = {name: values.pop(name, None) for name in OWN}
    return values, own
