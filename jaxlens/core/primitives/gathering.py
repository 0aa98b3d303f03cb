"""Reading many slices at once: gather.

A gather takes slices of one size out of an array, one for each row of an array of integers, which
says where it begins. It is what `x[indices]` becomes, and what a slice becomes whose place differs
from example to example. No shape tells whether a place exists, so there is a rule for places
outside (`GatherScatterMode`), and none of them is an error.

The meaning is that of the op in the StableHLO specification.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, is_inexact
from jaxlens.core.primitives.elementwise import (
    and_p,
    eq_p,
    ge_p,
    le_p,
    select_n_p,
)
from jaxlens.core.primitives.shapes import (
    broadcast_in_dim,
    convert_element_type,
    full,
    i64s,
    moveaxis,
    reduce_sum,
)
from jaxlens.core.staging import aval_of, trace
from jaxlens.core.tracers import Primitive

Numbers = tuple[int, ...]


class GatherScatterMode(Enum):
    """What happens where an index points outside the array.

    CLIP moves the slice to the nearest place inside. FILL_OR_DROP reads `fill_value` and writes
    nothing. PROMISE_IN_BOUNDS says that it does not happen: if it does, anything may be read.
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"


class GatherDimensionNumbers(NamedTuple):
    """Which axis of the array, the indices and the result is which, in a gather."""

    offset_dims: Numbers  # of the result: the axes along a slice
    collapsed_slice_dims: Numbers  # of the array: cut to length 1 and dropped
    start_index_map: Numbers  # of the array: where the numbers of a row of indices point
    operand_batching_dims: Numbers = ()  # of the array: gone through together with those below
    start_indices_batching_dims: Numbers = ()  # of the indices


class ScatterDimensionNumbers(NamedTuple):
    """The same for a scatter, whose `updates` are shaped as the result of the gather is."""

    update_window_dims: Numbers
    inserted_window_dims: Numbers
    scatter_dims_to_operand_dims: Numbers
    operand_batching_dims: Numbers = ()
    scatter_indices_batching_dims: Numbers = ()


gather_p = Primitive("gather")


@gather_p.rule("abstract")
def _(
    x: ShapedArray, indices: ShapedArray, *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Numbers, **params: Any,
) -> ShapedArray:  # fmt: skip
    numbers = dimension_numbers
    if indices.dtype.kind not in "iu":
        raise TypeError(f"gather: indices must be integers, got {indices.str_short()}.")
    fits = all(0 <= size <= n for size, n in zip(slice_sizes, x.shape, strict=True))
    if not fits or indices.shape[-1] != len(numbers.start_index_map):
        raise TypeError(
            f"gather: slices of sizes {slice_sizes} at places {numbers.start_index_map} do not "
            f"fit {x.str_short()} and the indices {indices.str_short()}."
        )
    dropped = numbers.collapsed_slice_dims + numbers.operand_batching_dims
    window = iter(size for axis, size in enumerate(slice_sizes) if axis not in dropped)
    rows = iter(indices.shape[:-1])
    ndim = len(numbers.offset_dims) + indices.ndim - 1
    return x.update(
        shape=tuple(next(window if i in numbers.offset_dims else rows) for i in range(ndim))
    )


@gather_p.rule("lower")
def _(ctx: Any, x: Any, indices: Any, **params: Any) -> Any:
    if params["mode"] is GatherScatterMode.FILL_OR_DROP:
        whole = trace(lambda *args: [_filled(*args, **params)], ctx.avals_in)
        return ctx.inline(whole, x, indices)[0]
    numbers = params["dimension_numbers"]
    return hlo.gather(
        x, indices,
        hlo.GatherDimensionNumbers.get(
            list(numbers.offset_dims), list(numbers.collapsed_slice_dims),
            list(numbers.operand_batching_dims), list(numbers.start_indices_batching_dims),
            list(numbers.start_index_map), ctx.avals_in[1].ndim - 1,
        ),
        i64s(params["slice_sizes"]), indices_are_sorted=params["indices_are_sorted"],
    )  # fmt: skip


