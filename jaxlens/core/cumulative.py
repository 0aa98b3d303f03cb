"""Running sums, products and maxima; and the product along an axis.

The i-th result combines the elements up to the i-th. XLA gets a window as long as the axis, which
it knows how to make cheap. The derivative is that of another program for the same numbers, made of
few large steps: combine neighbours, solve the half as long problem, combine once more. A product
along an axis has its derivative from a tree, too: no division, so that zeros do no harm.

After "Prefix Sums and Their Applications" (Blelloch, 1990).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.contractions import highest, lowest, others, over_axes, reduction
from jaxlens.core.elementwise import add, full_like, like, mul, sub, where
from jaxlens.core.elementwise_rules import kind
from jaxlens.core.forward import jvp_flat
from jaxlens.core.functions import exp_p, is_finite_p, log_p, max_p, min_p, stop_gradient
from jaxlens.core.pieces import concatenate, pad, rev, slice_in_axis
from jaxlens.core.shapes import linear, reshape, squeeze, transpose
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive
from jaxlens.core.windows import lower_windows


def _derived(f: Callable[..., Any]) -> Callable[..., Any]:
    """The jvp rule of a primitive that `f` computes in another way."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        results, out = jvp_flat(lambda x: [f(x, **params)], primals, tangents)
        return results[0], out[0]

    return jvp


# ---- running combinations -----------------------------------------------------------------------


def prefixes(combine: Callable[..., Any], x: Any, axis: int, reverse: bool) -> Any:
    """The combination of the elements up to each, for anything associative."""
    if reverse:
        return rev(prefixes(combine, rev(x, [axis]), axis, False), [axis])
    n = aval_of(x).shape[axis]
    if n < 2:
        return x
    pairs = combine(slice_in_axis(x, axis, 0, n - 1, 2), slice_in_axis(x, axis, 1, n, 2))
    odd = prefixes(combine, pairs, axis, False)
    before = odd if n % 2 else slice_in_axis(odd, axis, 0, n // 2 - 1)
    even = combine(before, slice_in_axis(x, axis, 2, n, 2))
    even = concatenate([slice_in_axis(x, axis, 0, 1), even], axis)
    return add(_spaced(even, axis, 0, 1 - n % 2), _spaced(odd, axis, 1, n % 2))


def _spaced(x: Any, axis: int, before: int, after: int) -> Any:
    """Zeros between the elements of an axis, before and after."""
    config = [(0, 0, 0)] * aval_of(x).ndim
    config[axis] = (before, after, 1)
    return pad(x, like(x, 0), config)


def _running(
    name: str, op: Any, start: Callable[[np.dtype], Any], takes: str, combine: Any = None
) -> Primitive:
    """A primitive of running combinations.

    Args:
        name: Its name in jaxprs.
        op: The builder of what combines two elements.
        start: What nothing gives, for a dtype.
        takes: Kinds of dtype that it takes.
        combine: What combines two arrays, for the derivative; None for one that is linear.
    """

    def abstract(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        if kind(x.dtype) not in takes:
            raise TypeError(f"{name} does not accept dtype {x.dtype.name}.")
        if not 0 <= axis < x.ndim:
            raise ValueError(f"{name}: axis {axis} is out of bounds for {x.str_short()}.")
        return x

    def lower(ctx: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        n, ones = ctx.out.shape[axis], (1,) * ctx.out.ndim
        if n == 0:
            return x
        window, padding = list(ones), [(0, 0)] * len(ones)
        window[axis], padding[axis] = n, (0, n - 1) if reverse else (n - 1, 0)
        starts = [start(ctx.out.dtype)]
        return lower_windows(
            ctx, lambda a, b: [op(a, b)], [x], starts, window, ones, tuple(padding), ones, ones
        )[0]

    def batch(size: int, args: Any, dims: Any, *, axis: int, reverse: bool) -> Any:
        moved = axis + (axis >= dims[0])
        return primitive.bind(*args, axis=moved, reverse=reverse), dims[0]

    primitive = Primitive(name, abstract=abstract, lower=lower, batch=batch)
    if combine is None:
        primitive.jvp = linear(primitive)
    else:
        primitive.jvp = _derived(lambda x, **params: prefixes(combine, x, **params))
    return primitive


def _log_of_sum(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)): the larger is taken out, so that nothing overflows."""
    top = stop_gradient(max_p.bind(a, b))
    top = where(is_finite_p.bind(top), top, full_like(top, 0))
    return add(log_p.bind(add(exp_p.bind(sub(a, top)), exp_p.bind(sub(b, top)))), top)


def _log_of_sum_op(a: Any, b: Any) -> Any:
    distance = hlo.subtract(a, b)
    more = hlo.log_plus_one(hlo.exponential(hlo.negate(hlo.abs(distance))))
    equal = hlo.ComparisonDirectionAttr.get("EQ")  # not to itself: of two infinities, or NaN
    finite = hlo.compare(distance, distance, equal)
    return hlo.select(finite, hlo.add(hlo.maximum(a, b), more), hlo.add(a, b))


cumsum_p: Primitive = _running("cumsum", hlo.add, lambda _: 0, "iufc")
cumprod_p = _running("cumprod", hlo.multiply, lambda _: 1, "iufc", mul)
cummax_p = _running("cummax", hlo.maximum, lowest, "biuf", max_p.bind)
cummin_p = _running("cummin", hlo.minimum, highest, "biuf", min_p.bind)
cumlogsumexp_p = _running("cumlogsumexp", _log_of_sum_op, lowest, "f", _log_of_sum)


@cumsum_p.rule("transpose")
def _(ct: Any, x: Linear, *, axis: int, reverse: bool) -> list[Any]:
    return [cumsum(ct, axis, not reverse)]


def _function(primitive: Primitive) -> Callable[..., Any]:
    def running(x: Any, axis: int = 0, reverse: bool = False) -> Any:
        return primitive.bind(x, axis=axis, reverse=reverse)

    running.__name__ = primitive.name
    running.__doc__ = f"`{primitive.name}` along an axis; with `reverse`, from its end."
    return running


cumsum, cumprod, cummax = _function(cumsum_p), _function(cumprod_p), _function(cummax_p)
cummin, cumlogsumexp = _function(cummin_p), _function(cumlogsumexp_p)

# ---- the product --------------------------------------------------------------------------------

reduce_prod_p = reduction("reduce_prod", hlo.multiply, lambda _: 1, "iufc")


def _product(x: Any, axes: tuple[int, ...]) -> Any:
    """The product along axes: halves multiplied with halves."""
    aval = aval_of(x)
    kept = others(aval.ndim, axes)
    rest = tuple(aval.shape[axis] for axis in kept)
    n = int(np.prod([aval.shape[axis] for axis in axes], dtype=int))
    if n == 0:
        return full_like(np.empty(rest, aval.dtype), 1)
    x = reshape(transpose(x, [*axes, *kept]), (n, *rest))
    while n > 1:
        half = (n + 1) // 2
        first, second = slice_in_axis(x, 0, 0, half), slice_in_axis(x, 0, half, n)
        x = mul(first, pad(second, like(x, 1), [(0, n % 2, 0), *[(0, 0, 0)] * len(rest)]))
        n = half
    return squeeze(x, [0])


reduce_prod_p.jvp = _derived(_product)
reduce_prod = over_axes(reduce_prod_p)
