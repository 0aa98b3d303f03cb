"""Arithmetic: primitives that do one thing to each element.

They all have one shape in and out, one StableHLO op, and one batching rule: line the examples up
and apply the same primitive. What tells them apart is a line each in the tables below: the op, and
the derivative by each argument. A scalar may stand beside an array, and an axis of length 1 beside
a longer one; the lowering repeats them.

Derivatives are those of "Evaluating Derivatives" (Griewank and Walther, 2008), table 2.3.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, bfloat16, float0, is_inexact
from jaxlens.core.shapes import broadcast_in_dim, expand_dims, moveaxis, reduce_sum, reshape
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive, Zero

# Kinds of dtype (NumPy's letters) that an op takes.
_FLOAT, _INEXACT, _REAL, _NUMBER, _ANY, _INT = "f", "fc", "iuf", "iufc", "biufc", "biu"
Derivative = Callable[..., Any]  # (tangent, result, *args) -> the part of the result's tangent


def kind(dtype: np.dtype) -> str:
    """NumPy's letter for a dtype; bfloat16 counts as a float."""
    return "f" if dtype == bfloat16 else dtype.kind


def elementwise(
    name: str,
    lower: Callable[..., Any],
    takes: str,
    *derivatives: Derivative | None,
    gives: Callable[[np.dtype], np.dtype] = lambda dtype: dtype,
    transpose: Callable[..., Any] | None = None,
) -> Primitive:
    """A primitive that does one thing to each element.

    Args:
        name: Its name in jaxprs.
        lower: The builder of its StableHLO op.
        takes: Kinds of dtype that it takes.
        *derivatives: By each argument; None where it is zero. None at all: no derivative is
            wanted (the result is an integer, or constant piece by piece).
        gives: The dtype of the result, from that of the arguments.
        transpose: For one that is linear, its transposition rule.
    """

    def abstract(*avals: ShapedArray, **_: Any) -> ShapedArray:
        first = avals[0]
        if kind(first.dtype) not in takes:
            raise TypeError(f"{name} does not accept dtype {first.dtype.name}.")
        shape, weak = first.shape, first.weak_type
        for other in avals[1:]:
            if other.dtype != first.dtype:
                raise TypeError(
                    f"{name} requires arguments to have the same dtypes, got "
                    f"{', '.join(a.str_short() for a in avals)}: bring them to one dtype with "
                    f"astype."
                )
            if other.shape != shape:
                shape = _common_shape(name, avals)
            weak = weak and other.weak_type
        return ShapedArray(shape, gives(first.dtype), weak)

    def lowered(ctx: Any, *operands: Any, **params: Any) -> Any:
        return lower(*ctx.same_shape(*operands), **params)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        total: Any = None
        for tangent, derivative in zip(tangents, derivatives, strict=False):
            if type(tangent) is not Zero and derivative is not None:
                part = derivative(tangent, result, *primals, **params)
                part = _like(part, aval_of(result))
                total = part if total is None else add_any_p.bind(total, part)
        return result, Zero(_tangent(aval_of(result))) if total is None else total

    primitive = Primitive(
        name, abstract=abstract, lower=lowered, jvp=jvp, batch=_batch_rule(lambda: primitive)
    )
    if transpose is not None:
        primitive.transpose = transpose
    return primitive


