"""Indexing: what `x[...]` and `x.at[...]` mean, as NumPy has it.

The cheapest primitive is taken that can do it: a slice where all is known when the program is
traced, a dynamic slice where single places are computed, a gather where an entry is an array. An
index outside cannot be an error, for it may be known only when the program runs: reading takes the
nearest element, writing does nothing. Arrays do not change: `x.at[...].set(y)` gives a new one.

After NumPy's "Indexing on ndarrays" and "Pure functions" in "Sharp bits" (docs.jax.dev).
"""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from jaxlens.core.avals import ShapedArray, broadcast_shapes, promote
from jaxlens.core.primitives.dynamic_slices import dynamic_slice_p, wrapped
from jaxlens.core.primitives.elementwise import add_p, mul_p
from jaxlens.core.primitives.gathering import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    gather,
    gather_along,
)
from jaxlens.core.primitives.pieces import concatenate, rev
from jaxlens.core.primitives.pieces import slice as slice_
from jaxlens.core.primitives.scattering import scatter
from jaxlens.core.primitives.shapes import (
    broadcast_in_dim,
    broadcast_to,
    convert_element_type,
    expand_dims,
    full,
    iota,
    reshape,
    squeeze,
)
from jaxlens.core.primitives.subscripts import INT, Entry, entries_of, is_array, on_axes
from jaxlens.core.staging import aval_of


