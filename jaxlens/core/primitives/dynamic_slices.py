"""Slices at places that are numbers of the program: dynamic_slice and dynamic_update_slice.

Like a slice, but where it starts is an integer that the program computes, so that a loop can walk
over an array. Its size is known, and it is moved inside where it would stick out. The transpose of
reading one is writing one into zeros. When each example of a batch has its own place, it becomes a
gather or a scatter.

The meaning of each is that of the op of the same name in the StableHLO specification.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.primitives.elementwise import add_p, lt_p, select_n_p
from jaxlens.core.primitives.gathering import (
    GatherDimensionNumbers,
    GatherScatterMode,
    Numbers,
    ScatterDimensionNumbers,
    gather_p,
)
from jaxlens.core.primitives.pieces import concatenate
from jaxlens.core.primitives.scattering import scatter_p
from jaxlens.core.primitives.shapes import (
    broadcast_in_dim,
    convert_element_type,
    dense,
    expand_dims,
    full,
    i64s,
    squeeze,
)
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive, Value


def wrapped(index: Any, n: int) -> Any:
    """An index into an axis of length `n`, where a negative one counts from the end."""
    aval = aval_of(index)
    if aval.dtype.kind == "u":
        return index
    if n > np.iinfo(aval.dtype).max:
        index, aval = convert_element_type(index, np.int32), aval.update(dtype=np.dtype("int32"))
    below = index < 0 if isinstance(index, np.ndarray) else lt_p.bind(index, aval.dtype.type(0))
    plain = convert_element_type(index, aval.dtype) if isinstance(index, Value) else index
    return select_n_p.bind(below, index, add_p.bind(plain, aval.dtype.type(n)))


# ---- dynamic_slice and dynamic_update_slice -----------------------------------------------------

dynamic_slice_p = Primitive("dynamic_slice")
dynamic_update_slice_p = Primitive("dynamic_update_slice")


@dynamic_slice_p.rule("abstract")
def _(x: ShapedArray, *starts: ShapedArray, slice_sizes: Numbers) -> ShapedArray:
    _check_starts("dynamic_slice", x, starts, slice_sizes)
    return x.update(shape=slice_sizes)


@dynamic_update_slice_p.rule("abstract")
def _(x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    _check_starts("dynamic_update_slice", x, starts, update.shape)
    if x.dtype != update.dtype:
        raise TypeError(
            f"dynamic_update_slice: the update must have the array's dtype {x.dtype.name}, got "
            f"{update.str_short()}."
        )
    return x


def _check_starts(name: str, x: ShapedArray, starts: Any, sizes: Numbers) -> None:
    if len(starts) != x.ndim or len(sizes) != x.ndim:
        raise TypeError(
            f"{name}: {x.str_short()} needs {x.ndim} start indices and sizes, got {len(starts)} "
            f"and {len(sizes)}."
        )
    if any(i.shape or i.dtype.kind not in "iu" or i.dtype != starts[0].dtype for i in starts):
        raise TypeError(
            f"{name}: start indices must be integer scalars of one dtype, got "
            f"{', '.join(i.str_short() for i in starts)}."
        )
    if any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
        raise TypeError(f"{name}: a slice of sizes {sizes} does not fit into {x.str_short()}.")


@dynamic_slice_p.rule("lower")
def _(ctx: Any, x: Any, *starts: Any, slice_sizes: Numbers) -> Any:
    return hlo.dynamic_slice(x, starts, i64s(slice_sizes)) if starts else x


@dynamic_update_slice_p.rule("lower")
def _(ctx: Any, x: Any, update: Any, *starts: Any) -> Any:
    return hlo.dynamic_update_slice(x, update, starts)


@dynamic_slice_p.rule("jvp")
def _(primals: Any, tangents: Any, *, slice_sizes: Numbers) -> Any:
    result = dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes)
    return result, dynamic_slice_p.bind(tangents[0], *primals[1:], slice_sizes=slice_sizes)


@dynamic_update_slice_p.rule("jvp")
def _(primals: Any, tangents: Any) -> Any:
    moving = map(dense, tangents[:2])
    result = dynamic_update_slice_p.bind(*primals)
    return result, dynamic_update_slice_p.bind(*moving, *primals[2:])


@dynamic_slice_p.rule("transpose")
def _(ct: Any, x: Linear, *starts: Any, slice_sizes: Numbers) -> list[Any]:
    zeros = full(x.aval.shape, 0, x.aval.dtype)
    return [dynamic_update_slice_p.bind(zeros, ct, *starts), *[None] * len(starts)]


@dynamic_update_slice_p.rule("transpose")
def _(ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    shape = (update.aval if type(update) is Linear else aval_of(update)).shape
    rest = cut = None
    if type(x) is Linear:
        rest = dynamic_update_slice_p.bind(ct, full(shape, 0, ct.dtype), *starts)
    if type(update) is Linear:
        cut = dynamic_slice_p.bind(ct, *starts, slice_sizes=shape)
    return [rest, cut, *[None] * len(starts)]


@dynamic_slice_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, slice_sizes: Numbers) -> Any:
    axes = tuple(range(len(slice_sizes)))
    indices, dim = _rows(size, args[1:], dims[1:])
    return gather_p.batch(
        size, (args[0], indices), (dims[0], dim),
        dimension_numbers=GatherDimensionNumbers(axes, (), axes), slice_sizes=slice_sizes,
        indices_are_sorted=True, unique_indices=True, mode=GatherScatterMode.CLIP, fill_value=None,
    )  # fmt: skip


@dynamic_update_slice_p.rule("batch")
def _(size: int, args: Any, dims: Any) -> Any:
    axes = tuple(range(len(args) - 2))
    indices, dim = _rows(size, args[2:], dims[2:])
    return scatter_p.batch(
        size, (args[0], indices, args[1]), (dims[0], dim, dims[1]),
        dimension_numbers=ScatterDimensionNumbers(axes, (), axes), update_jaxpr=None,
        indices_are_sorted=True, unique_indices=True, mode=GatherScatterMode.CLIP,
    )  # fmt: skip


def _rows(size: int, starts: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, int | None]:
    """The starts of a slice as a row of indices, or as one for each example."""
    if all(dim is None for dim in dims):
        return concatenate([broadcast_in_dim(i, (1,), ()) for i in starts], 0), None
    rows = [
        broadcast_in_dim(i, (size, 1), () if dim is None else (0,))
        for i, dim in zip(starts, dims, strict=True)
    ]
    return concatenate(rows, 1), 0


def _starts(x: Any, starts: Sequence[Any]) -> list[Any]:
    """Start indices of one dtype, negative ones counted from the end."""
    dtypes = {aval_of(i).dtype for i in starts if not isinstance(i, int)} or {np.dtype("int32")}
    dtype = np.result_type(*dtypes)
    return [
        dtype.type(i % n if -n <= i < 0 else i)
        if isinstance(i, int)
        else wrapped(convert_element_type(i, dtype), n)
        for i, n in zip(starts, aval_of(x).shape, strict=True)
    ]


def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """A slice of these sizes that begins where the program says, moved inside if need be."""
    return dynamic_slice_p.bind(x, *_starts(x, starts), slice_sizes=tuple(sizes))


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """The array with a slice of it replaced, which begins where the program says."""
    return dynamic_update_slice_p.bind(x, update, *_starts(x, starts))


def dynamic_index_in_dim(x: Any, at: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """What stands at one place of an axis."""
    aval = aval_of(x)
    starts, sizes = _one(aval, at, axis)
    found = dynamic_slice(x, starts, sizes)
    return found if keepdims else squeeze(found, [axis % aval.ndim])


def dynamic_update_index_in_dim(x: Any, update: Any, at: Any, axis: int = 0) -> Any:
    """The array with what stands at one place of an axis replaced."""
    aval = aval_of(x)
    if aval_of(update).ndim < aval.ndim:
        update = expand_dims(update, [axis % aval.ndim])
    return dynamic_update_slice(x, update, _one(aval, at, axis)[0])


def _one(aval: ShapedArray, at: Any, axis: int) -> tuple[list[Any], list[int]]:
    starts: list[Any] = [0] * aval.ndim
    sizes = list(aval.shape)
    starts[axis], sizes[axis] = at, 1
    return starts, sizes
