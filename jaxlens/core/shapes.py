"""Moving numbers about: primitives that change the shape or the dtype and compute nothing new.

They are all linear, so their derivative is the primitive itself, and their transpose is what
undoes them: slicing transposes to padding, broadcasting to summing. `reduce_sum` stands here for
that reason. Each primitive is one block: its type, its StableHLO, its derivatives, its batching.

The meaning of each is that of the op of the same name in the StableHLO specification.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, canonical, is_inexact
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive, Zero


def i64s(numbers: Sequence[int]) -> ir.Attribute:
    """Numbers as the attribute that StableHLO takes for axes and sizes."""
    return ir.DenseI64ArrayAttr.get(numbers)


def linear(primitive: Primitive) -> Callable[..., Any]:
    """The jvp rule of a linear primitive: itself, on the tangents."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return primitive.bind(*primals, **params), primitive.bind(*map(dense, tangents), **params)

    return jvp


def dense(tangent: Any) -> Any:
    """A tangent or cotangent as an array, zeros where it was symbolic."""
    return full(tangent.aval.shape, 0, tangent.aval.dtype) if type(tangent) is Zero else tangent


# ---- broadcast_in_dim: new axes, and axes of length 1 repeated ----------------------------------

broadcast_in_dim_p = Primitive("broadcast_in_dim")