def _common_shape(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The shape that scalars and axes of length 1 are repeated to."""
    arrays = [a.shape for a in avals if a.shape]
    if len(set(map(len, arrays))) <= 1:
        lengths = [{n for n in axis if n != 1} or {1} for axis in zip(*arrays, strict=True)]
        if all(len(found) == 1 for found in lengths):
            return tuple(found.pop() for found in lengths)
    raise TypeError(
        f"{name} got incompatible shapes for broadcasting: {', '.join(str(a.shape) for a in avals)}."
    )


def _like(tangent: Any, aval: ShapedArray) -> Any:
    """The tangent of an argument spread over the result."""
    return broadcast_in_dim(tangent, aval.shape, range(aval_of(tangent).ndim))


def _tangent(aval: ShapedArray) -> ShapedArray:
    return aval if is_inexact(aval.dtype) else ShapedArray(aval.shape, float0)


def _batch_rule(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    """The examples of all arguments along one axis; axes of length 1 where an example has none."""

    def batch(size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        ranks = [aval_of(x).ndim - (dim is not None) for x, dim in zip(args, dims, strict=True)]
        rank, place = max(ranks), next(dim for dim in dims if dim is not None)
        if all(d == place if r == rank else d is None for r, d in zip(ranks, dims, strict=True)):
            return primitive().bind(*args, **params), place
        lined = [_line_up(rank, x, dim) for x, dim in zip(args, dims, strict=True)]
        return primitive().bind(*lined, **params), 0

    return batch


def _line_up(rank: int, x: Any, dim: int | None) -> Any:
    """The examples along the first axis, of length 1 where all share one; a scalar may stay."""
    ndim = aval_of(x).ndim
    if dim is None:
        return expand_dims(x, [0]) if ndim else x
    front = moveaxis(x, dim, 0)
    return expand_dims(front, range(ndim, rank + 1)) if ndim <= rank else front


def _summed(ct: Any, linear: Linear) -> Any:
    """The cotangent of an argument that was repeated: along those axes it is summed."""
    shape, old = aval_of(ct).shape, linear.aval.shape
    if shape == old:
        return ct
    repeated = [i for i, n in enumerate(shape) if not old or n != old[i]]
    return reshape(reduce_sum(ct, tuple(repeated)), old)


# ---- linear ones --------------------------------------------------------------------------------


def _both(f: Callable[[Any], Any]) -> Callable[..., Any]:
    """The transposition rule of x + y or x - y, where `f` is what y gets."""

    def transpose(ct: Any, x: Any, y: Any) -> Any:
        return [
            _summed(ct, x) if type(x) is Linear else None,
            _summed(f(ct), y) if type(y) is Linear else None,
        ]

    return transpose


def _mul_transpose(ct: Any, x: Any, y: Any) -> Any:
    if type(x) is Linear:
        return [_summed(mul_p.bind(ct, y), x), None]
    return [None, _summed(mul_p.bind(x, ct), y)]


def _div_transpose(ct: Any, x: Linear, y: Any) -> Any:
    return [_summed(div_p.bind(ct, y), x), None]


neg_p: Primitive = elementwise(
    "neg", hlo.negate, _NUMBER, lambda t, *_: neg_p.bind(t),
    transpose=lambda ct, x: [neg_p.bind(ct)],
)  # fmt: skip
add_p: Primitive = elementwise(
    "add", hlo.add, _NUMBER, lambda t, *_: t, lambda t, *_: t, transpose=_both(lambda ct: ct)
)
add_any_p: Primitive = elementwise(  # what transposition adds cotangents with
    "add_any", hlo.add, _NUMBER, lambda t, *_: t, lambda t, *_: t, transpose=_both(lambda ct: ct)
)
sub_p: Primitive = elementwise(
    "sub", hlo.subtract, _NUMBER, lambda t, *_: t, lambda t, *_: neg_p.bind(t),
    transpose=_both(neg_p.bind),
)  # fmt: skip
mul_p: Primitive = elementwise(
    "mul", hlo.multiply, _NUMBER,
    lambda t, _, x, y: mul_p.bind(t, y), lambda t, _, x, y: mul_p.bind(x, t),
    transpose=_mul_transpose,
)  # fmt: skip
div_p: Primitive = elementwise(
    "div", hlo.divide, _NUMBER,
    lambda t, _, x, y: div_p.bind(t, y),
    lambda t, _, x, y: mul_p.bind(mul_p.bind(neg_p.bind(t), x), integer_pow_p.bind(y, y=-2)),
    transpose=_div_transpose,
)  # fmt: skip

# ---- functions of one number --------------------------------------------------------------------

sin_p: Primitive = elementwise(
    "sin", hlo.sine, _INEXACT, lambda t, _, x: mul_p.bind(t, cos_p.bind(x))
)
cos_p: Primitive = elementwise(
    "cos", hlo.cosine, _INEXACT, lambda t, _, x: neg_p.bind(mul_p.bind(t, sin_p.bind(x)))
)


# ---- powers -------------------------------------------------------------------------------------

integer_pow_p: Primitive = Primitive("integer_pow")


@integer_pow_p.rule("abstract")
def _(x: ShapedArray, *, y: int) -> ShapedArray:
    return x
