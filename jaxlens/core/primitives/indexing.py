"""Indexing: what `x[...]` and `x.at[...]` mean, as in NumPy.

The cheapest primitive that can compute an index is used: a slice if all of it is static, a dynamic
slice if single positions are computed, a gather if an entry is an array. An index out of bounds
cannot raise an error, as it may be known only when the program runs: reading clamps it, writing
drops the update. Arrays are immutable: `x.at[...].set(y)` gives a new one.

NumPy allows an index to be short: it may omit axes, add some, count from the end, select by a mask.
So it is expanded first, to one entry for each axis of the array and to the origin of each axis of
the result. Errors in an index are found there.

After NumPy's "Indexing on ndarrays" and "Pure functions" in "Sharp bits" (docs.jax.dev).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import Tracer, Value, aval_of, observer
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives import gathering, shapes
from jaxlens.core.primitives.dynamic_slices import dynamic_slice_p, wrapped
from jaxlens.core.primitives.elementwise import add, mul
from jaxlens.core.primitives.gathering import Numbers
from jaxlens.core.primitives.pieces import concatenate, rev
from jaxlens.core.primitives.pieces import slice as slice_
from jaxlens.core.transforms.promotion import broadcast_shapes, promote

INT = np.dtype("int32")
ARRAYS = -1
Entry = Any  # of an index, about an axis of the array: a range, an integer or an array of integers
Order = list[int | None]  # of the result: an axis of the array, ARRAYS together, or a new axis


def index(x: Any, at: Any) -> Any:
    """Computes `x[at]`; an integer out of bounds is clamped, as no error can be raised later.

    Args:
        x: The array.
        at: Integers, slices, arrays of integers, masks, `...` and None, or a tuple of these.

    Raises:
        IndexError: There are more entries than axes; a mask has another shape, or is traced; a
            bound of a slice is traced.
        TypeError: An entry is nothing that NumPy takes.
    """
    aval = aval_of(x)
    entries, order = spelled(aval.shape, at)
    static = all(map(_is_static, entries, aval.shape))
    if static or all(map(_is_dynamic, entries)):
        cut = (_slice if static else _dynamic_slice)(x, entries)
        cut = rev(cut, [i for i, e in enumerate(entries) if isinstance(e, range) and e.step < 0])
        cut = shapes.squeeze(cut, [i for i, e in enumerate(entries) if not isinstance(e, range)])
        axes = [about for about in order if about != ARRAYS]
        return shapes.expand_dims(cut, [i for i, about in enumerate(axes) if about is None])
    places = _places(aval, entries, order)
    if 0 in places.shape:
        return basics.full(places.shape, 0, aval.dtype)
    slices = gathering.gather(x, places.indices, places.numbers, places.sizes, **places.promises)
    return shapes.expand_dims(rev(slices, places.reversed), places.new)


def index_update(x: Any, at: Any, value: Any, kind: str) -> Any:
    """Returns the array with `x[at]` set to a value or combined with it; drops what is outside.

    Args:
        x: The array.
        at: As for `index`.
        value: What is written; it is broadcast to the shape of `x[at]`.
        kind: As for `scatter`: "set", "add", "sub", "mul", "min", "max".
    """
    old = aval_of(x)
    dtype, weak = promote(old, aval_of(value))
    places = _places(old, *spelled(old.shape, at))
    if 0 in places.shape:
        return x
    updates = rev(_fitted(value, dtype, places), places.reversed)
    x = shapes.convert_element_type(x, dtype, weak)
    x = gathering.scatter(kind, x, places.indices, updates, places.numbers, **places.promises)
    return shapes.convert_element_type(x, old.dtype, old.weak_type)


def _update(kind: str, meaning: str) -> Callable[..., Any]:
    def update(self: "At", value: Any) -> Any:
        return index_update(self._x, self._index, value, kind)

    update.__doc__ = f"`{meaning}`, as a new array."
    return update


class At:
    """`x.at[index].set(value)` and its like: a new array, `x` with something written there."""

    __slots__ = ("_index", "_x")

    def __init__(self, x: Any, index: Any = ()) -> None:
        self._x = x
        self._index = index

    def __getitem__(self, index: Any) -> "At":
        return At(self._x, index)

    def get(self) -> Any:
        """`x[index]`."""
        return index(self._x, self._index)

    # A place that is named twice is added to twice.
    set, add = _update("set", "x[index] = value"), _update("add", "x[index] += value")
    subtract, multiply = _update("sub", "x[index] -= value"), _update("mul", "x[index] *= value")
    mul = multiply
    min = _update("min", "x[index] = minimum(x[index], value)")
    max = _update("max", "x[index] = maximum(x[index], value)")


# ---- what an index says -------------------------------------------------------------------------


class NonConcreteBooleanIndexError(IndexError):
    """A mask whose numbers are not known was used as an index: the shape would be unknown."""


def spelled(shape: Sequence[int], at: Any) -> tuple[list[Entry], Order]:
    """Expands an index to an entry per axis, and the origin of each axis of the result.

    Arrays (and integers beside them) give their axes where the first of them stands; in front of
    all others where something stands between two of them.
    """
    if isinstance(at, list):
        raise TypeError(
            f"x[{at}]: a list alone is no index, as x[[0, 1]] might mean x[0, 1]: make it an array."
        )
    parts = list(map(_part, at if isinstance(at, tuple) else (at,)))
    used = sum(map(_axes, parts))
    dots = [k for k, part in enumerate(parts) if part is ...]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed"
        )
    place = dots[0] if dots else len(parts)
    parts[place : place + 1] = [..., *[slice(None)] * (len(shape) - used)]
    entries: list[Entry] = []
    order: list[Any] = []
    for part in parts:
        if part is None or part is ...:
            order.append(part)
            continue
        for entry in _entries(part, len(entries), shape):
            if isinstance(entry, range):
                order.append(len(entries))
            elif order[-1:] != [ARRAYS]:
                order.append(ARRAYS)
            entries.append(entry)
    if order.count(ARRAYS) > 1:
        order = [ARRAYS, *(about for about in order if about != ARRAYS)]
    return entries, [about for about in order if about is not ...]


def _part(part: Any) -> Any:
    """Returns a part of an index, as an array unless it is an integer, slice, None or `...`."""
    if isinstance(part, bool | float | complex | str | list) or hasattr(part, "__array__"):
        return part if isinstance(part, Value) else np.asarray(part)
    if part is None or part is ... or isinstance(part, slice | int):
        return part
    raise IndexError(
        f"only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean "
        f"arrays are valid indices, got {part!r}"
    )


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.bool_


def _axes(part: Any) -> int:
    """Returns how many axes of the array a part of an index consumes."""
    if part is None or part is ...:
        return 0
    return max(part.ndim, 1) if _is_mask(part) else 1


def _entries(part: Any, axis: int, shape: Sequence[int]) -> Iterator[Entry]:
    """Yields an entry for each axis that a part of an index consumes."""
    n = shape[axis]
    if isinstance(part, slice):
        if any(isinstance(bound, Tracer) for bound in (part.start, part.stop, part.step)):
            raise IndexError(
                f"{observer.line()}: Slice entries must be static integers, got {part}: the "
                f"length of the result would be unknown. Use lax.dynamic_slice, which takes a "
                f"traced start and a known size, or mark the bounds static (static_argnums)."
            )
        yield range(*part.indices(n))
    elif isinstance(part, int):
        yield part + n if -n <= part < 0 else part
    elif _is_mask(part):
        mask, own = _concrete(part), tuple(shape[axis : axis + _axes(part)])
        if mask.shape != own:
            raise IndexError(
                f"boolean index did not match shape of indexed array in index {axis}: got "
                f"{mask.shape}, expected {own}"
            )
        yield from (where.astype(INT) for where in np.nonzero(mask))
    elif part.dtype.kind in "iu":
        yield part
    elif isinstance(part, np.ndarray) and not part.size:
        yield part.astype(INT)
    else:
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {part.dtype.name}"
        )


def _concrete(mask: Any) -> np.ndarray:
    if isinstance(mask, Tracer):
        raise NonConcreteBooleanIndexError(
            f"{observer.line()}: Array boolean indices must be concrete; got "
            f"{mask.aval.str_short()}, whose numbers are not known yet, so that the result would "
            f"have no known shape. Use cnp.where(mask, x, other), or x.at[...] with integers."
        )
    return np.asarray(mask)


# ---- slices -------------------------------------------------------------------------------------


def _is_static(entry: Entry, n: int) -> bool:
    """Whether a static slice can compute this entry."""
    return isinstance(entry, range) or (isinstance(entry, int) and 0 <= entry < n)


def _is_dynamic(entry: Entry) -> bool:
    """Whether a dynamic slice can compute this entry."""
    return abs(entry.step) == 1 if isinstance(entry, range) else not np.ndim(entry)


def _upwards(span: range) -> tuple[int, int, int]:
    """Returns start, limit and positive stride of the elements of a range."""
    if span.step > 0:
        return span.start, max(span.start, span.stop), span.step
    return (span[-1], span[0] + 1, -span.step) if span else (0, 0, 1)


def _slice(x: Any, entries: Sequence[Entry]) -> Any:
    spans = [_upwards(e if isinstance(e, range) else range(e, e + 1)) for e in entries]
    return slice_(x, *zip(*spans, strict=True)) if spans else x


def _dynamic_slice(x: Any, entries: Sequence[Entry]) -> Any:
    starts = [_upwards(e)[0] if isinstance(e, range) else e for e in entries]
    starts = [INT.type(start) if isinstance(start, int) else start for start in starts]
    if len(starts) > 1:
        starts = [shapes.convert_element_type(start, INT) for start in starts]
    sizes = tuple(len(e) if isinstance(e, range) else 1 for e in entries)
    places = map(wrapped, starts, aval_of(x).shape)
    return dynamic_slice_p.bind(x, *places, slice_sizes=sizes)


# ---- gathers and scatters -----------------------------------------------------------------------


class _Places(NamedTuple):
    """The operands of a gather or a scatter for an index."""

    indices: Any  # a row of numbers for each slice
    numbers: tuple[Numbers, ...]
    sizes: Numbers  # of a slice
    shape: Numbers  # of the result
    reversed: list[int]  # axes of the result that come out backwards, before axes are added
    new: list[int]  # axes that are added in the end
    promises: dict[str, Any]


def _places(x: ShapedArray, entries: Sequence[Entry], order: Order) -> _Places:
    """Makes slices of ranges with step 1, and rows of indices of all other entries."""
    # x[:, i, ::2] of f32[4,5,6] with i32[3] indices: slices of sizes (4, 1, 1) along axis 0, and
    # rows for axes 1 and 2, i32[3,3,2], which pair each number of i with each of 0, 2, 4.
    columns, common = _together(entries, x.shape)
    walks: dict[int, int | None] = dict.fromkeys(columns, ARRAYS)  # what a column varies along
    spans = {axis: entry for axis, entry in enumerate(entries) if isinstance(entry, range)}
    windows = [axis for axis, span in spans.items() if span.step == 1]
    for axis, span in spans.items():
        if span.step != 1:
            columns[axis], walks[axis] = _steps(span), axis
        elif len(span) < x.shape[axis]:
            columns[axis], walks[axis] = INT.type(span.start), None
    axes: list[tuple[int | None, int]] = []  # of the result: what each is about, and its length
    for about in order:
        if about == ARRAYS:
            axes += [(ARRAYS, n) for n in common]
        else:
            axes.append((about, 1 if about is None else len(spans[about])))
    own_axes = [about for about, _ in axes if about is not None]
    along = [(about, n) for about, n in axes if about is not None and about not in windows]
    batch = [n for _, n in along]
    pointed = tuple(sorted(columns))
    values = [shapes.convert_element_type(columns[axis], INT) for axis in pointed]
    rows = []
    for value, axis in zip(values, pointed, strict=True):
        dims = [k for k, (about, _) in enumerate(along) if about == walks[axis]]
        rows.append(basics.broadcast_in_dim(value, (*batch, 1), dims))
    offsets = tuple(i for i, about in enumerate(own_axes) if about in windows)
    return _Places(
        indices=concatenate(rows, len(batch)) if rows else np.zeros((*batch, 0), INT),
        numbers=(offsets, tuple(basics.other_axes(x.ndim, windows)), pointed),
        sizes=tuple(len(spans[axis]) if axis in windows else 1 for axis in range(x.ndim)),
        shape=tuple(n for _, n in axes),
        reversed=[i for i, a in enumerate(own_axes) if a != ARRAYS and spans[a].step < 0],
        new=[i for i, (about, _) in enumerate(axes) if about is None],
        promises=dict.fromkeys(("indices_are_sorted", "unique_indices"), not common),
    )


def _together(entries: Sequence[Entry], shape: Numbers) -> tuple[dict[int, Any], Numbers]:
    """Returns the integers and arrays of an index by axis, broadcast to one shape; and that."""
    indices = {
        axis: entry if isinstance(entry, int) else wrapped(entry, shape[axis])
        for axis, entry in enumerate(entries)
        if not isinstance(entry, range)
    }
    common = broadcast_shapes((), *(aval_of(entry).shape for entry in indices.values()))
    if not common:
        return {axis: INT.type(e) if isinstance(e, int) else e for axis, e in indices.items()}, ()
    return {axis: basics.broadcast_to(entry, common) for axis, entry in indices.items()}, common


def _steps(span: range) -> Any:
    """Returns the numbers of a range in ascending order."""
    times = mul(INT.type(span.step), shapes.iota(INT, (len(span),)))
    numbers = add(INT.type(span.start), times)
    return rev(numbers, [0]) if span.step < 0 else numbers


def _fitted(value: Any, dtype: np.dtype, places: _Places) -> Any:
    """Broadcasts a value to the slices that it replaces, without the axes that the index added."""
    if isinstance(value, bool | int | float | complex):
        value = dtype.type(value)
    shape = places.shape
    aval = aval_of(value)
    fits = zip(aval.shape[::-1], shape[::-1], strict=False)
    if aval.ndim > len(shape) or any(n not in (1, m) for n, m in fits):
        raise ValueError(
            f"x.at[...]: a value of shape {aval.shape} cannot be broadcast to the shape {shape} "
            f"of what it replaces."
        )
    fitted = basics.broadcast_to(shapes.convert_element_type(value, dtype), shape)
    return shapes.squeeze(fitted, places.new)
