"""Collectives: what devices, or the examples of a batch, have to say to each other.

A function that runs on many devices at once has names for the axes that they differ along. `psum`
over such a name adds up everyone's value and gives the sum to all; the others gather, exchange or
pass values on. The same names work in `vmap(axis_name=...)`, where all values are in one array:
there a collective over the name is arithmetic on that array, and nothing is sent.

A sum transposes to a sum, passing on to passing back. The meaning of each is that of the StableHLO
op that it lowers to; `exchanges.py` has those that cut arrays and join them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core import batching
from jaxlens.core.avals import ShapedArray
from jaxlens.core.primitives.contractions import reduce_max, reduce_min
from jaxlens.core.primitives.elementwise import add_p, div_p, mul_p
from jaxlens.core.primitives.gathering import GatherDimensionNumbers, GatherScatterMode, gather
from jaxlens.core.primitives.shapes import (
    broadcast_leading,
    convert_element_type,
    iota,
    linear,
    moveaxis,
    reduce_sum,
)
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive, Value
from jaxlens.core.trees import tree_map

Names = tuple[str, ...]


def names_of(axis_name: str | Sequence[str]) -> Names:
    """One name or several."""
    return (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)


def axis_size(axis_name: str | Sequence[str]) -> int:
    """How many take part along an axis, or along several.

    Raises:
        NameError: Nothing around names such an axis.
    """
    return prod(map(batching.axis_size, names_of(axis_name)))


# ---- StableHLO ----------------------------------------------------------------------------------


def mesh_of(ctx: Any) -> Any:
    """The devices that the program is for."""
    if ctx.program.mesh is None:
        raise NotImplementedError(
            "a collective can be compiled only in a program of core's own over several devices: "
            "call it in shard_map or pmap."
        )
    return ctx.program.mesh


def groups(ctx: Any, names: Names) -> dict[str, Any]:
    """Who takes part with whom, as StableHLO's collectives take it."""
    return {
        "replica_groups": ir.DenseElementsAttr.get(np.array(mesh_of(ctx).groups(names), np.int64)),
        **channel(),
        "use_global_device_ids": ir.UnitAttr.get(),
    }


def channel() -> dict[str, Any]:
    """What makes a collective one between devices."""
    return {"channel_handle": hlo.ChannelHandle.get(1, 1)}  # between devices


def combined(op: Any, combine: Callable[..., Any], dtype: np.dtype, ctx: Any) -> Any:
    """Gives an op the region that adds two numbers, or compares them."""
    scalar = ctx.type(ShapedArray((), dtype))
    block = op.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        hlo.return_([combine(*block.arguments)])
    return op.results[0]


# ---- batching over a name ------------------------------------------------------------------------


def alone(what: str, names: Names) -> None:
    """Refuses a collective over several names, one of which is vmapped."""
    if len(names) > 1:
        raise NotImplementedError(
            f"{what} over {names}, one of which is vmapped, is not supported: do it one by one."
        )


def of_each(size: int, x: Any, dim: int | None) -> Any:
    """Everyone's value along a first axis."""
    return broadcast_leading(x, size) if dim is None else moveaxis(x, dim, 0)


# ---- psum, pmax, pmin: of all, for all ----------------------------------------------------------


def _reducer(
    name: str, combine: Callable[..., Any], along: Callable[..., Any], same: Callable[..., Any]
) -> Primitive:
    """A primitive that combines everyone's values.

    Args:
        name: Its name.
        combine: The StableHLO op of two numbers.
        along: The same over axes of one array.
        same: What it is, from a value and their number, where everyone has the same value.
    """
    primitive = Primitive(name, abstract=lambda x, axes: x)

    @primitive.rule("lower")
    def _(ctx: Any, x: Any, *, axes: Names) -> Any:
        op = hlo.AllReduceOp([x.type], [x], **groups(ctx, axes))
        return combined(op, combine, ctx.out.dtype, ctx)

    @primitive.rule("batch")
    def _(size: int, args: Any, dims: Any, *, axes: Names, over: str | None = None) -> Any:
        if over is None:
            return primitive.bind(*args, axes=axes), dims[0]
        found = same(args[0], size) if dims[0] is None else along(args[0], (dims[0],))
        rest = tuple(name for name in axes if name != over)
        return primitive.bind(found, axes=rest) if rest else found, None

    return primitive


def _times(x: Any, count: int) -> Any:
    return mul_p.bind(x, aval_of(x).dtype.type(count))


psum_p = _reducer("psum", hlo.add, reduce_sum, _times)
pmax_p = _reducer("pmax", hlo.maximum, reduce_max, lambda x, _: x)
pmin_p = _reducer("pmin", hlo.minimum, reduce_min, lambda x, _: x)
psum_p.jvp = linear(psum_p)


psum_p.transpose = lambda ct, x, axes: [psum_p.bind(ct, axes=axes)]


