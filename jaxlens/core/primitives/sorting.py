"""Sorting.

One primitive sorts several arrays of one shape at once: the first `num_keys` are compared, one
after another where there are ties, and the others go along. So argsort is a sort in which the
numbers from 0 go along, and the derivative of a sort is found the same way: sort the places too,
and take each tangent from where its element came from.

The order of floats is that of `jax.lax.sort`: the two zeros are equal, and NaN is last.
"""

from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.basics import Zero, fronts
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives.elementwise import kind
from jaxlens.core.primitives.gathering import gather_along
from jaxlens.core.primitives.shapes import expand_dims, iota

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
    axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension)
    stable, types_out = ir.BoolAttr.get(is_stable), list(map(ctx.type, ctx.avals_out))
    op = hlo.SortOp(types_out, operands, dimension=axis, is_stable=stable)
    types = [ctx.type(scalar) for scalar in scalars for _ in range(2)]
    with ir.InsertionPoint(op.comparator.blocks.append(*types)) as point:
        both = point.block.arguments
        pairs = list(zip(scalars, both[::2], both[1::2], strict=True))
        keys = [key for pair in pairs[:num_keys] for key in _keys(ctx, *pair)]
        before = None
        for how, x, y in reversed(keys):
            less = ctx.compare("LT", x, y, how)
            if before is not None:
                less = hlo.or_(less, hlo.and_(ctx.compare("EQ", x, y, how), before))
            before = less
        hlo.return_([before])
    return list(op.results)


def _keys(ctx: Any, aval: ShapedArray, *pair: Any) -> list[tuple[str, Any, Any]]:
    """Returns comparison types and operands for two elements; complex: real part first."""
    if aval.dtype.kind == "c":
        part = ShapedArray((), np.dtype(f"f{aval.dtype.itemsize // 2}"))
        return [_keys(ctx, part, *map(part_of, pair))[0] for part_of in (hlo.real, hlo.imag)]
    if kind(aval.dtype) != "f":
        return [("SIGNED" if aval.dtype.kind == "i" else "UNSIGNED", *pair)]
    zero, nan = ctx.constant(0, aval), ctx.constant(np.nan, aval)  # one of each for all their bits

    def usual(x: Any) -> Any:
        x_or_zero = hlo.select(ctx.compare("EQ", x, zero, "FLOAT"), zero, x)
        return hlo.select(ctx.compare("NE", x, x, "FLOAT"), nan, x_or_zero)

    return [("TOTALORDER", *map(usual, pair))]


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
    if len(set(dims)) > 1:
        args, dims = fronts(size, args, dims), [0] * len(args)
    return sort_p.bind(*args, dimension=dimension + (dims[0] <= dimension), **params), dims


def sort(operand: Any, dimension: int = -1, *, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sorts along an axis: one array, or several by the first `num_keys` of them."""
    several = isinstance(operand, tuple | list)
    operands = operand if several else [operand]
    place = dimension % aval_of(operands[0]).ndim
    results = sort_p.bind(*operands, dimension=place, is_stable=is_stable, num_keys=num_keys)
    return results if several else results[0]
