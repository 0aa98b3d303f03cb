"""Slices at places that are numbers of the program: dynamic_slice and dynamic_update_slice.

Like a slice, but where it starts is an integer that the program computes, so that a loop can walk
over an array. Its size is known, and it is moved inside where it would stick out. The transpose of
reading one is writing one into zeros. When each example of a batch has its own place, it becomes a
gather or a scatter.

The meaning of each is that of the op of the same name in the StableHLO specification.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import Axes, Linear, i64s, select_n
from jaxlens.core.kernel.interpreter import Primitive, Value, aval_of
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives import gathering, shapes
from jaxlens.core.primitives.elementwise import add, lt
from jaxlens.core.primitives.pieces import concatenate


def wrapped(index: Any, n: int) -> Any:
    """Returns an index into an axis of length `n`; a negative one counts from the end."""
    aval = aval_of(index)
    if aval.dtype.kind == "u":
        return index
    if n > np.iinfo(aval.dtype).max:
        index = shapes.convert_element_type(index, np.int32)
        aval = aval_of(index)
    below = index < 0 if isinstance(index, np.ndarray) else lt(index, aval.dtype.type(0))
    plain = shapes.convert_element_type(index, aval.dtype) if isinstance(index, Value) else index
    return select_n(below, index, add(plain, aval.dtype.type(n)))


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


def _starts(x: Any, starts: Sequence[Any]) -> list[Any]:
    """Returns start indices of one dtype; negative ones count from the end."""
    dtype = next((aval_of(i).dtype for i in starts if not isinstance(i, int)), np.dtype("int32"))
    return [
        dtype.type(i % n if -n <= i < 0 else i)
        if isinstance(i, int)
        else wrapped(shapes.convert_element_type(i, dtype), n)
        for i, n in zip(starts, aval_of(x).shape, strict=True)
    ]


def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Slices at computed start indices, which are clamped so that the slice fits."""
    return dynamic_slice_p.bind(x, *_starts(x, starts), slice_sizes=tuple(sizes))


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """Replaces the slice at computed start indices, which are clamped so that it fits."""
    return dynamic_update_slice_p.bind(x, update, *_starts(x, starts))