def psum(x: Any, axis_name: str | Sequence[str]) -> Any:
    """The sum of everyone's values; of a tree, leaf by leaf."""
    size, names = axis_size(axis_name), names_of(axis_name)

    def total(leaf: Any) -> Any:
        same = not isinstance(leaf, Value)  # a number of Python's: the same for everyone
        return leaf * size if same else psum_p.bind(leaf, axes=names)

    return tree_map(total, x)


def pmean(x: Any, axis_name: str | Sequence[str]) -> Any:
    """The mean of everyone's values."""
    size = axis_size(axis_name)
    return tree_map(lambda total: _divided(total, size), psum(x, axis_name))


def _divided(total: Any, size: int) -> Any:
    if not isinstance(total, Value):
        return total / size
    dtype = total.dtype if total.dtype.kind not in "biu" else np.dtype(np.float32)
    return div_p.bind(convert_element_type(total, dtype), dtype.type(size))


def pmax(x: Any, axis_name: str | Sequence[str]) -> Any:
    """The largest of everyone's values; it has no derivative."""
    axis_size(axis_name)
    return tree_map(partial(pmax_p.bind, axes=names_of(axis_name)), x)


def pmin(x: Any, axis_name: str | Sequence[str]) -> Any:
    """The smallest of everyone's values; it has no derivative."""
    axis_size(axis_name)
    return tree_map(partial(pmin_p.bind, axes=names_of(axis_name)), x)


# ---- axis_index ---------------------------------------------------------------------------------

axis_index_p = Primitive("axis_index")
axis_index_p.abstract = lambda *, axis_name: ShapedArray((), np.dtype("int32"))


@axis_index_p.rule("lower")
def _(ctx: Any, *, axis_name: Names) -> Any:
    mesh = mesh_of(ctx)
    axis = mesh.axis_names.index(axis_name[0])
    u32 = ShapedArray((), np.dtype("uint32"))
    later = prod(list(mesh.shape.values())[axis + 1 :])
    place = hlo.divide(hlo.partition_id(), ctx.constant(later, u32))
    own = hlo.remainder(place, ctx.constant(mesh.shape[axis_name[0]], u32))
    return hlo.convert(ctx.type(ctx.out), own)


@axis_index_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, axis_name: Names, over: str) -> Any:
    return iota(np.int32, (size,)), 0


def axis_index(axis_name: str | Sequence[str]) -> Any:
    """One's own place along an axis, from 0; along several, the last of which varies fastest."""
    total: Any = None
    for name in names_of(axis_name):
        size = axis_size(name)
        own = axis_index_p.bind(axis_name=(name,))
        total = own if total is None else add_p.bind(_times(total, size), own)
    return total


# ---- ppermute -----------------------------------------------------------------------------------

ppermute_p = Primitive("ppermute")
ppermute_p.abstract = lambda x, *, axis_name, perm: x
ppermute_p.jvp = linear(ppermute_p)


@ppermute_p.rule("lower")
def _(ctx: Any, x: Any, *, axis_name: Names, perm: Any) -> Any:
    rows = mesh_of(ctx).groups(axis_name)
    pairs = np.array([(row[a], row[b]) for row in rows for a, b in perm], np.int64)
    pairs = ir.DenseElementsAttr.get(pairs.reshape(-1, 2))
    return hlo.CollectivePermuteOp(x, pairs, **channel()).result


@ppermute_p.rule("transpose")
def _(ct: Any, x: Linear, *, axis_name: Names, perm: Any) -> list[Any]:
    return [ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((b, a) for a, b in perm))]


@ppermute_p.rule("batch")
def _(
    size: int, args: Any, dims: Any, *, axis_name: Names, perm: Any, over: str | None = None
) -> Any:
    if over is None:
        return ppermute_p.bind(*args, axis_name=axis_name, perm=perm), dims[0]
    alone("ppermute", axis_name)
    x = of_each(size, args[0], dims[0])
    sources = np.full((size, 1), size, np.int32)  # outside: who is sent nothing gets zeros
    for a, b in perm:
        sources[b] = a
    numbers = GatherDimensionNumbers(tuple(range(1, aval_of(x).ndim)), (0,), (0,))
    sizes = (1, *aval_of(x).shape[1:])
    mode = GatherScatterMode.FILL_OR_DROP
    return gather(x, sources, numbers, sizes, mode=mode, fill_value=0), 0


def ppermute(x: Any, axis_name: str | Sequence[str], perm: Sequence[tuple[int, int]]) -> Any:
    """Values passed on: `perm` has a pair (from, to) for each; who is sent nothing gets zeros."""
    size = axis_size(axis_name)
    pairs = tuple((int(a), int(b)) for a, b in perm)
    columns = list(zip(*pairs, strict=True))
    if any(len(set(c)) < len(c) or not set(c) <= set(range(size)) for c in columns):
        raise ValueError(
            f"ppermute: sources and destinations in {pairs} must be different places from 0 to "
            f"{size - 1}."
        )
    return tree_map(partial(ppermute_p.bind, axis_name=names_of(axis_name), perm=pairs), x)
