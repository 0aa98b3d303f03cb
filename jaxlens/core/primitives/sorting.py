"""Sorting: sort, argsort, top_k.

One primitive sorts several arrays of one shape at once: the first `num_keys` are compared, one
after another where there are ties, and the others go along. So argsort is a sort in which the
numbers from 0 go along, and the derivative of a sort is found the same way: sort the places too,
and take each tangent from where its element came from.

The order of floats is that of `jax.lax.sort`: the two zeros are equal, and NaN is last.
"""

from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, float0
from jaxlens.core.primitives.elementwise_rules import kind
from jaxlens.core.primitives.gathering import gather_along
from jaxlens.core.primitives.pieces import rev
from jaxlens.core.primitives.shapes import (
    broadcast_leading,
    expand_dims,
    i64s,
    iota,
    moveaxis,
    reshape,
)
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Primitive, Zero

sort_p = Primitive("sort", multiple_results=True)


@sort_p.rule("abstract")
def _(*avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int) -> list[ShapedArray]:
    if len({aval.shape for aval in avals}) > 1 or not 0 <= dimension < avals[0].ndim:
        raise TypeError(
            f"sort: operands must have one shape, and dimension {dimension} must be one of its "
            f"axes, got {', '.join(a.str_short() for a in avals)}."
        )
    if not 1 <= num_keys <= len(avals):
        raise ValueError(f"sort: num_keys must be from 1 to {len(avals)}, got {num_keys}.")
    return list(avals)


@sort_p.rule("lower")
def _(ctx: Any, *operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    scalars = [ShapedArray((), aval.dtype) for aval in ctx.avals_in]
    op = hlo.SortOp(
        list(map(ctx.type, ctx.avals_out)), operands,
        dimension=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension),
        is_stable=ir.BoolAttr.get(is_stable),
    )  # fmt: skip
    types = [ctx.type(scalar) for scalar in scalars for _ in range(2)]
    block = op.comparator.blocks.append(*types)
    with ir.InsertionPoint(block):
        pairs = list(zip(scalars, block.arguments[::2], block.arguments[1::2], strict=True))
        keys = [part for pair in pairs[:num_keys] for part in _parts(ctx, *pair)]
        before = None
        for own, x, y in reversed(keys):
            less = ctx.compare("LT", x, y, own)
            if before is not None:
                less = hlo.or_(less, hlo.and_(ctx.compare("EQ", x, y, own), before))
            before = less
        hlo.return_([before])
    return list(op.results)


def _parts(ctx: Any, aval: ShapedArray, x: Any, y: Any) -> list[tuple[str, Any, Any]]:
    """What is compared of two elements, and how: a complex number by its real part first."""
    if aval.dtype.kind == "c":
        real = ShapedArray((), np.dtype(f"f{aval.dtype.itemsize // 2}"))
        first = _parts(ctx, real, hlo.real(x), hlo.real(y))
        return first + _parts(ctx, real, hlo.imag(x), hlo.imag(y))
    if kind(aval.dtype) == "f":
        return [("TOTALORDER", _canonical(ctx, aval, x), _canonical(ctx, aval, y))]
    return [("SIGNED" if aval.dtype.kind == "i" else "UNSIGNED", x, y)]


def _canonical(ctx: Any, aval: ShapedArray, x: Any) -> Any:
    """One zero and one NaN, so that a total order of all bit patterns can be used."""
    zero, nan = ctx.constant(0, aval), ctx.constant(np.nan, aval)
    x_or_zero = hlo.select(ctx.compare("EQ", x, zero, "FLOAT"), zero, x)
    return hlo.select(ctx.compare("NE", x, x, "FLOAT"), nan, x_or_zero)


@sort_p.rule("jvp")
def _(primals: Any, tangents: Any, *, dimension: int, **params: Any) -> Any:
    places = iota(np.uint32, aval_of(primals[0]).shape, dimension)
    *results, came_from = sort_p.bind(*primals, places, dimension=dimension, **params)
    rows = expand_dims(came_from, [came_from.ndim])
    return results, [
        tangent if type(tangent) is Zero else gather_along(tangent, rows, dimension)
        for tangent in tangents
    ]


@sort_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, dimension: int, **params: Any) -> Any:
    place = dims[0] if len(set(dims)) == 1 else 0
    if len(set(dims)) > 1:
        args = [
            broadcast_leading(x, size) if dim is None else moveaxis(x, dim, 0)
            for x, dim in zip(args, dims, strict=True)
        ]
    moved = dimension + (place <= dimension)
    return sort_p.bind(*args, dimension=moved, **params), [place] * len(args)


def sort(operand: Any, dimension: int = -1, *, is_stable: bool = True, num_keys: int = 1) -> Any:
    """An array in order along an axis; or several, in the order of the first `num_keys` of them."""
    several = isinstance(operand, tuple | list)
    operands = operand if several else [operand]
    found = sort_p.bind(
        *operands, dimension=dimension % aval_of(operands[0]).ndim, is_stable=is_stable,
        num_keys=num_keys,
    )  # fmt: skip
    return found if several else found[0]


def argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    """The places of the elements along an axis, in the order of the elements; ties stay."""
    aval = aval_of(x)
    axis %= aval.ndim
    back = [axis] if descending else []
    places = iota(np.int32, aval.shape, axis)
    both = rev(x, back), rev(places, back)
    return rev(sort_p.bind(*both, dimension=axis, is_stable=True, num_keys=1)[1], back)


# ---- top_k --------------------------------------------------------------------------------------

top_k_p = Primitive("top_k", multiple_results=True)


@top_k_p.rule("abstract")
def _(x: ShapedArray, *, k: int, axis: int) -> list[ShapedArray]:
    if not 0 <= axis < x.ndim or not 0 <= k <= x.shape[axis]:
        raise ValueError(f"top_k: k={k} must be from 0 to the length of axis {axis} of {x}.")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [x.update(shape=shape), ShapedArray(shape, np.dtype("int32"))]


@top_k_p.rule("lower")
def _(ctx: Any, x: Any, *, k: int, axis: int) -> list[Any]:
    order = [i for i in range(ctx.avals_in[0].ndim) if i != axis] + [axis]
    back = [int(i) for i in np.argsort(order)]
    found = chlo.TopKOp(hlo.transpose(x, i64s(order)), k=k).results
    return [hlo.transpose(part, i64s(back)) for part in found]


@top_k_p.rule("jvp")
def _(primals: Any, tangents: Any, *, k: int, axis: int) -> Any:
    values, places = top_k_p.bind(*primals, k=k, axis=axis)
    rows = reshape(places, (*places.shape, 1))
    moving = gather_along(tangents[0], rows, axis)
    return [values, places], [moving, Zero(ShapedArray(places.shape, float0))]


@top_k_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, k: int, axis: int) -> Any:
    return top_k_p.bind(*args, k=k, axis=axis + (dims[0] <= axis)), [dims[0]] * 2


def top_k(x: Any, k: int, axis: int = -1) -> list[Any]:
    """The k largest elements along an axis, largest first, and their places."""
    found: list[Any] = top_k_p.bind(x, k=k, axis=axis % aval_of(x).ndim)
    return found
