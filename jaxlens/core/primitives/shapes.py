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

from jaxlens.core.avals import ShapedArray, canonical, float0, is_inexact, tangent_aval
from jaxlens.core.tracers import Linear, Primitive, Zero, aval_of

Axes = tuple[int, ...]


def i64s(numbers: Sequence[int]) -> ir.Attribute:
    """Numbers as the attribute that StableHLO takes for axes and sizes."""
    return ir.DenseI64ArrayAttr.get(numbers)


# ---- rules that many primitives share -----------------------------------------------------------


def linear(primitive: Primitive) -> Callable[..., Any]:
    """The jvp rule of a linear primitive: itself, on the tangents, at the same places."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        moving = [
            x if type(t) is Zero and t.aval.dtype == float0 else dense(t)
            for x, t in zip(primals, tangents, strict=True)
        ]
        return result, primitive.bind(*moving, **params)

    return jvp


def flat(primitive: Primitive) -> Callable[..., Any]:
    """The jvp rule of a primitive whose result does not change, or only in steps."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        return result, Zero(tangent_aval(aval_of(result)))

    return jvp


def examples_first(primitive: Primitive, wider: Callable[..., Any]) -> Callable[..., Any]:
    """The batch rule that moves the examples to the front; `wider` changes the parameters."""

    def batch(size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return primitive.bind(*fronts(size, args, dims), **wider(size, **params)), 0

    return batch


def examples_stay(primitive: Primitive, named: str = "", gone: bool = False) -> Callable[..., Any]:
    """The batch rule of one array whose examples stay where they are.

    Args:
        primitive: It.
        named: The parameter that names an axis or axes; behind the examples they count one more.
        gone: Whether the named axes are not in the result.
    """

    def batch(size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        dim = dims[0]
        if named:
            one = isinstance(params[named], int)
            axes = bump((params[named],) if one else params[named], dim)
            params[named] = axes[0] if one else axes
            dim -= sum(axis < dim for axis in axes) if gone else 0
        found = primitive.bind(*args, **params)
        return found, [dim] * len(found) if primitive.multiple_results else dim

    return batch


def movement(name: str, wider: Callable[..., Any] | None = None, **rules: Any) -> Primitive:
    """A linear primitive; `wider` as for `examples_first`, if that is its batch rule."""
    primitive = Primitive(name, **rules)
    primitive.jvp = linear(primitive)
    if wider is not None:
        primitive.batch = examples_first(primitive, wider)
    return primitive


def bump(axes: Sequence[int], dim: int) -> Axes:
    """What axes are called once there is a new one at `dim`."""
    return tuple(axis + (axis >= dim) for axis in axes)


def axis_of(axis: int, ndim: int) -> int:
    """An axis counted from the front."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def resized(shape: Sequence[int], axis: int, n: int) -> Axes:
    """A shape with another length along one axis."""
    return (*shape[:axis], n, *shape[axis + 1 :])


def others(ndim: int, *groups: Sequence[int]) -> list[int]:
    """The axes in none of the groups."""
    return [axis for axis in range(ndim) if not any(axis in group for group in groups)]


def fronts(size: int, args: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """All examples of each array along a first axis."""
    return [
        broadcast_leading(x, size) if dim is None else moveaxis(x, dim, 0)
        for x, dim in zip(args, dims, strict=True)
    ]


def type_of(x: Any) -> ShapedArray:
    """The type of an argument of a transposition rule."""
    return x.aval if type(x) is Linear else aval_of(x)


def dense(tangent: Any) -> Any:
    """A tangent or cotangent as an array, zeros where it was symbolic."""
    return full(tangent.aval.shape, 0, tangent.aval.dtype) if type(tangent) is Zero else tangent


# ---- broadcast_in_dim: new axes, and axes of length 1 repeated ----------------------------------

broadcast_in_dim_p = movement(
    "broadcast_in_dim",
    lambda size, shape, broadcast_dimensions: {
        "shape": (size, *shape), "broadcast_dimensions": (0, *bump(broadcast_dimensions, 0)),
    },
    abstract=lambda x, *, shape, broadcast_dimensions: x.update(shape=shape),
    lower=lambda ctx, x, *, shape, broadcast_dimensions: hlo.broadcast_in_dim(
        ctx.type(ctx.out), x, i64s(broadcast_dimensions)
    ),
)  # fmt: skip


@broadcast_in_dim_p.rule("transpose")
def _(ct: Any, x: Linear, *, shape: Axes, broadcast_dimensions: Axes) -> Any:
    kept = zip(x.aval.shape, broadcast_dimensions, strict=True)
    whole = [axis for n, axis in kept if n == shape[axis]]
    return [reshape(reduce_sum(ct, tuple(others(len(shape), whole))), x.aval.shape)]


def broadcast_in_dim(x: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """An array of this shape whose axes `broadcast_dimensions` are those of `x`."""
    if aval_of(x).shape == tuple(shape):
        return x
    return broadcast_in_dim_p.bind(
        x, shape=tuple(shape), broadcast_dimensions=tuple(broadcast_dimensions)
    )


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """NumPy's: the axes of `x` are the last ones."""
    return broadcast_in_dim(x, shape, range(len(shape) - aval_of(x).ndim, len(shape)))


def broadcast_leading(x: Any, size: int) -> Any:
    """Copies along a new first axis."""
    return broadcast_to(x, (size, *aval_of(x).shape))


def expand_dims(x: Any, axes: Sequence[int]) -> Any:
    """New axes of length 1, at these places of the result."""
    old = aval_of(x).shape
    kept, shape = others(len(old) + len(axes), axes), [1] * (len(old) + len(axes))
    for axis, n in zip(kept, old, strict=True):
        shape[axis] = n
    return broadcast_in_dim(x, shape, kept)


def full(shape: Sequence[int], value: Any, dtype: Any) -> Any:
    """An array of one number."""
    return broadcast_in_dim(np.asarray(value).astype(canonical(dtype))[()], shape, ())


# ---- reduce_sum ---------------------------------------------------------------------------------

reduce_sum_p = movement(
    "reduce_sum",
    abstract=lambda x, *, axes: without(x, axes, "reduce_sum"),
    lower=lambda ctx, x, *, axes: ctx.reduce(hlo.add, x, 0, axes),
    transpose=lambda ct, x, *, axes: [
        broadcast_in_dim(ct, x.aval.shape, others(x.aval.ndim, axes))
    ],
)
reduce_sum_p.batch = examples_stay(reduce_sum_p, "axes", gone=True)


def without(x: ShapedArray, axes: Axes, name: str) -> ShapedArray:
    """The type of `x` without these axes, as the result of a primitive."""
    if len(set(axes)) != len(axes) or not all(0 <= axis < x.ndim for axis in axes):
        raise ValueError(f"{name}: axes must be different ones of {x.str_short()}, got {axes}.")
    return x.update(shape=tuple(x.shape[axis] for axis in others(x.ndim, axes)))


def reduce_sum(x: Any, axes: Axes) -> Any:
    """Sums over axes, which count from 0; they disappear."""
    return reduce_sum_p.bind(x, axes=axes) if axes else x


# ---- transpose ----------------------------------------------------------------------------------

transpose_p = movement(
    "transpose",
    lambda size, permutation: {"permutation": (0, *bump(permutation, 0))},
    lower=lambda ctx, x, *, permutation: hlo.transpose(x, i64s(permutation)),
    transpose=lambda ct, x, *, permutation: [transpose(ct, undone(permutation))],
)


@transpose_p.rule("abstract")
def _(x: ShapedArray, *, permutation: Axes) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            f"transpose: {permutation} is no permutation of the axes of {x.str_short()}."
        )
    return x.update(shape=tuple(x.shape[axis] for axis in permutation))


def transpose(x: Any, permutation: Sequence[int]) -> Any:
    """An array whose axis i is the axis `permutation[i]` of `x`."""
    if list(permutation) == list(range(aval_of(x).ndim)):
        return x
    return transpose_p.bind(x, permutation=tuple(permutation))


def undone(permutation: Sequence[int]) -> Axes:
    """The permutation that puts axes back."""
    return tuple(int(i) for i in np.argsort(permutation))


def moveaxis(x: Any, source: int, target: int) -> Any:
    """The same array with one axis elsewhere."""
    order = others(aval_of(x).ndim, [source])
    order.insert(target, source)
    return transpose(x, order)


# ---- reshape ------------------------------------------------------------------------------------

reshape_p = movement(
    "reshape",
    lambda size, new_sizes, dimensions: {"new_sizes": (size, *new_sizes), "dimensions": None},
    lower=lambda ctx, x, **_: hlo.reshape(ctx.type(ctx.out), x),
    transpose=lambda ct, x, **_: [reshape(ct, x.aval.shape)],
)


@reshape_p.rule("abstract")
def _(x: ShapedArray, *, new_sizes: Axes, dimensions: None) -> ShapedArray:
    found = x.update(shape=new_sizes)
    if found.size != x.size:
        raise TypeError(
            f"cannot reshape array of shape {x.shape} (size {x.size}) into shape {new_sizes} "
            f"(size {found.size})."
        )
    return found


def reshape(x: Any, new_sizes: Sequence[int]) -> Any:
    """The same numbers in the same order under another shape."""
    if aval_of(x).shape == tuple(new_sizes):
        return x
    return reshape_p.bind(x, new_sizes=tuple(new_sizes), dimensions=None)


# ---- squeeze ------------------------------------------------------------------------------------

squeeze_p = movement(
    "squeeze",
    lambda size, dimensions: {"dimensions": bump(dimensions, 0)},
    lower=lambda ctx, x, *, dimensions: hlo.reshape(ctx.type(ctx.out), x),
    transpose=lambda ct, x, *, dimensions: [expand_dims(ct, dimensions)],
)


@squeeze_p.rule("abstract")
def _(x: ShapedArray, *, dimensions: Axes) -> ShapedArray:
    found = without(x, dimensions, "squeeze")
    if any(x.shape[axis] != 1 for axis in dimensions):
        raise ValueError(f"squeeze: axes {dimensions} of {x.str_short()} must have length 1.")
    return found


def squeeze(x: Any, dimensions: Sequence[int]) -> Any:
    """The same array without these axes, whose length is 1."""
    return squeeze_p.bind(x, dimensions=tuple(dimensions)) if dimensions else x


# ---- convert_element_type -----------------------------------------------------------------------

convert_element_type_p = Primitive(
    "convert_element_type",
    abstract=lambda x, *, new_dtype, weak_type: ShapedArray(x.shape, new_dtype, weak_type),
    lower=lambda ctx, x, **_: ctx.convert(x, ctx.avals_in[0], ctx.out),
    transpose=lambda ct, x, **_: [convert_element_type(ct, x.aval.dtype)],
)
convert_element_type_p.batch = examples_stay(convert_element_type_p)


@convert_element_type_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    if not is_inexact(params["new_dtype"]):
        return flat(convert_element_type_p)(primals, tangents, **params)
    result = convert_element_type_p.bind(*primals, **params)
    return result, convert_element_type(tangents[0], params["new_dtype"])


def convert_element_type(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """The same numbers as elements of another dtype."""
    aval, dtype = aval_of(x), canonical(dtype)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


# ---- iota: the numbers from 0 -------------------------------------------------------------------

iota_p = Primitive(
    "iota",
    abstract=lambda *, dtype, shape, dimension: ShapedArray(shape, dtype),
    lower=lambda ctx, *, dtype, shape, dimension: hlo.iota(ctx.type(ctx.out), dimension),
)


def iota(dtype: Any, shape: Sequence[int], dimension: int = 0) -> Any:
    """Each element's place along an axis."""
    return iota_p.bind(dtype=canonical(dtype), shape=tuple(shape), dimension=dimension)