def index(
    x: Any,
    at: Any,
    *,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    """`x[at]`; an integer outside reads the nearest element, as no error can be raised later.

    Args:
        x: The array.
        at: Integers, slices, arrays of integers, masks, `...` and None, or a tuple of these.
        mode: What happens outside the array: "clip", "fill" or "promise_in_bounds".
        fill_value: What "fill" reads there; NaN, or the outermost integer.
        indices_are_sorted: A promise that XLA may use.
        unique_indices: A promise that no place is named twice.

    Raises:
        IndexError: There are more entries than axes; a mask has another shape, or is traced; a
            bound of a slice is traced.
        TypeError: An entry is nothing that NumPy takes.
    """
    x, entries = entries_of(x, at)
    own = on_axes(entries)
    shape = aval_of(x).shape
    if mode is None and all(_known(entry, n) for entry, n in zip(own, shape, strict=True)):
        spans = [e if isinstance(e, range) else range(e, e + 1) for e in own]
        columns = zip(*map(_upwards, spans), strict=True) if own else ((), (), ())
        return _shaped(slice_(x, *columns), entries)
    moved = [e for e in own if isinstance(e, range) and abs(e.step) != 1]
    if mode is None and not moved and not any(map(is_array, own)):
        return _shaped(_dynamic_slice(x, own), entries)
    places = _places(aval_of(x), entries)
    if 0 in places.shape:
        return full(_with(places.new, places.shape), 0, x.dtype)
    found = gather(
        x, places.indices, places.numbers, places.sizes, fill_value=fill_value,
        mode=_mode(mode, GatherScatterMode.PROMISE_IN_BOUNDS),
        indices_are_sorted=indices_are_sorted or places.single,
        unique_indices=unique_indices or places.single,
    )  # fmt: skip
    return expand_dims(rev(found, places.reversed), places.new)


def index_update(
    x: Any,
    at: Any,
    value: Any,
    kind: str,
    *,
    mode: str | GatherScatterMode | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    """The array with `x[at]` replaced by a value or combined with it; outside nothing is written.

    Args:
        x: The array.
        at: As for `index`.
        value: What is written; it is broadcast to the shape of `x[at]`.
        kind: As for `scatter`: "set", "add", "sub", "mul", "min", "max".
        mode: "drop" (what None means), "clip" or "promise_in_bounds".
        indices_are_sorted: A promise that XLA may use.
        unique_indices: A promise that no place is named twice; some derivatives need it.
    """
    x, entries = entries_of(x, at)
    old = aval_of(x)
    dtype, weak = promote(old, aval_of(value))
    places = _places(old, entries)
    if 0 in places.shape:
        return x
    updates = rev(_fitted(value, dtype, places), places.reversed)
    found = scatter(
        kind, convert_element_type(x, dtype, weak), places.indices, updates,
        ScatterDimensionNumbers(*places.numbers),
        mode=_mode(mode, GatherScatterMode.FILL_OR_DROP),
        indices_are_sorted=indices_are_sorted or places.single,
        unique_indices=unique_indices or places.single,
    )  # fmt: skip
    return convert_element_type(found, old.dtype, old.weak_type)


def take(x: Any, indices: Any, axis: int = 0, mode: Any = "fill") -> Any:
    """Elements at places along an axis; a place outside gives NaN, as in `jax.numpy.take`."""
    return index(x, (*[slice(None)] * (axis % aval_of(x).ndim), indices), mode=mode)


def take_along_axis(x: Any, indices: Any, axis: int, mode: Any = "fill") -> Any:
    """For each row along an axis, its elements at that row's places."""
    own, axis = aval_of(x).shape, axis % aval_of(x).ndim
    at = wrapped(indices, own[axis])
    shape, rest = list(broadcast_shapes((1,) * len(own), aval_of(at).shape)), list(own)
    shape[axis] = rest[axis] = 1
    common = list(broadcast_shapes(tuple(shape), tuple(rest)))
    rows, common[axis] = common.copy(), own[axis]
    rows[axis] = aval_of(at).shape[axis]
    at = reshape(broadcast_to(at, rows), (*rows, 1))
    default = GatherScatterMode.FILL_OR_DROP
    return gather_along(broadcast_to(x, common), at, axis, mode=_mode(mode, default))


class At:
    """`x.at[index].set(value)` and its like: a new array, `x` with something written there."""

    __slots__ = ("_index", "_x")

    def __init__(self, x: Any, index: Any = ()) -> None:
        self._x = x
        self._index = index

    def __getitem__(self, index: Any) -> "At":
        return At(self._x, index)

    def get(self, **options: Any) -> Any:
        """`x[index]` with the options of `index`."""
        return index(self._x, self._index, **options)

    def set(self, value: Any, **options: Any) -> Any:
        """`x[index] = value`."""
        return index_update(self._x, self._index, value, "set", **options)

    def add(self, value: Any, **options: Any) -> Any:
        """`x[index] += value`; a place that is named twice is added to twice."""
        return index_update(self._x, self._index, value, "add", **options)

    def subtract(self, value: Any, **options: Any) -> Any:
        """`x[index] -= value`, each time that a place is named."""
        return index_update(self._x, self._index, value, "sub", **options)

    def multiply(self, value: Any, **options: Any) -> Any:
        """`x[index] *= value`, each time that a place is named."""
        return index_update(self._x, self._index, value, "mul", **options)

    def min(self, value: Any, **options: Any) -> Any:
        """`x[index] = minimum(x[index], value)`."""
        return index_update(self._x, self._index, value, "min", **options)

    def max(self, value: Any, **options: Any) -> Any:
        """`x[index] = maximum(x[index], value)`."""
        return index_update(self._x, self._index, value, "max", **options)


def _mode(mode: str | GatherScatterMode | None, default: GatherScatterMode) -> GatherScatterMode:
    try:
        return default if mode is None else GatherScatterMode("fill" if mode == "drop" else mode)
    except ValueError:
        raise ValueError(
            f"mode={mode!r}: expected 'clip', 'fill', 'drop' or 'promise_in_bounds'."
        ) from None


# ---- carrying it out ----------------------------------------------------------------------------


def _known(entry: Entry, n: int) -> bool:
    return isinstance(entry, range) or (isinstance(entry, int) and 0 <= entry < n)


def _upwards(span: range) -> tuple[int, int, int]:
    """Start, limit and stride of what a range covers, not backwards."""
    if span.step > 0:
        return span.start, max(span.start, span.stop), span.step
    return (span[-1], span[0] + 1, -span.step) if span else (0, 0, 1)


def _shaped(cut: Any, entries: Sequence[Entry]) -> Any:
    """What was cut, with ranges the right way round and axes dropped and added."""
    own = on_axes(entries)
    cut = rev(cut, [i for i, e in enumerate(own) if isinstance(e, range) and e.step < 0])
    cut = squeeze(cut, [i for i, e in enumerate(own) if not isinstance(e, range)])
    kept = [entry for entry in entries if entry is None or isinstance(entry, range)]
    return expand_dims(cut, [i for i, entry in enumerate(kept) if entry is None])


def _dynamic_slice(x: Any, own: Sequence[Entry]) -> Any:
    starts = [_upwards(e)[0] if isinstance(e, range) else e for e in own]
    starts = [INT.type(start) if isinstance(start, int) else start for start in starts]
    if len(starts) > 1:
        starts = [convert_element_type(start, INT) for start in starts]
    sizes = tuple(len(e) if isinstance(e, range) else 1 for e in own)
    places = map(wrapped, starts, aval_of(x).shape)
    return dynamic_slice_p.bind(x, *places, slice_sizes=sizes)


class _Places(NamedTuple):
    """An index as a gather or a scatter has it.

    Attributes:
        indices: A row of numbers for each slice.
        numbers: Which axis is which.
        sizes: Those of a slice.
        shape: That of the result, before axes are added.
        reversed: Axes of the result that come out backwards.
        new: Axes that are added in the end.
        single: Whether no array of integers is in it.
    """

    indices: Any
    numbers: GatherDimensionNumbers
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    reversed: list[int]
    new: list[int]
    single: bool


def _places(x: ShapedArray, entries: Sequence[Entry]) -> _Places:
    own = on_axes(entries)
    columns, common = _together(own, x.shape)
    arrays = tuple(columns)
    where: dict[int, Sequence[int]] = {}  # the axes of the indices that a column varies along
    batch: list[int] = []  # the lengths of these
    shape: list[int] = []
    new: list[int] = []
    offsets: list[int] = []
    backwards: list[int] = []
    sizes = [1] * x.ndim
    for axis in _order(entries):
        if axis is None:
            new.append(len(shape) + len(new))
        elif axis == _ARRAYS:
            where |= dict.fromkeys(arrays, range(len(batch), len(batch) + len(common)))
            batch += common
            shape += common
        else:
            span = own[axis]
            if span.step == 1:
                offsets.append(len(shape))
                sizes[axis] = len(span)
                if len(span) < x.shape[axis]:
                    columns[axis], where[axis] = INT.type(span.start), ()
            else:
                if span.step < 0:
                    backwards.append(len(shape))
                columns[axis], where[axis] = _steps(span), (len(batch),)
                batch.append(len(span))
            shape.append(len(span))
    pointed = tuple(sorted(columns))
    values = [convert_element_type(columns[axis], INT) for axis in pointed]
    rows = [
        broadcast_in_dim(value, (*batch, 1), where[axis])
        for value, axis in zip(values, pointed, strict=True)
    ]
    indices = concatenate(rows, len(batch)) if rows else np.zeros((*batch, 0), INT)
    windows = {axis for axis, e in enumerate(own) if isinstance(e, range) and e.step == 1}
    collapsed = tuple(axis for axis in range(x.ndim) if axis not in windows)
    numbers = GatherDimensionNumbers(tuple(offsets), collapsed, pointed)
    single = not any(map(is_array, own))
    return _Places(indices, numbers, tuple(sizes), tuple(shape), backwards, new, single)


_ARRAYS = -1


def _order(entries: Sequence[Entry]) -> list[int | None]:
    """What the axes of the result are about: an axis of `x`, all arrays together, or None.

    Arrays (and integers beside them) give their axes where the first of them stands; in front of
    all others where something stands between two of them.
    """
    order: list[int | None] = []
    axis = 0
    for entry in entries:
        if entry is None:
            order.append(None)
        if entry is None or entry is ...:
            continue
        if isinstance(entry, range):
            order.append(axis)
        elif _ARRAYS not in order:
            order.append(_ARRAYS)
        axis += 1
    apart = range | EllipsisType | None
    among = [k for k, entry in enumerate(entries) if not isinstance(entry, apart)]
    if among and among[-1] - among[0] >= len(among):
        order.remove(_ARRAYS)
        order.insert(0, _ARRAYS)
    return order


def _together(own: Sequence[Entry], shape: Sequence[int]) -> tuple[dict[int, Any], tuple[int, ...]]:
    """The integers and arrays of an index, by axis, broadcast to one shape."""
    found = {
        axis: entry if isinstance(entry, int) else wrapped(entry, shape[axis])
        for axis, entry in enumerate(own)
        if not isinstance(entry, range)
    }
    common = broadcast_shapes((), *(aval_of(entry).shape for entry in found.values()))
    return {
        axis: INT.type(entry)
        if isinstance(entry, int) and not common
        else broadcast_to(entry, common)
        for axis, entry in found.items()
    }, common


def _steps(span: range) -> Any:
    """The numbers of a range, smallest first."""
    times = mul_p.bind(INT.type(span.step), iota(INT, (len(span),)))
    numbers = add_p.bind(INT.type(span.start), times)
    return rev(numbers, [0]) if span.step < 0 else numbers


def _fitted(value: Any, dtype: np.dtype, places: _Places) -> Any:
    """A new value in the shape of what it replaces, without the axes that the index added."""
    if isinstance(value, bool | int | float | complex):
        value = dtype.type(value)
    shape = _with(places.new, places.shape)
    aval = aval_of(value)
    fits = zip(aval.shape[::-1], shape[::-1], strict=False)
    if aval.ndim > len(shape) or any(n not in (1, m) for n, m in fits):
        raise ValueError(
            f"x.at[...]: a value of shape {aval.shape} cannot be broadcast to the shape {shape} "
            f"of what it replaces."
        )
    return squeeze(broadcast_to(convert_element_type(value, dtype), shape), places.new)


def _with(new: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with axes of length 1 added."""
    found = list(shape)
    for axis in new:
        found.insert(axis, 1)
    return tuple(found)
