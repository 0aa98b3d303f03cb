"""Collectives: communication between devices, or between the examples of a batch.

A function that runs on many devices at once has names for the axes that they differ along. `psum`
over such a name adds up the values of all participants and gives each of them the sum; `ppermute`
sends values from one to another; `all_gather` gives each the values of all. These are linear: a sum
transposes to a sum, a permutation to its inverse, `all_gather` to `psum_scatter`.

The same names work in `vmap(axis_name=...)`, where all values are in one array: there a collective
over the name is arithmetic on that array, and nothing is sent. Each means what the StableHLO op
means that it lowers to.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.aot.lower import names_of
from jaxlens.core.kernel.basics import Linear, fronts, linear, moveaxis, reduce_sum, reshape
from jaxlens.core.kernel.interpreter import Primitive, Value, aval_of, observer
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.kernel.vmap import axes_of, mapped_axis
from jaxlens.core.parallel.meshes import Names
from jaxlens.core.primitives.contractions import reduce_max, reduce_min
from jaxlens.core.primitives.gathering import GatherDimensionNumbers, GatherScatterMode, gather
from jaxlens.core.primitives.shapes import iota, resized
from jaxlens.core.transforms.batching import named_axes
from jaxlens.core.transforms.trees import tree_map


def axis_size(axis_name: str | Sequence[str]) -> int:
    """Returns the number of participants along an axis, or along several.

    Raises:
        NameError: Nothing around names such an axis.
    """
    return prod(map(_size, names_of(axis_name)))


def _size(name: str) -> int:
    if name not in named_axes():
        bound = ", ".join(map(repr, named_axes())) or "none"
        raise NameError(
            f"{observer.line()}: unbound axis name {name!r}; bound are: {bound}. Name it in vmap, "
            f"pmap (axis_name=) or in the mesh of shard_map."
        )
    return named_axes()[name]


# ---- StableHLO ----------------------------------------------------------------------------------


def mesh_of(ctx: Any) -> Any:
    """Returns the mesh that the program is compiled for."""
    if ctx.program.layout is None:
        raise NotImplementedError(
            "what runs on many devices can be compiled only in a program of core's own, not "
            "exported, and collectives only in shard_map or pmap."
        )
    return ctx.program.layout.mesh


def groups(ctx: Any, names: Names) -> dict[str, Any]:
    """Returns the attributes of a StableHLO collective: replica groups and channel."""
    rows = ir.DenseElementsAttr.get(np.ascontiguousarray(mesh_of(ctx).groups(names)))
    channel = hlo.ChannelHandle.get(1, 1)  # between devices
    ids = ir.UnitAttr.get()
    return {"replica_groups": rows, "channel_handle": channel, "use_global_device_ids": ids}


# ---- batching -----------------------------------------------------------------------------------


def batched(
    primitive: Primitive, together: Callable[..., Any], named: str | None = None
) -> Callable[..., Any]:
    """Returns the batch rule of a collective.

    Args:
        primitive: The collective.
        together: What it is over the examples themselves, which are along the first axis of an
            array: a result and its axis of examples, None where all get the same.
        named: The parameter that names an axis; examples of another kind come before it.
    """

    def batch(size: int, args: Any, dims: Any, **params: Any) -> Any:
        (x,), over = fronts(size, args, dims), mapped_axis()
        if over not in axes_of(params):
            return primitive.bind(x, **params | ({named: params[named] + 1} if named else {})), 0
        if len(params.get("axis_name", ())) > 1:
            raise NotImplementedError(
                f"{primitive} over {params['axis_name']}, one of which is vmapped, is not "
                f"supported: do it one by one."
            )
        return together(x, over=over, **params)

    return batch


# ---- psum, pmax, pmin: of all, for all ----------------------------------------------------------


def _reducer(name: str, combine: Callable[..., Any], along: Callable[..., Any]) -> Primitive:
    """Returns a primitive that reduces over participants, by `combine` or `along` axes."""
    primitive = Primitive(name, abstract=lambda x, axes: x)

    @primitive.rule("lower")
    def _(ctx: Any, x: Any, *, axes: Names) -> Any:
        return ctx.combining(hlo.AllReduceOp([x.type], [x], **groups(ctx, axes)), combine)

    def together(x: Any, *, axes: Names, over: str) -> Any:
        total, rest = along(x, (0,)), tuple(name for name in axes if name != over)
        return primitive.bind(total, axes=rest) if rest else total, None

    primitive.batch = batched(primitive, together)
    return primitive


psum_p = _reducer("psum", hlo.add, reduce_sum)
pmax_p = _reducer("pmax", hlo.maximum, reduce_max)
pmin_p = _reducer("pmin", hlo.minimum, reduce_min)
psum_p.jvp = linear(psum_p)
psum_p.transpose = lambda ct, x, axes: [psum_p.bind(ct, axes=axes)]


def psum(x: Any, axis_name: str | Sequence[str]) -> Any:
    """Returns the sum over all participants; of a tree, leaf by leaf."""
    size, names = axis_size(axis_name), names_of(axis_name)

    def total(leaf: Any) -> Any:
        same = not isinstance(leaf, Value)  # a number of Python's: the same for everyone
        return leaf * size if same else psum_p.bind(leaf, axes=names)

    return tree_map(total, x)


def pmean(x: Any, axis_name: str | Sequence[str]) -> Any:
    """Returns the mean over all participants."""
    size = axis_size(axis_name)
    return tree_map(lambda total: total / size, psum(x, axis_name))


def pmax(x: Any, axis_name: str | Sequence[str]) -> Any:
    """Returns the maximum over all participants; it has no derivative."""
    axis_size(axis_name)
    return tree_map(partial(pmax_p.bind, axes=names_of(axis_name)), x)


def pmin(x: Any, axis_name: str | Sequence[str]) -> Any:
    """Returns the minimum over all participants; it has no derivative."""
    axis_size(axis_name)
    return tree_map(partial(pmin_p.bind, axes=names_of(axis_name)), x)


# ---- axis_index ---------------------------------------------------------------------------------

axis_index_p = Primitive("axis_index")
axis_index_p.abstract = lambda *, axis_name: ShapedArray((), np.dtype("int32"))
axis_index_p.batch = lambda size, args, dims, *, axis_name: (iota(np.int32, (size,)), 0)


@axis_index_p.rule("lower")
def _(ctx: Any, *, axis_name: Names) -> Any:
    mesh, u32 = mesh_of(ctx), ShapedArray((), np.dtype("uint32"))
    later = mesh.axis_names[mesh.axis_names.index(*axis_name) + 1 :]
    place = hlo.divide(hlo.partition_id(), ctx.constant(mesh.count(later), u32))
    own = hlo.remainder(place, ctx.constant(mesh.count(axis_name), u32))
    return hlo.convert(ctx.type(ctx.out), own)


def axis_index(axis_name: str) -> Any:
    """Returns the index of this participant along an axis."""
    axis_size(axis_name)
    return axis_index_p.bind(axis_name=(axis_name,))


# ---- ppermute -----------------------------------------------------------------------------------

ppermute_p = Primitive("ppermute", abstract=lambda x, *, axis_name, perm: x)
ppermute_p.jvp = linear(ppermute_p)


@ppermute_p.rule("lower")
def _(ctx: Any, x: Any, *, axis_name: Names, perm: Any) -> Any:
    columns = mesh_of(ctx).groups(axis_name).T
    pairs = [pair for a, b in perm for pair in zip(columns[a], columns[b], strict=True)]
    table = ir.DenseElementsAttr.get(np.array(pairs, np.int64).reshape(-1, 2))
    channel = hlo.ChannelHandle.get(1, 1)  # between devices
    return hlo.CollectivePermuteOp(x, table, channel_handle=channel).result


@ppermute_p.rule("transpose")
def _(ct: Any, x: Linear, *, axis_name: Names, perm: Any) -> list[Any]:
    return [ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((b, a) for a, b in perm))]


def _passed(x: Any, *, perm: Any, **_: Any) -> Any:
    """Permutes rows as `ppermute` permutes values; a row without source is zeros."""
    size, *rest = aval_of(x).shape
    sources = np.full((size, 1), size, np.int32)  # outside: who is sent nothing gets zeros
    for a, b in perm:
        sources[b] = a
    numbers = GatherDimensionNumbers(tuple(range(1, len(rest) + 1)), (0,), (0,))
    mode = GatherScatterMode.FILL_OR_DROP
    return gather(x, sources, numbers, (1, *rest), mode=mode, fill_value=0), 0


ppermute_p.batch = batched(ppermute_p, _passed)


def ppermute(x: Any, axis_name: str | Sequence[str], perm: Sequence[tuple[int, int]]) -> Any:
    """Sends values by the pairs (source, destination) of `perm`; the others receive zeros."""
    size = axis_size(axis_name)
    pairs = tuple((int(a), int(b)) for a, b in perm)
    columns = list(zip(*pairs, strict=True))
    if any(len(set(c)) < len(c) or not set(c) <= set(range(size)) for c in columns):
        raise ValueError(
            f"ppermute: sources and destinations in {pairs} must be different places from 0 to "
            f"{size - 1}."
        )
    return tree_map(partial(ppermute_p.bind, axis_name=names_of(axis_name), perm=pairs), x)


# ---- all_gather and its transpose, psum_scatter -------------------------------------------------

all_gather_p = Primitive("all_gather")
reduce_scatter_p = Primitive("reduce_scatter")
all_gather_p.jvp, reduce_scatter_p.jvp = linear(all_gather_p), linear(reduce_scatter_p)


@all_gather_p.rule("abstract")
def _(x: ShapedArray, *, all_gather_dimension: int, **params: Any) -> ShapedArray:
    shape = list(x.shape)
    if not params["tiled"]:
        shape.insert(all_gather_dimension, 1)
    shape[all_gather_dimension] *= params["axis_size"]
    return x.update(shape=tuple(shape))


@reduce_scatter_p.rule("abstract")
def _(
    x: ShapedArray, *, scatter_dimension: int, axis_name: Names, axis_size: int, tiled: bool
) -> ShapedArray:
    shape = list(x.shape)
    length = shape.pop(scatter_dimension)
    if length % axis_size or (not tiled and length != axis_size):
        raise ValueError(
            f"psum_scatter: axis {scatter_dimension} of {x.str_short()} must have "
            f"{'a multiple of ' if tiled else ''}{axis_size} elements, one for each along "
            f"{', '.join(axis_name)}."
        )
    if tiled:
        shape.insert(scatter_dimension, length // axis_size)
    return x.update(shape=tuple(shape))


def _cut(aval: ShapedArray, axis: int, size: int) -> ShapedArray:
    """Returns the type of one of `size` equal parts along an axis."""
    return aval.update(shape=resized(aval.shape, axis, aval.shape[axis] // size))


@all_gather_p.rule("lower")
def _(ctx: Any, x: Any, *, all_gather_dimension: int, axis_name: Names, **params: Any) -> Any:
    own = hlo.reshape(ctx.type(_cut(ctx.out, all_gather_dimension, params["axis_size"])), x)
    peers = groups(ctx, axis_name)
    return hlo.AllGatherOp([ctx.type(ctx.out)], [own], all_gather_dimension, **peers).results[0]


@reduce_scatter_p.rule("lower")
def _(ctx: Any, x: Any, *, scatter_dimension: int, axis_name: Names, **params: Any) -> Any:
    own = ctx.type(_cut(ctx.avals_in[0], scatter_dimension, params["axis_size"]))
    op = hlo.ReduceScatterOp(own, x, scatter_dimension, **groups(ctx, axis_name))
    return hlo.reshape(ctx.type(ctx.out), ctx.combining(op, hlo.add))


@all_gather_p.rule("transpose")
def _(ct: Any, x: Linear, *, all_gather_dimension: int, **params: Any) -> list[Any]:
    return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


@reduce_scatter_p.rule("transpose")
def _(ct: Any, x: Linear, *, scatter_dimension: int, **params: Any) -> list[Any]:
    return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


def _gathered(x: Any, *, all_gather_dimension: int, over: str, **params: Any) -> Any:
    """Moves the axis of examples where the gathered axis is, or merges it there if tiled."""
    row = aval_of(x).update(shape=aval_of(x).shape[1:])
    gathered = all_gather_p.abstract(row, all_gather_dimension=all_gather_dimension, **params)
    return reshape(moveaxis(x, 0, all_gather_dimension), gathered.shape), None


def _scattered(x: Any, *, scatter_dimension: int, over: str, **params: Any) -> Any:
    """Sums over examples, and splits an axis of the sum among them."""
    total = reduce_sum(x, (0,))
    own = reduce_scatter_p.abstract(aval_of(total), scatter_dimension=scatter_dimension, **params)
    shape = list(own.shape)
    shape.insert(scatter_dimension, params["axis_size"])
    return reshape(total, shape), scatter_dimension


all_gather_p.batch = batched(all_gather_p, _gathered, "all_gather_dimension")
reduce_scatter_p.batch = batched(reduce_scatter_p, _scattered, "scatter_dimension")


def all_gather(
    x: Any, axis_name: str | Sequence[str], *, axis: int = 0, tiled: bool = False
) -> Any:
    """Returns the values of all participants along a new axis; `tiled`: concatenated along one."""
    params = {"axis_name": names_of(axis_name), "axis_size": axis_size(axis_name), "tiled": tiled}
    return tree_map(partial(all_gather_p.bind, all_gather_dimension=axis, **params), x)


def psum_scatter(
    x: Any, axis_name: str | Sequence[str], *, scatter_dimension: int = 0, tiled: bool = False
) -> Any:
    """Sums over all participants, each of which receives its part along an axis."""
    params = {"axis_name": names_of(axis_name), "axis_size": axis_size(axis_name), "tiled": tiled}
    scatter = partial(reduce_scatter_p.bind, scatter_dimension=scatter_dimension, **params)
    return tree_map(scatter, x)
