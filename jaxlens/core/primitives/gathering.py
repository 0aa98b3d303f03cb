"""Reading and writing many slices at once: gather and scatter.

A gather takes slices of one size out of an array, one for each row of an array of integers, which
says where it begins; a scatter puts slices there. They are what `x[indices]` and `x.at[indices]`
become, and what a slice becomes whose place differs from example to example. They undo each other:
the transpose of reading is adding at the same places, and the transpose of adding is reading there.
No shape tells whether a place exists, so there is a rule for places outside (`GatherScatterMode`),
and none of them is an error.

The meaning is that of the ops in the StableHLO specification. Differs from JAX: what a scatter
makes of old and new is in its name, not in a jaxpr; scatter-min and scatter-max have no derivative.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import Linear, Zero, i64s, select_n
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives import shapes
from jaxlens.core.primitives.contractions import reduce_and
from jaxlens.core.primitives.elementwise import accept, add, and_p, eq, full_like, ge, le_p, neg
from jaxlens.core.primitives.functions import clamp_p

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


def _check(name: str, x: ShapedArray, indices: ShapedArray, sizes: Numbers, axes: Numbers) -> None:
    """Raises unless there can be slices of these sizes where the indices point, along axes."""
    fits = all(0 <= size <= n for size, n in zip(sizes, x.shape, strict=True))
    if not fits or indices.dtype.kind not in "iu" or indices.shape[-1] != len(axes):
        raise TypeError(
            f"{name}: slices of sizes {sizes} at integer places along the axes {axes} do not fit "
            f"{x.str_short()} and the indices {indices.str_short()}."
        )


def _last(shape: Numbers, indices: Any, axes: Sequence[int], sizes: Numbers) -> Any:
    """Returns for each index the last start at which a slice still fits along its axis."""
    last = np.minimum([shape[i] - sizes[i] for i in axes], np.iinfo(indices.dtype).max)
    return basics.broadcast_in_dim(last.astype(indices.dtype), indices.shape, (indices.ndim - 1,))


def _widened(numbers: Any, of_rows: bool) -> Any:
    """Returns dimension numbers for a batch; `of_rows`: each example has its own indices."""
    window, dropped, pointed, own, batched = (basics.bump(axes, 0) for axes in numbers)
    if of_rows:
        own, batched = (0, *own), (0, *batched)
    else:
        window, batched = (0, *window), numbers[4]
    return type(numbers)(window, dropped, pointed, own, batched)


# ---- gather -------------------------------------------------------------------------------------

gather_p = Primitive("gather")


@gather_p.rule("abstract")
def _(x: ShapedArray, indices: ShapedArray, **params: Any) -> ShapedArray:
    offsets, dropped, pointed, own, _ = params["dimension_numbers"]
    _check("gather", x, indices, params["slice_sizes"], pointed)
    window = iter(params["slice_sizes"][axis] for axis in basics.other_axes(x.ndim, dropped, own))
    rows = iter(indices.shape[:-1])
    ndim = len(offsets) + indices.ndim - 1
    return x.update(shape=tuple(next(window if i in offsets else rows) for i in range(ndim)))


@gather_p.rule("lower")
def _(ctx: Any, x: Any, indices: Any, **params: Any) -> Any:
    if params["mode"] is GatherScatterMode.FILL_OR_DROP:
        whole = trace(lambda *args: [_filled(*args, **params)], ctx.avals_in)
        return ctx.inline(whole, x, indices)[0]
    offsets, dropped, pointed, own, batched = map(list, params["dimension_numbers"])
    axis = ctx.avals_in[1].ndim - 1
    numbers = hlo.GatherDimensionNumbers.get(offsets, dropped, own, batched, pointed, axis)
    sizes, is_sorted = i64s(params["slice_sizes"]), params["indices_are_sorted"]
    return hlo.gather(x, indices, numbers, sizes, indices_are_sorted=is_sorted)


def _filled(x: Any, indices: Any, *, fill_value: Any, **params: Any) -> Any:
    """Gathers slices; a slice that is not wholly inside is `fill_value`."""
    numbers = params["dimension_numbers"]
    last = _last(x.shape, indices, numbers.start_index_map, params["slice_sizes"])
    inside = and_p.bind(ge(indices, indices.dtype.type(0)), le_p.bind(indices, last))
    good = reduce_and(inside, (indices.ndim - 1,))
    values = gather_p.bind(x, indices, **params | {"mode": GatherScatterMode.CLIP}, fill_value=None)
    rows = basics.other_axes(values.ndim, numbers.offset_dims)
    good = basics.broadcast_in_dim(good, values.shape, rows)
    return select_n(good, full_like(values, fill_value), values)


@gather_p.rule("jvp")
def _(primals: Any, tangents: Any, *, fill_value: Any, **params: Any) -> Any:
    result = gather_p.bind(*primals, fill_value=fill_value, **params)
    zero = None if fill_value is None else 0
    return result, gather_p.bind(tangents[0], primals[1], fill_value=zero, **params)


@gather_p.rule("transpose")
def _(ct: Any, x: Linear, indices: Any, **params: Any) -> list[Any]:
    del params["slice_sizes"], params["fill_value"]
    params["dimension_numbers"] = ScatterDimensionNumbers(*params["dimension_numbers"])
    zeros = basics.full(x.aval.shape, 0, x.aval.dtype)
    return [scatter_add_p.bind(zeros, indices, ct, **params), None]


@gather_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    pairs = zip(args, dims, strict=True)
    x, indices = (a if d is None else basics.moveaxis(a, d, 0) for a, d in pairs)
    if dims[0] is None:
        offsets, dropped, pointed, own, batched = dimension_numbers
        offsets, batched = basics.bump(offsets, 0), basics.bump(batched, 0)
        numbers = GatherDimensionNumbers(offsets, dropped, pointed, own, batched)
        params |= {"indices_are_sorted": False, "unique_indices": False}
    else:
        numbers = _widened(dimension_numbers, dims[1] is not None)
        length = size if dims[1] is None else min(size, 1)
        params["slice_sizes"] = (length, *params["slice_sizes"])
    return gather_p.bind(x, indices, dimension_numbers=numbers, **params), 0


def gather(
    x: Any,
    indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    mode: GatherScatterMode = GatherScatterMode.PROMISE_IN_BOUNDS,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    """Gathers slices of one size, one for each row along the last axis of `indices`."""
    return gather_p.bind(
        x,
        indices,
        dimension_numbers=GatherDimensionNumbers(*dimension_numbers),
        slice_sizes=tuple(slice_sizes),
        mode=mode,
        fill_value=fill_value,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
    )


def gather_along(x: Any, indices: Any, axis: int) -> Any:
    """Gathers elements of each row along an axis; the last axis of `indices` has length 1."""
    ndim = aval_of(x).ndim
    rows = tuple(basics.other_axes(ndim, [axis]))
    return gather(x, indices, ((), (axis,), (axis,), rows, rows), (1,) * ndim)


# ---- scatter ------------------------------------------------------------------------------------


def _sizes(numbers: ScatterDimensionNumbers, ndim: int, updates: Numbers) -> Numbers:
    """Returns the sizes of the slice that one update replaces."""
    window, dropped, _, own, _ = numbers
    lengths = iter(window)
    return tuple(1 if i in (*dropped, *own) else updates[next(lengths)] for i in range(ndim))


def _abstract(
    x: ShapedArray, indices: ShapedArray, updates: ShapedArray, **params: Any
) -> ShapedArray:
    window, _, pointed, *_ = numbers = params["dimension_numbers"]
    _check("scatter", x, indices, _sizes(numbers, x.ndim, updates.shape), pointed)
    rows = tuple(updates.shape[axis] for axis in basics.other_axes(updates.ndim, window))
    if rows != indices.shape[:-1] or updates.dtype != x.dtype:
        raise TypeError(
            f"scatter: updates must have the array's dtype {x.dtype.name} and a slice for each "
            f"row of the indices {indices.str_short()}, got {updates.str_short()}."
        )
    return x


def _scatter(name: str, combined: Callable[[Any, Any], Any], takes: str = "biufc") -> Primitive:
    """Returns a scatter primitive.

    Args:
        name: Its name in jaxprs.
        combined: Emits the op that combines old and new.
        takes: Kinds of dtype that it takes.
    """

    def abstract(x: ShapedArray, *rest: ShapedArray, **params: Any) -> ShapedArray:
        accept(name, x.dtype, takes)
        return _abstract(x, *rest, **params)

    def lower(ctx: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        old, rows, new = ctx.avals_in
        dimension_numbers = params.pop("dimension_numbers")
        window, inserted, pointed, own, batched = map(list, dimension_numbers)
        if params.pop("mode") is GatherScatterMode.CLIP:
            zero, sizes = rows.dtype.type(0), _sizes(dimension_numbers, old.ndim, new.shape)
            last = partial(_last, old.shape, axes=pointed, sizes=sizes)
            inside = trace(lambda i: [clamp_p.bind(zero, i, last(i))], [rows])
            (indices,) = ctx.inline(inside, indices)
        axis = rows.ndim - 1
        numbers = hlo.ScatterDimensionNumbers.get(window, inserted, own, batched, pointed, axis)
        promises = {promise: ir.BoolAttr.get(value) for promise, value in params.items()}
        op = hlo.ScatterOp([ctx.type(ctx.out)], [x], indices, [updates], numbers, **promises)
        return ctx.combining(op, combined)

    def batch(size: int, args: Any, dims: Any, *, dimension_numbers: Any, **params: Any) -> Any:
        x, updates = basics.fronts(size, args[::2], dims[::2])
        indices = args[1] if dims[1] is None else basics.moveaxis(args[1], dims[1], 0)
        numbers = _widened(dimension_numbers, dims[1] is not None)
        return primitive.bind(x, indices, updates, dimension_numbers=numbers, **params), 0

    primitive = Primitive(name, abstract=abstract, lower=lower, batch=batch)
    return primitive


scatter_p = _scatter("scatter", lambda old, new: new)
scatter_add_p = _scatter("scatter-add", hlo.add, "iufc")
scatter_sub_p = _scatter("scatter-sub", hlo.subtract, "iufc")
scatter_mul_p = _scatter("scatter-mul", hlo.multiply, "iufc")
scatter_min_p = _scatter("scatter-min", hlo.minimum, "biuf")
scatter_max_p = _scatter("scatter-max", hlo.maximum, "biuf")


def _read(x: Any, indices: Any, shape: Numbers, numbers: Any, **mode: Any) -> Any:
    """Gathers the elements that a scatter with updates of this shape would write."""
    return gather(x, indices, numbers, _sizes(numbers, aval_of(x).ndim, shape), **mode)


def _transpose(primitive: Primitive, sign: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns the transpose rule of "set" (unique indices), "add" or "sub" (`sign`)."""

    def transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        shape = shapes.type_of(updates).shape
        old = new = None
        if type(x) is Linear and primitive is scatter_p:
            old = scatter_p.bind(ct, indices, basics.full(shape, 0, ct.dtype), **params)
        elif type(x) is Linear:
            old = ct
        if type(updates) is Linear:
            numbers, mode = params["dimension_numbers"], params["mode"]
            new = sign(_read(ct, indices, shape, numbers, mode=mode, fill_value=0))
        return [old, None, new]

    return transpose


