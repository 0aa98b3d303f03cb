"""Collectives that cut and join: all_gather, psum_scatter, all_to_all.

Gathering gives everyone everyone's values; its transpose adds what comes back and gives each its
own part. An all-to-all is a transpose of the whole array: what was cut along one axis is then cut
along another. Over a name of `vmap` they are reshapes and transposes of one array.

The meaning of each is that of the StableHLO op that it lowers to.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.parallel.collectives import alone, axis_size, combined, groups, names_of, of_each
from jaxlens.core.primitives.shapes import (
    expand_dims,
    linear,
    moveaxis,
    reduce_sum,
    reshape,
    squeeze,
)
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive
from jaxlens.core.trees import tree_map

Names = tuple[str, ...]

# ---- all_gather and its transpose, psum_scatter --------------------------------------------------

all_gather_p = Primitive("all_gather")
reduce_scatter_p = Primitive("reduce_scatter")


@all_gather_p.rule("abstract")
def _(
    x: ShapedArray, *, all_gather_dimension: int, axis_name: Names, axis_size: int, tiled: bool
) -> ShapedArray:
    shape, place = list(x.shape), all_gather_dimension
    if tiled:
        shape[place] *= axis_size
    else:
        shape.insert(place, axis_size)
    return x.update(shape=tuple(shape))


@reduce_scatter_p.rule("abstract")
def _(
    x: ShapedArray, *, scatter_dimension: int, axis_name: Names, axis_size: int, tiled: bool
) -> ShapedArray:
    shape, place = list(x.shape), scatter_dimension
    if shape[place] % axis_size or (not tiled and shape[place] != axis_size):
        raise ValueError(
            f"psum_scatter: axis {place} of {x.str_short()} must have "
            f"{'a multiple of ' if tiled else ''}{axis_size} elements, one for each along "
            f"{', '.join(axis_name)}."
        )
    shape[place] //= axis_size
    return x.update(shape=tuple(shape if tiled else shape[:place] + shape[place + 1 :]))


@all_gather_p.rule("lower")
def _(ctx: Any, x: Any, *, all_gather_dimension: int, axis_name: Names, **params: Any) -> Any:
    if not params["tiled"]:
        shape = list(ctx.avals_in[0].shape)
        shape.insert(all_gather_dimension, 1)
        x = hlo.reshape(ctx.type(ctx.out.update(shape=tuple(shape))), x)
    op = hlo.AllGatherOp([ctx.type(ctx.out)], [x], all_gather_dimension, **groups(ctx, axis_name))
    return op.results[0]


@reduce_scatter_p.rule("lower")
def _(ctx: Any, x: Any, *, scatter_dimension: int, axis_name: Names, **params: Any) -> Any:
    shape = list(ctx.avals_in[0].shape)
    shape[scatter_dimension] //= params["axis_size"]
    kept = ctx.type(ctx.out.update(shape=tuple(shape)))
    op = hlo.ReduceScatterOp(kept, x, scatter_dimension, **groups(ctx, axis_name))
    return hlo.reshape(ctx.type(ctx.out), combined(op, hlo.add, ctx.out.dtype, ctx))


all_gather_p.jvp, reduce_scatter_p.jvp = linear(all_gather_p), linear(reduce_scatter_p)


@all_gather_p.rule("transpose")
def _(ct: Any, x: Linear, *, all_gather_dimension: int, **params: Any) -> list[Any]:
    return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


@reduce_scatter_p.rule("transpose")
def _(ct: Any, x: Linear, *, scatter_dimension: int, **params: Any) -> list[Any]:
    return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


@all_gather_p.rule("batch")
def _(
    size: int, args: Any, dims: Any, *, all_gather_dimension: int, over: str | None = None,
    **params: Any,
) -> Any:  # fmt: skip
    if over is None:
        front, place = moveaxis(args[0], dims[0], 0), all_gather_dimension + 1
        return all_gather_p.bind(front, all_gather_dimension=place, **params), 0
    alone("all_gather", params["axis_name"])
    rows = of_each(size, args[0], dims[0])
    found = moveaxis(rows, 0, all_gather_dimension)
    return _joined(found, all_gather_dimension) if params["tiled"] else found, None


@reduce_scatter_p.rule("batch")
def _(
    size: int, args: Any, dims: Any, *, scatter_dimension: int, over: str | None = None,
    **params: Any,
) -> Any:  # fmt: skip
    if over is None:
        front, place = moveaxis(args[0], dims[0], 0), scatter_dimension + 1
        return reduce_scatter_p.bind(front, scatter_dimension=place, **params), 0
    alone("psum_scatter", params["axis_name"])
    total = reduce_sum(of_each(size, args[0], dims[0]), (0,))
    parts = _cut(total, scatter_dimension, size) if params["tiled"] else total
    return parts, scatter_dimension


def _joined(x: Any, axis: int) -> Any:
    """An axis and the next one as one."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _cut(x: Any, axis: int, count: int) -> Any:
    """An axis as two, the first of this length."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))


def all_gather(
    x: Any, axis_name: str | Sequence[str], *, axis: int = 0, tiled: bool = False
) -> Any:
    """Everyone's values for everyone, along a new axis; `tiled`: one after another along one."""
    return tree_map(
        partial(
            all_gather_p.bind, all_gather_dimension=axis, axis_name=names_of(axis_name),
            axis_size=axis_size(axis_name), tiled=tiled,
        ), x,
    )  # fmt: skip


