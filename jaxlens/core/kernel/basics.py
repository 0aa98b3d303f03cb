"""The six primitives that the transformations themselves use, each with all its rules.

Reverse mode adds up cotangents (`add_any`). What was repeated on the way forward is summed on the
way back (`broadcast_in_dim`, `reduce_sum`). Batching moves and inserts axes (`transpose`,
`reshape`), and turns a branch into a choice between both results (`select_n`).

A primitive is one block: its type (`abstract`), its StableHLO (`lower`), its derivative (`jvp`),
the transpose of that where it is linear, and its work on a batch (`batch`). Five of the six are
linear: the derivative of a linear map is the map itself, on the tangents.

    reduce_sum:   y = sum(x)     jvp: dy = sum(dx)     transpose: ct_x = broadcast(ct_y)

All other primitives are defined outside of the kernel in the same way: see `primitives/`.

In JAX: jax/_src/lax/lax.py. The meaning of each is that of the StableHLO op of the same name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.types import ShapedArray, canonical, float0

Axes = tuple[int, ...]
Dim = int | None  # the axis of an array that counts the examples; None: the same value for all


@dataclass(slots=True, eq=False)
class Zero:
    """A tangent or cotangent that is known to be zero, without an array full of zeros."""

    aval: ShapedArray


@dataclass(slots=True, eq=False)
class Linear:
    """Stands in a transpose rule for an argument that the result is linear in."""

    aval: ShapedArray


# ---- rules that primitives share ----------------------------------------------------------------


def instantiate(tangent: Any) -> Any:
    """Returns a tangent or cotangent as an array: zeros if it is `Zero`."""
    if type(tangent) is not Zero:
        return tangent
    aval = tangent.aval
    return np.zeros(aval.shape, float0) if aval.dtype == float0 else zeros(aval)


def linear(primitive: Primitive) -> Callable[..., Any]:
    """Returns the jvp rule of a linear primitive: itself, on the tangents."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        moving = [
            x if type(t) is Zero and t.aval.dtype == float0 else instantiate(t)
            for x, t in zip(primals, tangents, strict=True)
        ]
        return result, primitive.bind(*moving, **params)

    return jvp