def _filled(x: Any, indices: Any, *, fill_value: Any, **params: Any) -> Any:
    """A gather that reads `fill_value` where a slice is not wholly inside."""
    numbers = params["dimension_numbers"]
    last = last_place(x, numbers.start_index_map, params["slice_sizes"], indices.dtype)
    zero = indices.dtype.type(0)
    inside = and_p.bind(ge_p.bind(indices, zero), le_p.bind(indices, rowwise(last, indices)))
    count = reduce_sum(convert_element_type(inside, np.int32), (indices.ndim - 1,))
    good = eq_p.bind(count, np.int32(len(last)))
    found = gather_p.bind(x, indices, **params | {"mode": GatherScatterMode.CLIP}, fill_value=None)
    rows = [axis for axis in range(found.ndim) if axis not in numbers.offset_dims]
    filler = full(found.shape, fill_value, found.dtype)
    return select_n_p.bind(broadcast_in_dim(good, found.shape, rows), filler, found)


def last_place(x: Any, axes: Numbers, sizes: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """The last place where a slice still fits, along each of these axes."""
    last = [aval_of(x).shape[axis] - sizes[axis] for axis in axes]
    return np.minimum(last, np.iinfo(dtype).max).astype(dtype)


def rowwise(row: np.ndarray, indices: Any) -> Any:
    """The same row of numbers for each row of indices."""
    return broadcast_in_dim(row, indices.shape, (indices.ndim - 1,))


@gather_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    result = gather_p.bind(*primals, **params)
    if params["fill_value"] is not None:
        params = params | {"fill_value": 0}
    return result, gather_p.bind(tangents[0], primals[1], **params)


def _gather_batch(
    size: int, args: Any, dims: Any, *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Numbers, **params: Any,
) -> Any:  # fmt: skip
    x, indices = (a if d is None else moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True))
    numbers, sizes = dimension_numbers, slice_sizes
    offset = later(numbers.offset_dims)
    if dims[0] is not None:
        collapsed, to, own = map(later, (*numbers[1:4],))
        batched = numbers.start_indices_batching_dims
        sizes = (size, *sizes)
        if dims[1] is None:
            offset = (0, *offset)
        else:
            own, batched, sizes = (0, *own), (0, *later(batched)), (min(size, 1), *slice_sizes)
        numbers = GatherDimensionNumbers(offset, collapsed, to, own, batched)
    else:
        batched = later(numbers.start_indices_batching_dims)
        numbers = numbers._replace(offset_dims=offset, start_indices_batching_dims=batched)
        params = params | {"indices_are_sorted": False, "unique_indices": False}
    return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=sizes, **params), 0


gather_p.batch = _gather_batch


def later(axes: Numbers) -> Numbers:
    """Axes behind a new first one."""
    return tuple(axis + 1 for axis in axes)


def _fill(dtype: np.dtype) -> Any:
    """What is read outside an array: NaN, the smallest signed or the largest unsigned integer."""
    if is_inexact(dtype):
        return np.nan
    if dtype.kind == "b":
        return True
    return int(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)


def gather(
    x: Any,
    indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    mode: GatherScatterMode = GatherScatterMode.PROMISE_IN_BOUNDS,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    """Slices of one size, one for each row of `indices`, whose last axis is a row."""
    if mode is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = _fill(aval_of(x).dtype)
    return gather_p.bind(
        x, indices, dimension_numbers=dimension_numbers, slice_sizes=tuple(slice_sizes), mode=mode,
        fill_value=fill_value, indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
    )  # fmt: skip


def gather_along(x: Any, indices: Any, axis: int, **options: Any) -> Any:
    """For each row along an axis, the elements at that row's places; `indices` end in an axis 1."""
    ndim = aval_of(x).ndim
    others = tuple(i for i in range(ndim) if i != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(x, indices, numbers, (1,) * ndim, **options)