def psum_scatter(
    x: Any, axis_name: str | Sequence[str], *, scatter_dimension: int = 0, tiled: bool = False
) -> Any:
    """The sum of everyone's values, of which each gets its part along an axis."""
    return tree_map(
        partial(
            reduce_scatter_p.bind, scatter_dimension=scatter_dimension,
            axis_name=names_of(axis_name), axis_size=axis_size(axis_name), tiled=tiled,
        ), x,
    )  # fmt: skip


# ---- all_to_all ---------------------------------------------------------------------------------

all_to_all_p = Primitive("all_to_all")
all_to_all_p.jvp = linear(all_to_all_p)


@all_to_all_p.rule("abstract")
def _(
    x: ShapedArray, *, split_axis: int, concat_axis: int, axis_name: Names, axis_size: int,
    tiled: bool,
) -> ShapedArray:  # fmt: skip
    shape = list(x.shape)
    if shape[split_axis] % axis_size:
        raise ValueError(
            f"all_to_all: axis {split_axis} of {x.str_short()} must have a multiple of "
            f"{axis_size} elements, some for each along {', '.join(axis_name)}."
        )
    shape[split_axis] //= axis_size
    shape[concat_axis] *= axis_size
    return x.update(shape=tuple(shape))


@all_to_all_p.rule("lower")
def _(
    ctx: Any, x: Any, *, split_axis: int, concat_axis: int, axis_name: Names, axis_size: int,
    tiled: bool,
) -> Any:  # fmt: skip
    who = groups(ctx, axis_name)
    del who["use_global_device_ids"]
    op = hlo.AllToAllOp([x], split_axis, concat_axis, axis_size, **who)
    return op.results[0]


@all_to_all_p.rule("transpose")
def _(ct: Any, x: Linear, *, split_axis: int, concat_axis: int, **params: Any) -> list[Any]:
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


@all_to_all_p.rule("batch")
def _(
    size: int, args: Any, dims: Any, *, split_axis: int, concat_axis: int, over: str | None = None,
    **params: Any,
) -> Any:  # fmt: skip
    x = of_each(size, args[0], dims[0])
    if over is None:
        split, concat = split_axis + 1, concat_axis + 1
        return all_to_all_p.bind(x, split_axis=split, concat_axis=concat, **params), 0
    alone("all_to_all", params["axis_name"])
    parts = moveaxis(_cut(x, split_axis + 1, size), split_axis + 1, 0)  # to whom, from whom, ...
    return _joined(moveaxis(parts, 1, concat_axis + 1), concat_axis + 1), 0


def all_to_all(
    x: Any, axis_name: str | Sequence[str], split_axis: int, concat_axis: int, *,
    tiled: bool = False,
) -> Any:  # fmt: skip
    """Each gives everyone a part of its value along one axis, and joins what it gets along another.

    Without `tiled`, the axis that is split has one element for each and goes away, and the parts
    come along a new one.
    """
    size = axis_size(axis_name)
    params = {"axis_name": names_of(axis_name), "axis_size": size, "tiled": tiled}
    if tiled:
        return all_to_all_p.bind(x, split_axis=split_axis, concat_axis=concat_axis, **params)
    if aval_of(x).shape[split_axis] != size:
        raise ValueError(
            f"all_to_all: axis {split_axis} of {aval_of(x).str_short()} must have {size} elements, "
            f"one for each along {axis_name}; with tiled=True a multiple of that."
        )
    before = split_axis <= concat_axis
    split_axis, concat_axis = (
        (split_axis, concat_axis + 1) if before else (split_axis + 1, concat_axis)
    )
    x = expand_dims(x, [concat_axis])
    found = all_to_all_p.bind(x, split_axis=split_axis, concat_axis=concat_axis, **params)
    return squeeze(found, [split_axis])