def examples_first(primitive: Primitive, wider: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the batch rule that moves the examples to the first axis of every argument.

    Args:
        primitive: The primitive.
        wider: `(size, **params) -> params` for arrays with that new first axis.
    """

    def batch(size: int, args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> Any:
        return primitive.bind(*fronts(size, args, dims), **wider(size, **params)), 0

    return batch


def movement(name: str, wider: Callable[..., Any] | None = None, **rules: Any) -> Primitive:
    """Returns a linear primitive; `wider` as in `examples_first`, if that is its batch rule."""
    primitive = Primitive(name, **rules)
    primitive.jvp = linear(primitive)
    if wider is not None:
        primitive.batch = examples_first(primitive, wider)
    return primitive


# ---- axes ---------------------------------------------------------------------------------------


def i64s(numbers: Sequence[int]) -> ir.Attribute:
    """Returns numbers as the attribute that StableHLO takes for axes and sizes."""
    return ir.DenseI64ArrayAttr.get(numbers)


def bump(axes: Sequence[int], dim: int) -> Axes:
    """Returns the numbers of axes after a new axis has been inserted at `dim`."""
    return tuple(axis + (axis >= dim) for axis in axes)


def other_axes(ndim: int, *groups: Sequence[int]) -> list[int]:
    """Returns the axes that are in none of the groups."""
    return [axis for axis in range(ndim) if not any(axis in group for group in groups)]


def to_front(size: int, x: Any, dim: Dim) -> Any:
    """Returns an array with all examples along its first axis: copies if they share one value."""
    shape = (size, *aval_of(x).shape)
    return broadcast_to(x, shape) if dim is None else moveaxis(x, dim, 0)


def fronts(size: int, args: Sequence[Any], dims: Sequence[Dim]) -> list[Any]:
    """Applies `to_front` to each array."""
    return [to_front(size, x, dim) for x, dim in zip(args, dims, strict=True)]


# ---- add_any: the sum of two cotangents ---------------------------------------------------------

add_any_p = movement(
    "add_any",
    lambda size: {},
    abstract=lambda x, y: x.update(weak_type=x.weak_type and y.weak_type),
    lower=lambda ctx, x, y: hlo.add(x, y),
    transpose=lambda ct, *args: [ct if type(x) is Linear else None for x in args],
)


@add_any_p.rule("jvp")
def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    moving = [tangent for tangent in tangents if type(tangent) is not Zero]
    return add_any_p.bind(*primals), reduce(add_any_p.bind, moving)


# ---- broadcast_in_dim: new axes, and axes of length 1 repeated ----------------------------------

broadcast_in_dim_p = movement(
    "broadcast_in_dim",
    lambda size, shape, broadcast_dimensions: {
        "shape": (size, *shape),
        "broadcast_dimensions": (0, *bump(broadcast_dimensions, 0)),
    },
    abstract=lambda x, *, shape, broadcast_dimensions: x.update(shape=shape),
    lower=lambda ctx, x, *, shape, broadcast_dimensions: hlo.broadcast_in_dim(
        ctx.type(ctx.out), x, i64s(broadcast_dimensions)
    ),
)


@broadcast_in_dim_p.rule("transpose")
def _(ct: Any, x: Linear, *, shape: Axes, broadcast_dimensions: Axes) -> Any:
    pairs = zip(x.aval.shape, broadcast_dimensions, strict=True)
    axes = [axis for n, axis in pairs if n == shape[axis]]
    return [reshape(reduce_sum(ct, tuple(other_axes(len(shape), axes))), x.aval.shape)]


def broadcast_in_dim(x: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """Returns an array of this shape whose axes `broadcast_dimensions` are those of `x`."""
    if aval_of(x).shape == tuple(shape):
        return x
    return broadcast_in_dim_p.bind(
        x, shape=tuple(shape), broadcast_dimensions=tuple(broadcast_dimensions)
    )


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """Broadcasts as NumPy does: the axes of `x` become the last ones."""
    return broadcast_in_dim(x, shape, range(len(shape) - aval_of(x).ndim, len(shape)))


def full(shape: Sequence[int], value: Any, dtype: Any) -> Any:
    """Returns an array filled with one number."""
    return broadcast_in_dim(number(value, canonical(dtype)), shape, ())


def zeros(aval: ShapedArray) -> Any:
    """Returns an array of a type, filled with zeros."""
    return broadcast_in_dim(number(0, aval.dtype, aval.weak_type), aval.shape, ())


def number(value: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """Returns a number of a dtype, which becomes a literal: one of Python's where it is weak."""
    scalar = np.asarray(value).astype(dtype)[()]
    return scalar.item() if weak else scalar


# ---- reduce_sum ---------------------------------------------------------------------------------


def reduction(name: str, op: Callable[..., Any], start: Any) -> Primitive:
    """Returns the primitive that combines all elements along axes by `op`, beginning with a number.

    XLA may regroup them as it likes.
    """
    primitive = Primitive(
        name,
        abstract=lambda x, *, axes: without(x, axes, name),
        lower=lambda ctx, x, *, axes: ctx.reduce(op, x, start, axes),
    )

    @primitive.rule("batch")
    def _(size: int, args: Sequence[Any], dims: Sequence[Any], *, axes: Axes) -> Any:
        moved = bump(axes, dims[0])  # the examples stay in place; axes behind them move up
        return primitive.bind(*args, axes=moved), dims[0] - sum(axis < dims[0] for axis in moved)

    return primitive


reduce_sum_p = reduction("reduce_sum", hlo.add, 0)
reduce_sum_p.jvp = linear(reduce_sum_p)
reduce_sum_p.transpose = lambda ct, x, *, axes: [
    broadcast_in_dim(ct, x.aval.shape, other_axes(x.aval.ndim, axes))
]


def without(x: ShapedArray, axes: Axes, name: str) -> ShapedArray:
    """Returns the type of `x` without these axes, for a primitive of this name."""
    if len(set(axes)) != len(axes) or not all(0 <= axis < x.ndim for axis in axes):
        raise ValueError(f"{name}: axes must be different ones of {x.str_short()}, got {axes}.")
    return x.update(shape=tuple(x.shape[axis] for axis in other_axes(x.ndim, axes)))


def reduce_sum(x: Any, axes: Axes) -> Any:
    """Sums over axes, which are not in the result."""
    return reduce_sum_p.bind(x, axes=axes) if axes else x


# ---- transpose ----------------------------------------------------------------------------------

transpose_p = movement(
    "transpose",
    lambda size, permutation: {"permutation": (0, *bump(permutation, 0))},
    lower=lambda ctx, x, *, permutation: hlo.transpose(x, i64s(permutation)),
    transpose=lambda ct, x, *, permutation: [transpose(ct, inverse(permutation))],
)


@transpose_p.rule("abstract")
def _(x: ShapedArray, *, permutation: Axes) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            f"transpose: {permutation} is no permutation of the axes of {x.str_short()}."
        )
    return x.update(shape=tuple(x.shape[axis] for axis in permutation))


