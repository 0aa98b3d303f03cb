"""Running sums and products; and the product along an axis.

The i-th result combines the elements up to the i-th. XLA gets a window as long as the axis, which
it knows how to make cheap. The derivative of a product is that of another program for the same
numbers, made of few large steps: combine neighbours, solve the half as long problem, combine once
more. A product along an axis has its derivative from a tree, too: no division, so that zeros do no
harm.

After "Prefix Sums and Their Applications" (Blelloch, 1990).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import i64s
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.jvp import jvp_flat
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives import shapes
from jaxlens.core.primitives.contractions import reduction
from jaxlens.core.primitives.elementwise import accept, add_p, full_like, like, mul, or_p
from jaxlens.core.primitives.pieces import concatenate, pad, rev, slice_in_axis


def _derived(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the jvp rule of a primitive by differentiating `f`, which computes the same."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        results, out = jvp_flat(lambda x: [f(x, **params)], primals, tangents)
        return results[0], out[0]

    return jvp


# ---- running combinations -----------------------------------------------------------------------


def _running(name: str, op: Callable[..., Any], start: int) -> Primitive:
    """Returns a primitive of cumulative combinations by `op`, whose identity is `start`."""

    def abstract(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        accept(name, x.dtype, "iufc")
        basics.without(x, (axis,), name)
        return x

    def lower(ctx: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        n, window = ctx.out.shape[axis], [1] * ctx.out.ndim
        if n == 0:
            return x
        window[axis], padding = n, np.zeros((ctx.out.ndim, 2), np.int64)
        padding[axis, int(reverse)] = n - 1
        scalar = ctx.out.update(shape=())
        types, starts = [ctx.type(ctx.out)], [ctx.constant(start, scalar)]
        pads = ir.DenseIntElementsAttr.get(padding)
        windows = hlo.ReduceWindowOp(types, [x], starts, i64s(window), padding=pads)
        return ctx.combining(windows, op)

    primitive = Primitive(name, abstract=abstract, lower=lower)
    primitive.batch = shapes.examples_stay(primitive, "axis")
    return primitive


def prefixes(
    combine: Callable[..., list[Any]], xs: list[Any], axes: Sequence[int], reverse: bool = False
) -> list[Any]:
    """Computes all prefix combinations by an associative function.

    Args:
        combine: A function of two lists of arrays to one, for many pairs of elements at once.
        xs: Arrays.
        axes: The axis of each along which its elements are.
        reverse: Whether to begin at the end.
    """
    if reverse:
        flipped = [rev(x, [axis]) for x, axis in zip(xs, axes, strict=True)]
        results = prefixes(combine, flipped, axes)
        return [rev(x, [axis]) for x, axis in zip(results, axes, strict=True)]
    n = aval_of(xs[0]).shape[axes[0]]
    if n < 2:
        return xs

    def part(arrays: list[Any], *place: int) -> list[Any]:
        return [slice_in_axis(x, axis, *place) for x, axis in zip(arrays, axes, strict=True)]

    odd = prefixes(combine, combine(part(xs, 0, n - 1, 2), part(xs, 1, n, 2)), axes)
    even = combine(odd if n % 2 else part(odd, 0, n // 2 - 1), part(xs, 2, n, 2))
    triples = zip(xs, even, axes, strict=True)
    even = [concatenate([slice_in_axis(x, axis, 0, 1), y], axis) for x, y, axis in triples]
    return [_woven(*triple, n) for triple in zip(even, odd, axes, strict=True)]


def _woven(even: Any, odd: Any, axis: int, n: int) -> Any:
    """Interleaves the elements of two arrays along an axis."""

    def spaced(x: Any, before: int, after: int) -> Any:
        config = [(0, 0, 0)] * aval_of(x).ndim
        config[axis] = (before, after, 1)
        return pad(x, like(x, 0), config)

    both = spaced(even, 0, 1 - n % 2), spaced(odd, 1, n % 2)
    return (or_p if aval_of(even).dtype == np.bool_ else add_p).bind(*both)


cumsum_p, cumprod_p = _running("cumsum", hlo.add, 0), _running("cumprod", hlo.multiply, 1)
cumsum_p.jvp = basics.linear(cumsum_p)
cumsum_p.transpose = lambda ct, x, *, axis, reverse: [
    cumsum_p.bind(ct, axis=axis, reverse=not reverse)
]
cumprod_p.jvp = _derived(
    lambda x, axis, reverse: prefixes(lambda a, b: [mul(*a, *b)], [x], [axis], reverse)[0]
)


# ---- the product --------------------------------------------------------------------------------

reduce_prod_p = reduction("reduce_prod", hlo.multiply, lambda _: 1, "iufc")


def _product(x: Any, axes: tuple[int, ...]) -> Any:
    """Computes the product along axes by multiplying halves."""
    aval = aval_of(x)
    rest_axes = basics.other_axes(aval.ndim, axes)
    rest = tuple(aval.shape[axis] for axis in rest_axes)
    n = int(np.prod([aval.shape[axis] for axis in axes], dtype=int))
    if n == 0:
        return full_like(np.empty(rest, aval.dtype), 1)
    x = basics.reshape(basics.transpose(x, [*axes, *rest_axes]), (n, *rest))
    while n > 1:
        half = (n + 1) // 2
        first, second = slice_in_axis(x, 0, 0, half), slice_in_axis(x, 0, half, n)
        x = mul(first, pad(second, like(x, 1), [(0, n % 2, 0), *[(0, 0, 0)] * len(rest)]))
        n = half
    return shapes.squeeze(x, [0])


reduce_prod_p.jvp = _derived(_product)