scatter_p.transpose = _transpose(scatter_p, lambda ct: ct)
scatter_add_p.jvp, scatter_sub_p.jvp = basics.linear(scatter_add_p), basics.linear(scatter_sub_p)
scatter_add_p.transpose = _transpose(scatter_add_p, lambda ct: ct)
scatter_sub_p.transpose = _transpose(scatter_sub_p, neg)


@scatter_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    (x, indices, updates), numbers = primals, params["dimension_numbers"]
    moved, moving = basics.instantiate(tangents[0]), basics.instantiate(tangents[2])
    if params["unique_indices"]:
        result = scatter_p.bind(*primals, **params)
        return result, scatter_p.bind(moved, indices, moving, **params)
    # Write the number of each update, see which one stayed, and add those only.
    shape, window = aval_of(updates).shape, numbers.update_window_dims
    rows = [1 if axis in window else n for axis, n in enumerate(shape)]
    count = shapes.iota(np.uint32, (int(np.prod(rows)),))
    ids = add(basics.reshape(count, rows), basics.full(shape, 1, np.uint32))
    written = scatter_p.bind(basics.full(aval_of(x).shape, 0, np.uint32), indices, ids, **params)
    stayed = _read(written, indices, shape, numbers)

    def masked(old: Any, new: Any) -> tuple[Any, Any]:
        untouched = eq(written, full_like(written, 0))
        base = select_n(untouched, full_like(old, 0), old)
        return base, select_n(eq(ids, stayed), full_like(new, 0), new)

    pairs = masked(x, updates), masked(moved, moving)
    return tuple(scatter_add_p.bind(old, indices, new, **params) for old, new in pairs)


@scatter_mul_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    if type(tangents[2]) is not Zero:
        raise NotImplementedError(
            "scatter-mul has no derivative by its updates: for x.at[i].multiply(y) write "
            "x.at[i].set(x[i] * y), which is the same if no two indices are equal."
        )
    result = scatter_mul_p.bind(*primals, **params)
    return result, scatter_mul_p.bind(tangents[0], *primals[1:], **params)


@scatter_mul_p.rule("transpose")
def _(ct: Any, x: Linear, indices: Any, updates: Any, **params: Any) -> list[Any]:
    return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]
