"""The rules that all elementwise primitives share.

An elementwise primitive does one thing to each element: one shape in and out, and one batching
rule, which lines the examples up and applies the same primitive. A scalar may stand beside an
array, and an axis of length 1 beside a longer one: the lowering repeats them, the transpose sums.
What tells two of them apart, the op and the derivatives, is a line in `elementwise.py`.

The chain rule as in "Evaluating Derivatives" (Griewank and Walther, 2008), chapter 3.
"""

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, bfloat16, tangent_aval
from jaxlens.core.primitives.shapes import (
    broadcast_in_dim,
    expand_dims,
    moveaxis,
    reduce_sum,
    reshape,
)
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive, Zero

_KINDS = {"b": "bool", "i": "integer", "u": "unsigned", "f": "floating", "c": "complex"}


def kind(dtype: np.dtype) -> str:
    """NumPy's letter for a dtype; bfloat16 counts as a float."""
    return "f" if dtype == bfloat16 else dtype.kind


def accept(name: str, dtype: np.dtype, takes: str) -> None:
    """Raises unless a primitive takes a dtype; `takes` are kinds, as `kind` names them."""
    if kind(dtype) not in takes:
        raise TypeError(
            f"{name} does not accept dtype {dtype.name}. It accepts "
            f"{', '.join(_KINDS[letter] for letter in takes)}: convert the argument with astype."
        )


def elementwise(
    name: str,
    lower: Callable[..., Any],
    takes: str,
    *derivatives: Callable[..., Any],
    gives: Callable[[np.dtype], np.dtype] = lambda dtype: dtype,
    transpose: Callable[..., Any] | None = None,
) -> Primitive:
    """A primitive that does one thing to each element.

    Args:
        name: Its name in jaxprs.
        lower: The builder of its StableHLO op.
        takes: Kinds of dtype that it takes, as `kind` names them.
        *derivatives: By each argument, `(tangent, result, *args) -> its part of the result's
            tangent`. None at all: no derivative is wanted (the result is an integer, or constant
            piece by piece).
        gives: The dtype of the result, from that of the arguments.
        transpose: For one that is linear, its transposition rule.
    """

    @cache
    def abstract(*avals: ShapedArray, **_: Any) -> ShapedArray:
        first = avals[0]
        accept(name, first.dtype, takes)
        if any(aval.dtype != first.dtype for aval in avals):
            raise TypeError(
                f"{name} requires arguments to have the same dtypes, got "
                f"{', '.join(a.str_short() for a in avals)}: bring them to one with astype."
            )
        shape = first.shape if len(avals) == 1 else _common_shape(name, avals)
        return ShapedArray(shape, gives(first.dtype), all(aval.weak_type for aval in avals))

    def lowered(ctx: Any, *operands: Any, **params: Any) -> Any:
        return lower(*ctx.same_shape(*operands), **params)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        aval = tangent_aval(aval_of(result))
        parts = [
            spread(derivative(tangent, result, *primals, **params), aval)
            for tangent, derivative in zip(tangents, derivatives, strict=False)
            if type(tangent) is not Zero
        ]
        return result, reduce(add_any_p.bind, parts) if parts else Zero(aval)

    primitive = Primitive(name, abstract=abstract, lower=lowered, jvp=jvp)
    primitive.batch = _batch_rule(primitive)
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
    shapes = ", ".join(str(aval.shape) for aval in avals)
    raise TypeError(f"{name} got incompatible shapes for broadcasting: {shapes}.")


def spread(tangent: Any, aval: ShapedArray) -> Any:
    """The tangent of an argument spread over the result."""
    return broadcast_in_dim(tangent, aval.shape, range(aval_of(tangent).ndim))


def summed(ct: Any, linear: Linear) -> Any:
    """The cotangent of an argument that was repeated: along those axes it is summed."""
    shape, old = aval_of(ct).shape, linear.aval.shape
    if shape == old:
        return ct
    repeated = [i for i, n in enumerate(shape) if not old or n != old[i]]
    return reshape(reduce_sum(ct, tuple(repeated)), old)


def by_each(*parts: Callable[[Any], Any]) -> Callable[..., Any]:
    """The transposition rule of a sum: what each argument makes of the cotangent."""

    def transpose(ct: Any, *args: Any) -> list[Any]:
        pairs = zip(parts, args, strict=True)
        return [summed(part(ct), x) if type(x) is Linear else None for part, x in pairs]

    return transpose


def terms(primitive: Primitive, sign: Callable[[Any], Any]) -> None:
    """Gives x + y or x - y its derivatives in both modes; `sign` is that of y."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        result = primitive.bind(*primals)
        moving = [type(tangent) is not Zero for tangent in tangents]
        if all(moving):
            return result, primitive.bind(*tangents)
        tangent = tangents[0] if moving[0] else sign(tangents[1])
        return result, spread(tangent, aval_of(result))

    primitive.jvp, primitive.transpose = jvp, by_each(lambda ct: ct, sign)


def _batch_rule(primitive: Primitive) -> Callable[..., Any]:
    """The examples of all arguments along one axis; axes of length 1 where an example has none."""

    def batch(size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        ranks = [aval_of(x).ndim - (dim is not None) for x, dim in zip(args, dims, strict=True)]
        rank, place = max(ranks), next(dim for dim in dims if dim is not None)
        if all(d == place if r == rank else d is None for r, d in zip(ranks, dims, strict=True)):
            return primitive.bind(*args, **params), place
        lined = [_line_up(rank, x, dim) for x, dim in zip(args, dims, strict=True)]
        return primitive.bind(*lined, **params), 0

    return batch


def _line_up(rank: int, x: Any, dim: int | None) -> Any:
    """The examples along the first axis, of length 1 where all share one; a scalar may stay."""
    ndim = aval_of(x).ndim
    if dim is None:
        return expand_dims(x, [0]) if ndim else x
    front = moveaxis(x, dim, 0)
    return expand_dims(front, range(ndim, rank + 1)) if ndim <= rank else front


# What derivatives and transposition add parts with.
add_any_p = elementwise("add_any", hlo.add, "iufc")
terms(add_any_p, lambda t: t)