def transpose(x: Any, permutation: Sequence[int]) -> Any:
    """Returns an array whose axis i is the axis `permutation[i]` of `x`."""
    if list(permutation) == list(range(aval_of(x).ndim)):
        return x
    return transpose_p.bind(x, permutation=tuple(permutation))


def inverse(permutation: Sequence[int]) -> Axes:
    """Returns the permutation that undoes another."""
    return tuple(int(i) for i in np.argsort(permutation))


def moveaxis(x: Any, source: int, target: int) -> Any:
    """Returns the same array with one axis in another position."""
    order = other_axes(aval_of(x).ndim, [source])
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
    result = x.update(shape=new_sizes)
    if result.size != x.size:
        raise TypeError(
            f"cannot reshape array of shape {x.shape} (size {x.size}) into shape {new_sizes} "
            f"(size {result.size})."
        )
    return result


def reshape(x: Any, new_sizes: Sequence[int]) -> Any:
    """Returns the same numbers in the same order, in another shape."""
    if aval_of(x).shape == tuple(new_sizes):
        return x
    return reshape_p.bind(x, new_sizes=tuple(new_sizes), dimensions=None)


# ---- select_n: cases[which], elementwise; False is 0 --------------------------------------------

select_n_p = Primitive("select_n")
select_n = select_n_p.bind


@select_n_p.rule("abstract")
def _(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    chooses = which.dtype == np.int32 or (which.dtype == np.bool_ and len(cases) == 2)
    types = {(case.shape, case.dtype) for case in cases}
    if not chooses or len(types) != 1 or which.shape not in ((), cases[0].shape):
        raise TypeError(
            f"select_n: `which` must be bool with two cases or int32, the cases must have one "
            f"shape and dtype, and `which` that shape or none, got {which.str_short()} with cases "
            f"{', '.join(case.str_short() for case in cases)}."
        )
    return cases[0].update(weak_type=all(case.weak_type for case in cases))


@select_n_p.rule("lower")
def _(ctx: Any, which: Any, *cases: Any) -> Any:
    aval = ctx.avals_in[0]
    if aval.dtype == np.bool_:
        return hlo.select(which, cases[1], cases[0])
    result = cases[0]
    for n, case in enumerate(cases[1:], 1):  # XLA's select has two cases: a chain of them
        later = ctx.compare("GE", aval, which, ctx.constant(np.full(aval.shape, n), aval))
        result = hlo.select(later, case, result)
    return result


@select_n_p.rule("jvp")
def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    result = select_n(*primals)
    nothing = zeros(aval_of(result))
    moving = [nothing if type(tangent) is Zero else tangent for tangent in tangents[1:]]
    return result, select_n(primals[0], *moving)


@select_n_p.rule("transpose")
def _(ct: Any, which: Any, *cases: Any) -> list[Any]:
    nothing = zeros(aval_of(ct))

    def where(chosen: int) -> Any:
        return select_n(which, *(ct if n == chosen else nothing for n in range(len(cases))))

    pairs = enumerate(cases)
    return [None, *(where(n) if type(case) is Linear else None for n, case in pairs)]


@select_n_p.rule("batch")
def _(size: int, args: Sequence[Any], dims: Sequence[Dim]) -> Any:
    (which, *cases), (dim, *case_dims) = args, dims
    ndim = aval_of(which).ndim
    if len(set(dims)) == 1 and ndim == aval_of(cases[0]).ndim:
        return select_n(*args), dim
    cases = fronts(size, cases, case_dims)
    if dim is None and not ndim:  # one scalar chooses for all examples
        return select_n(which, *cases), 0
    return selected(to_front(size, which, dim), *cases), 0


def selected(which: Any, *cases: Any) -> Any:
    """Selects a case for each example."""
    shape = aval_of(cases[0]).shape
    return select_n(broadcast_in_dim(which, shape, range(aval_of(which).ndim)), *cases)
