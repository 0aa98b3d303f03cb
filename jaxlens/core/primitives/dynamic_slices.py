"""Slices at places that are numbers of the program: dynamic_slice and dynamic_update_slice.

Like a slice, but where it starts is an integer that the program computes, so that a loop can walk
over an array. Its size is known, and it is moved inside where it would stick out. The transpose of
reading one is writing one into zeros. When each example of a batch has its own place, it becomes a
gather or a scatter.

The meaning of each is that of the op of the same name in the StableHLO specification.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import Axes, Linear, i64s
from jaxlens.core.kernel.interpreter import Primitive
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives import gathering, shapes
from jaxlens.core.primitives.pieces import concatenate

# ---- dynamic_slice and dynamic_update_slice -----------------------------------------------------

dynamic_slice_p = basics.movement(
    "dynamic_slice",
    abstract=lambda x, *starts, slice_sizes: _part(x, x.update(shape=slice_sizes), starts),
    lower=lambda ctx, x, *starts, slice_sizes: hlo.dynamic_slice(x, starts, i64s(slice_sizes)),
)
dynamic_update_slice_p = basics.movement(
    "dynamic_update_slice",
    lower=lambda ctx, x, update, *starts: hlo.dynamic_update_slice(x, update, starts),
)


@dynamic_update_slice_p.rule("abstract")
def _(x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    _part(x, update, starts)
    return x


def _part(x: ShapedArray, part: ShapedArray, starts: Sequence[ShapedArray]) -> ShapedArray:
    """Returns the type of a slice of `x`, checked together with its start indices."""
    fits = len(starts) == part.ndim == x.ndim and part.dtype == x.dtype
    inside = fits and all(0 <= m <= n for m, n in zip(part.shape, x.shape, strict=True))
    one_type = len({i.dtype for i in starts}) <= 1
    if not inside or not one_type or any(i.shape or i.dtype.kind not in "iu" for i in starts):
        raise TypeError(
            f"a dynamic slice {part.str_short()} does not fit: {x.str_short()} needs {x.ndim} "
            f"start indices, integer scalars of one dtype, and a part of its dtype "
            f"{x.dtype.name} within its shape, got start indices "
            f"{', '.join(i.str_short() for i in starts)}."
        )
    return part


@dynamic_slice_p.rule("transpose")
def _(ct: Any, x: Linear, *starts: Any, slice_sizes: Axes) -> list[Any]:
    zeros = basics.full(x.aval.shape, 0, x.aval.dtype)
    return [dynamic_update_slice_p.bind(zeros, ct, *starts), *[None] * len(starts)]


@dynamic_update_slice_p.rule("transpose")
def _(ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    shape, rest, cut = shapes.type_of(update).shape, None, None
    if type(x) is Linear:
        rest = dynamic_update_slice_p.bind(ct, basics.full(shape, 0, ct.dtype), *starts)
    if type(update) is Linear:
        cut = dynamic_slice_p.bind(ct, *starts, slice_sizes=shape)
    return [rest, cut, *[None] * len(starts)]


def _rows(primitive: Primitive, numbers: Any, count: int, **more: Any) -> Callable[..., Any]:
    """Returns the batch rule: a gather or a scatter, with the starts as rows of indices.

    Args:
        primitive: Which of the two.
        numbers: Its dimension numbers.
        count: How many arguments come before the starts.
        **more: Parameters that only it has.
    """

    def batch(size: int, args: Any, dims: Any, **params: Any) -> Any:
        (x, *update), (x_dim, *update_dim) = args[:count], dims[:count]
        starts, places = args[count:], dims[count:]
        alone, axes = all(dim is None for dim in places), tuple(range(len(starts)))
        rows = [
            basics.broadcast_in_dim(i, (1,) if alone else (size, 1), () if dim is None else (0,))
            for i, dim in zip(starts, places, strict=True)
        ]
        indices, dim = concatenate(rows, 0 if alone else 1), None if alone else 0
        return primitive.batch(
            size,
            (x, indices, *update),
            (x_dim, dim, *update_dim),
            dimension_numbers=numbers(axes, (), axes),
            mode=gathering.GatherScatterMode.CLIP,
            indices_are_sorted=True,
            unique_indices=True,
            **more,
            **params,
        )

    return batch


dynamic_slice_p.batch = _rows(
    gathering.gather_p, gathering.GatherDimensionNumbers, 1, fill_value=None
)
dynamic_update_slice_p.batch = _rows(gathering.scatter_p, gathering.ScatterDimensionNumbers, 2)