@broadcast_in_dim_p.rule("abstract")
def _(x: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    return x.update(shape=shape)


@broadcast_in_dim_p.rule("lower")
def _(ctx: Any, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    return hlo.broadcast_in_dim(ctx.type(ctx.out), x, i64s(broadcast_dimensions))


broadcast_in_dim_p.jvp = linear(broadcast_in_dim_p)


@broadcast_in_dim_p.rule("transpose")
def _(ct: Any, x: Linear, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    repeated = [
        axis for n, axis in zip(x.aval.shape, broadcast_dimensions, strict=True) if n != shape[axis]
    ]
    new = [axis for axis in range(len(shape)) if axis not in broadcast_dimensions]
    summed = reduce_sum(ct, tuple(sorted([*new, *repeated])))
    return [reshape(summed, x.aval.shape)]


@broadcast_in_dim_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, shape: tuple[int, ...], broadcast_dimensions: Any) -> Any:
    x = moveaxis(args[0], dims[0], 0)
    return broadcast_in_dim(x, (size, *shape), (0, *(d + 1 for d in broadcast_dimensions))), 0


def broadcast_in_dim(x: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """An array of this shape whose axes `broadcast_dimensions` are those of `x`."""
    if aval_of(x).shape == tuple(shape):
        return x
    return broadcast_in_dim_p.bind(
        x, shape=tuple(shape), broadcast_dimensions=tuple(broadcast_dimensions)
    )


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """NumPy's: the axes of `x` are the last ones."""
    ndim = aval_of(x).ndim
    return broadcast_in_dim(x, shape, range(len(shape) - ndim, len(shape)))


def broadcast_leading(x: Any, size: int) -> Any:
    """Copies along a new first axis."""
    aval = aval_of(x)
    return broadcast_in_dim(x, (size, *aval.shape), range(1, aval.ndim + 1))


def expand_dims(x: Any, axes: Sequence[int]) -> Any:
    """New axes of length 1, at these places of the result."""
    shape, old = list(aval_of(x).shape), iter(aval_of(x).shape)
    ndim = len(shape) + len(axes)
    shape = [1 if axis in axes else next(old) for axis in range(ndim)]
    return broadcast_in_dim(x, shape, [axis for axis in range(ndim) if axis not in axes])


def full(shape: Sequence[int], value: Any, dtype: Any) -> Any:
    """An array of one number."""
    scalar = np.asarray(value).astype(canonical(dtype))[()]
    return broadcast_in_dim(scalar, tuple(shape), ())


# ---- reduce_sum ---------------------------------------------------------------------------------

reduce_sum_p = Primitive("reduce_sum")


@reduce_sum_p.rule("abstract")
def _(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    return x.update(shape=tuple(n for axis, n in enumerate(x.shape) if axis not in axes))


@reduce_sum_p.rule("lower")
def _(ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    return ctx.reduce(hlo.add, x, 0, axes)


reduce_sum_p.jvp = linear(reduce_sum_p)


@reduce_sum_p.rule("transpose")
def _(ct: Any, x: Linear, *, axes: tuple[int, ...]) -> Any:
    kept = [axis for axis in range(x.aval.ndim) if axis not in axes]
    return [broadcast_in_dim(ct, x.aval.shape, kept)]


@reduce_sum_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, axes: tuple[int, ...]) -> Any:
    moved = tuple(axis + (axis >= dims[0]) for axis in axes)
    return reduce_sum(args[0], moved), dims[0] - sum(axis < dims[0] for axis in moved)


def reduce_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """Sums over axes, which count from 0; they disappear."""
    return reduce_sum_p.bind(x, axes=axes) if axes else x


# ---- transpose ----------------------------------------------------------------------------------

transpose_p = Primitive("transpose")


@transpose_p.rule("abstract")
def _(x: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise ValueError(f"transpose: {permutation} is no permutation of the axes of {x}.")
    return x.update(shape=tuple(x.shape[axis] for axis in permutation))


@transpose_p.rule("lower")
def _(ctx: Any, x: Any, *, permutation: tuple[int, ...]) -> Any:
    return hlo.transpose(x, i64s(permutation))


transpose_p.jvp = linear(transpose_p)


@transpose_p.rule("transpose")
def _(ct: Any, x: Linear, *, permutation: tuple[int, ...]) -> Any:
    return [transpose(ct, tuple(int(i) for i in np.argsort(permutation)))]


@transpose_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, permutation: tuple[int, ...]) -> Any:
    moved = (0, *(axis + 1 for axis in permutation))
    return transpose(moveaxis(args[0], dims[0], 0), moved), 0


def transpose(x: Any, permutation: Sequence[int]) -> Any:
    """An array whose axis i is the axis `permutation[i]` of `x`."""
    if list(permutation) == list(range(aval_of(x).ndim)):
        return x
    return transpose_p.bind(x, permutation=tuple(permutation))


def moveaxis(x: Any, source: int, target: int) -> Any:
    """The same array with one axis elsewhere."""
    order = [axis for axis in range(aval_of(x).ndim) if axis != source]
    order.insert(target, source)
    return transpose(x, order)


# ---- reshape ------------------------------------------------------------------------------------

reshape_p = Primitive("reshape")


@reshape_p.rule("abstract")
def _(x: ShapedArray, *, new_sizes: tuple[int, ...], dimensions: None) -> ShapedArray:
    found = x.update(shape=new_sizes)
    if found.size != x.size:
        raise TypeError(
            f"cannot reshape array of shape {x.shape} (size {x.size}) into shape {new_sizes} "
            f"(size {found.size})."
        )
    return found


@reshape_p.rule("lower")
def _(ctx: Any, x: Any, *, new_sizes: tuple[int, ...], dimensions: None) -> Any:
    return hlo.reshape(ctx.type(ctx.out), x)


reshape_p.jvp = linear(reshape_p)


@reshape_p.rule("transpose")
def _(ct: Any, x: Linear, *, new_sizes: tuple[int, ...], dimensions: None) -> Any:
    return [reshape(ct, x.aval.shape)]


@reshape_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, new_sizes: tuple[int, ...], dimensions: None) -> Any:
    return reshape(moveaxis(args[0], dims[0], 0), (size, *new_sizes)), 0


def reshape(x: Any, new_sizes: Sequence[int]) -> Any:
    """The same numbers in the same order under another shape."""
    if aval_of(x).shape == tuple(new_sizes):
        return x
    return reshape_p.bind(x, new_sizes=tuple(new_sizes), dimensions=None)


# ---- convert_element_type -----------------------------------------------------------------------

convert_element_type_p = Primitive("convert_element_type")


@convert_element_type_p.rule("abstract")
def _(x: ShapedArray, *, new_dtype: np.dtype, weak_type: bool) -> ShapedArray:
    return ShapedArray(x.shape, new_dtype, weak_type)


@convert_element_type_p.rule("lower")
def _(ctx: Any, x: Any, *, new_dtype: np.dtype, weak_type: bool) -> Any:
    return ctx.convert(x, ctx.avals_in[0], ctx.out)


@convert_element_type_p.rule("jvp")
def _(primals: Any, tangents: Any, *, new_dtype: np.dtype, weak_type: bool) -> Any:
    result = convert_element_type_p.bind(*primals, new_dtype=new_dtype, weak_type=weak_type)
    if not is_inexact(new_dtype):
        return result, Zero(ShapedArray(aval_of(result).shape, np.dtype([("float0", np.void, 0)])))
    return result, convert_element_type(tangents[0], new_dtype)


@convert_element_type_p.rule("transpose")
def _(ct: Any, x: Linear, *, new_dtype: np.dtype, weak_type: bool) -> Any:
    return [convert_element_type(ct, x.aval.dtype)]


@convert_element_type_p.rule("batch")
def _(size: int, args: Any, dims: Any, **params: Any) -> Any:
    return convert_element_type_p.bind(*args, **params), dims[0]


def convert_element_type(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """The same numbers as elements of another dtype."""
    aval, dtype = aval_of(x), canonical(dtype)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


# ---- squeeze ------------------------------------------------------------------------------------

squeeze_p = Primitive("squeeze")


@squeeze_p.rule("abstract")
def _(x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    if any(x.shape[axis] != 1 for axis in dimensions):
        raise ValueError(f"squeeze: axes {dimensions} of {x} must have length 1.")
    return x.update(shape=tuple(n for axis, n in enumerate(x.shape) if axis not in dimensions))


@squeeze_p.rule("lower")
def _(ctx: Any, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    return hlo.reshape(ctx.type(ctx.out), x)


squeeze_p.jvp = linear(squeeze_p)


@squeeze_p.rule("transpose")
def _(ct: Any, x: Linear, *, dimensions: tuple[int, ...]) -> Any:
    return [expand_dims(ct, dimensions)]


@squeeze_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, dimensions: tuple[int, ...]) -> Any:
    return squeeze(moveaxis(args[0], dims[0], 0), [axis + 1 for axis in dimensions]), 0


def squeeze(x: Any, dimensions: Sequence[int]) -> Any:
    """The same array without these axes, whose length is 1."""
    return squeeze_p.bind(x, dimensions=tuple(dimensions)) if dimensions else x


# ---- copy ---------------------------------------------------------------------------------------

copy_p = Primitive("copy")
copy_p.abstract = lambda x: x
copy_p.lower = lambda ctx, x: x
copy_p.jvp = linear(copy_p)
copy_p.transpose = lambda ct, x: [ct]
copy_p.batch = lambda size, args, dims: (copy_p.bind(*args), dims[0])

# ---- iota: the numbers from 0 -------------------------------------------------------------------

iota_p = Primitive("iota")


@iota_p.rule("abstract")
def _(*, dtype: np.dtype, shape: tuple[int, ...], dimension: int) -> ShapedArray:
    return ShapedArray(shape, dtype)


@iota_p.rule("lower")
def _(ctx: Any, *, dtype: np.dtype, shape: tuple[int, ...], dimension: int) -> Any:
    return hlo.iota(ctx.type(ctx.out), dimension)


def iota(dtype: Any, shape: Sequence[int], dimension: int = 0) -> Any:
    """Each element's place along an axis."""
    return iota_p.bind(dtype=canonical(dtype), shape=tuple(shape), dimension=dimension)
