"""Cutting arrays and joining them: slice, pad, concatenate, split, rev; stack and unstack by these.

Where the cuts are is known when the program is traced, so each result has a known shape. They come
in pairs that undo each other, and the transpose of one is the other: a slice gives its cotangent
back padded with zeros, the parts of a concatenation get their slices of it.

The meaning of each is that of the op of the same name in the StableHLO specification.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import Axes, Linear, i64s, select_n_p
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives import shapes
from jaxlens.core.primitives.elementwise import sub_p

Padding = tuple[tuple[int, int, int], ...]  # per axis: before, after, between two neighbours

# ---- slice --------------------------------------------------------------------------------------

slice_p = basics.movement("slice")


@slice_p.rule("abstract")
def _(x: ShapedArray, *, start_indices: Axes, limit_indices: Axes, strides: Any) -> ShapedArray:
    steps = strides or (1,) * x.ndim
    spans = list(zip(start_indices, limit_indices, steps, x.shape, strict=False))
    fits = len(start_indices) == len(limit_indices) == len(steps) == x.ndim
    if not fits or any(not 0 <= i <= j <= n or step < 1 for i, j, step, n in spans):
        raise TypeError(
            f"slice: {x.str_short()} needs {x.ndim} start_indices and limit_indices, in order and "
            f"within the shape, and positive strides (use rev to go backwards), got "
            f"{start_indices}, {limit_indices} and {strides}."
        )
    return x.update(shape=tuple(-((i - j) // step) for i, j, step, _ in spans))


@slice_p.rule("lower")
def _(ctx: Any, x: Any, *, start_indices: Axes, limit_indices: Axes, strides: Any) -> Any:
    steps = strides or (1,) * len(start_indices)
    return hlo.slice(x, i64s(start_indices), i64s(limit_indices), i64s(steps))


@slice_p.rule("transpose")
def _(ct: Any, x: Linear, *, start_indices: Axes, strides: Any, **_: Any) -> list[Any]:
    config = []
    steps = strides or (1,) * x.aval.ndim
    for start, step, n, m in zip(start_indices, steps, x.aval.shape, ct.shape, strict=True):
        reached = start + (m - 1) * step + 1 if m else start
        config.append((start, n - reached, step - 1))
    return [pad(ct, basics.full((), 0, ct.dtype), config)]


@slice_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, strides: Any, **params: Any) -> Any:
    dim, own = dims[0], {"start_indices": 0, "limit_indices": size, "strides": 1}
    params |= {} if strides is None else {"strides": strides}
    wider = {name: (*old[:dim], own[name], *old[dim:]) for name, old in params.items()}
    return slice_p.bind(*args, **{"strides": None} | wider), dim


def slice(x: Any, starts: Sequence[int], limits: Sequence[int], strides: Any = None) -> Any:
    """Slices each axis from `start` to before `limit` by `stride`."""
    steps = None if strides is None or set(strides) <= {1} else tuple(strides)
    if steps is None and not any(starts) and tuple(limits) == aval_of(x).shape:
        return x
    return slice_p.bind(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=steps)


def slice_in_axis(x: Any, axis: int, start: int, limit: int, stride: int = 1) -> Any:
    """Slices one axis from `start` to before `limit` by `stride`."""
    shape = aval_of(x).shape
    starts, strides = [0] * len(shape), [1] * len(shape)
    starts[axis], strides[axis] = start, stride
    return slice(x, starts, shapes.resized(shape, axis, limit), strides)


# ---- pad ----------------------------------------------------------------------------------------

pad_p = basics.movement("pad")


@pad_p.rule("abstract")
def _(x: ShapedArray, value: ShapedArray, *, padding_config: Padding) -> ShapedArray:
    if x.dtype != value.dtype or value.shape:
        raise TypeError(
            f"pad: padding_value must be a scalar of the operand's dtype {x.dtype.name}, got "
            f"{value.str_short()}."
        )
    shape = tuple(
        before + after + n + max(n - 1, 0) * between
        for n, (before, after, between) in zip(x.shape, padding_config, strict=False)
    )
    bad = len(padding_config) != x.ndim or any(between < 0 for *_, between in padding_config)
    if bad or min(shape, default=0) < 0:
        raise ValueError(
            f"pad: padding_config must have (before, after, between) for each of the {x.ndim} "
            f"axes, between not negative, and not take more than there is from {x.str_short()}, "
            f"got {padding_config}."
        )
    return ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)


@pad_p.rule("lower")
def _(ctx: Any, x: Any, value: Any, *, padding_config: Padding) -> Any:
    columns = zip(*padding_config, strict=True) if padding_config else ((), (), ())
    return hlo.pad(x, value, *map(i64s, columns))


@pad_p.rule("transpose")
def _(ct: Any, x: Any, value: Any, *, padding_config: Padding) -> list[Any]:
    shrunk = pad(ct, basics.full((), 0, ct.dtype), [(-lo, -hi, 0) for lo, hi, _ in padding_config])
    own = slice(shrunk, (0,) * ct.ndim, shrunk.shape, [1 + mid for *_, mid in padding_config])
    if type(value) is not Linear:
        return [own, None]
    axes = tuple(range(ct.ndim))
    rest = sub_p.bind(basics.reduce_sum(ct, axes), basics.reduce_sum(own, axes))
    return [own if type(x) is Linear else None, rest]


@pad_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, padding_config: Padding) -> Any:
    x, value = args
    if dims[1] is None:
        config = (*padding_config[: dims[0]], (0, 0, 0), *padding_config[dims[0] :])
        return pad(x, value, config), dims[0]
    # Each example has its own value: pad with zeros, and a mask of what is not padding.
    x, config = basics.fronts(size, [x], dims[:1])[0], ((0, 0, 0), *padding_config)
    padded = pad(x, basics.full((), 0, x.dtype), config)
    mask = pad(basics.full(x.shape, True, bool), basics.full((), False, bool), config)
    return select_n_p.bind(mask, basics.broadcast_in_dim(value, padded.shape, (0,)), padded), 0


def pad(x: Any, value: Any, config: Sequence[tuple[int, int, int]]) -> Any:
    """Pads each axis before, after and between its elements; negative widths cut off."""
    if all(widths == (0, 0, 0) for widths in config):
        return x
    return pad_p.bind(x, value, padding_config=tuple(map(tuple, config)))


# ---- concatenate and split ----------------------------------------------------------------------

concatenate_p = basics.movement(
    "concatenate",
    lambda size, dimension: {"dimension": dimension + 1},
    lower=lambda ctx, *operands, dimension: hlo.concatenate(operands, dimension),
)


@concatenate_p.rule("abstract")
def _(*avals: ShapedArray, dimension: int) -> ShapedArray:
    first = avals[0]
    rests = {(a.dtype, a.shape[:dimension], a.shape[dimension + 1 :]) for a in avals}
    if not 0 <= dimension < first.ndim or len(rests) > 1:
        raise TypeError(
            f"concatenate requires arguments to have the same dtypes (see astype), and shapes that "
            f"agree but for axis {dimension}, got {', '.join(a.str_short() for a in avals)}."
        )
    total = sum(aval.shape[dimension] for aval in avals)
    shape = shapes.resized(first.shape, dimension, total)
    return ShapedArray(shape, first.dtype, all(aval.weak_type for aval in avals))


@concatenate_p.rule("transpose")
def _(ct: Any, *args: Any, dimension: int) -> list[Any]:
    parts = split(ct, [shapes.type_of(x).shape[dimension] for x in args], dimension)
    return [part if type(x) is Linear else None for part, x in zip(parts, args, strict=True)]


def concatenate(arrays: Sequence[Any], dimension: int) -> Any:
    """Joins arrays along an existing axis."""
    return concatenate_p.bind(*arrays, dimension=dimension) if len(arrays) > 1 else arrays[0]


split_p = basics.movement("split", multiple_results=True)
split_p.batch = shapes.examples_stay(split_p, "axis")


@split_p.rule("abstract")
def _(x: ShapedArray, *, sizes: Axes, axis: int) -> list[ShapedArray]:
    if sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise ValueError(f"split: sizes {sizes} must add up to axis {axis} of {x.str_short()}.")
    return [x.update(shape=shapes.resized(x.shape, axis, n)) for n in sizes]


@split_p.rule("lower")
def _(ctx: Any, x: Any, *, sizes: Axes, axis: int) -> list[Any]:
    shape, parts = ctx.avals_in[0].shape, []
    for start, limit in pairwise(accumulate(sizes, initial=0)):
        starts = shapes.resized([0] * len(shape), axis, start)
        limits = shapes.resized(shape, axis, limit)
        parts.append(hlo.slice(x, i64s(starts), i64s(limits), i64s([1] * len(shape))))
    return parts


@split_p.rule("transpose")
def _(cts: Sequence[Any], x: Linear, *, sizes: Axes, axis: int) -> list[Any]:
    return [concatenate(list(map(basics.instantiate, cts)), axis)]


def split(x: Any, sizes: Sequence[int], axis: int = 0) -> Any:
    """Splits an axis into pieces of these lengths."""
    return split_p.bind(x, sizes=tuple(sizes), axis=axis)


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Joins arrays of one shape along a new axis."""
    return concatenate([shapes.expand_dims(x, [axis]) for x in arrays], axis)


def unstack(x: Any, axis: int = 0) -> list[Any]:
    """Returns the slices along an axis, one array each."""
    rows = split(x, [1] * aval_of(x).shape[axis], axis)
    return [shapes.squeeze(row, [axis]) for row in rows]


# ---- rev ----------------------------------------------------------------------------------------

rev_p = basics.movement(
    "rev",
    lower=lambda ctx, x, *, dimensions: hlo.reverse(x, i64s(dimensions)),
    transpose=lambda ct, x, *, dimensions: [rev(ct, dimensions)],
)
rev_p.batch = shapes.examples_stay(rev_p, "dimensions")


@rev_p.rule("abstract")
def _(x: ShapedArray, *, dimensions: Axes) -> ShapedArray:
    basics.without(x, dimensions, "rev")
    return x


def rev(x: Any, dimensions: Sequence[int]) -> Any:
    """Reverses the order of elements along axes."""
    return rev_p.bind(x, dimensions=tuple(dimensions)) if dimensions else x
