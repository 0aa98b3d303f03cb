"""psum: the sum over devices, or over the examples of a batch.

A function that runs on many devices at once has names for the axes that they differ along. `psum`
over such a name adds up the values of all participants and gives each of them the sum. It is
linear, and its own transpose: what each gives goes into the sums of all.

The same names work in `vmap(axis_name=...)`, where all values are in one array: there a psum over
the name is a sum along that axis of the array, and nothing is sent. It lowers to StableHLO's
all_reduce; the other collectives of JAX would go the same way.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.aot.lower import names_of
from jaxlens.core.kernel.basics import fronts, linear, reduce_sum
from jaxlens.core.kernel.interpreter import Primitive, Value
from jaxlens.core.kernel.sources import here
from jaxlens.core.kernel.vmap import mapped_axis
from jaxlens.core.parallel.meshes import Names, groups
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
            f"{here()}: unbound axis name {name!r}; bound are: {bound}. Name it in vmap, "
            f"pmap (axis_name=) or in the mesh of shard_map."
        )
    return named_axes()[name]


def mesh_of(ctx: Any) -> Any:
    """Returns the mesh that the program is compiled for."""
    if ctx.program.layout is None:
        raise NotImplementedError(
            "what runs on many devices can be compiled only in a program of core's own, not "
            "exported, and collectives only in shard_map or pmap."
        )
    return ctx.program.layout.mesh


psum_p = Primitive("psum", abstract=lambda x, axes: x)
psum_p.jvp = linear(psum_p)
psum_p.transpose = lambda ct, x, axes: [psum_p.bind(ct, axes=axes)]


@psum_p.rule("lower")
def _(ctx: Any, x: Any, *, axes: Names) -> Any:
    rows = ir.DenseElementsAttr.get(np.ascontiguousarray(groups(mesh_of(ctx), axes)))
    channel = hlo.ChannelHandle.get(1, 1)  # between devices
    ids = ir.UnitAttr.get()
    op = hlo.AllReduceOp([x.type], [x], rows, channel_handle=channel, use_global_device_ids=ids)
    return ctx.combining(op, hlo.add)


@psum_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, axes: Names) -> Any:
    (x,), over = fronts(size, args, dims), mapped_axis()
    if over not in axes:  # examples of another kind
        return psum_p.bind(x, axes=axes), 0
    total, rest = reduce_sum(x, (0,)), tuple(name for name in axes if name != over)
    return psum_p.bind(total, axes=rest) if rest else total, None


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
