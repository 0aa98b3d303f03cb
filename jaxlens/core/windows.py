"""Windows that move over an array: pooling.

`reduce_window` combines the elements that a window covers, at each place where it can stop; sums
and maxima are what networks pool with. A sum's transpose is a sum over windows again. A maximum
hands its tangent on from where it was found (`select_and_gather_add`), and its cotangent back to
there (`select_and_scatter_add`): each of these two is the other's transpose.

The meaning of the numbers is that of `reduce_window` in the StableHLO specification.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.contractions import highest, lowest
from jaxlens.core.elementwise import ge_p, le_p
from jaxlens.core.elementwise_rules import kind
from jaxlens.core.pieces import pad
from jaxlens.core.shapes import broadcast_leading, i64s, linear, moveaxis
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive, Zero

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]  # per axis: before and after


def dilated(n: int, step: int) -> int:
    """The length of `n` elements with `step - 1` gaps between two neighbours."""
    return max(0, (n - 1) * step + 1)


def pads_of(
    padding: str | Sequence[tuple[int, int]], shape: Sequence[int], window: Sequence[int],
    strides: Sequence[int],
) -> Pads:  # fmt: skip
    """The padding that a word means, per axis.

    Args:
        padding: "VALID" for none, "SAME" for as many stops as elements divided by the stride,
            "SAME_LOWER" for the same with the odd one before; or the numbers themselves.
        shape: The lengths of the axes, dilated.
        window: The lengths of the window, dilated.
        strides: How far it moves from stop to stop.
    """
    if not isinstance(padding, str):
        return tuple((int(low), int(high)) for low, high in padding)
    if padding not in ("VALID", "SAME", "SAME_LOWER"):
        raise ValueError(
            f"padding must be 'VALID', 'SAME', 'SAME_LOWER' or pairs of numbers, got {padding!r}."
        )
    if padding == "VALID":
        return ((0, 0),) * len(shape)
    stops = [-(-n // step) for n, step in zip(shape, strides, strict=True)]
    totals = [
        max((stop - 1) * step + w - n, 0)
        for stop, step, w, n in zip(stops, strides, window, shape, strict=True)
    ]
    pairs = [(total // 2, total - total // 2) for total in totals]
    return tuple(pair if padding == "SAME" else pair[::-1] for pair in pairs)


def window_stops(n: int, window: int, stride: int, pads: tuple[int, int]) -> int:
    """At how many places of an axis a window stops."""
    return max(0, (n + sum(pads) - window) // stride + 1)


def lower_windows(
    ctx: Any, combine: Callable[..., Sequence[Any]], operands: Sequence[Any],
    starts: Sequence[Any], window: Sequence[int], strides: Sequence[int], padding: Pads,
    base_dilation: Sequence[int], window_dilation: Sequence[int],
) -> Sequence[Any]:  # fmt: skip
    """A `reduce_window` of one or more arrays of the same shape, side by side."""
    scalars = [ShapedArray((), aval.dtype) for aval in ctx.avals_in]
    inits = [ctx.constant(start, scalar) for start, scalar in zip(starts, scalars, strict=True)]
    types = [ctx.type(ShapedArray(ctx.out.shape, scalar.dtype)) for scalar in scalars]
    op = hlo.ReduceWindowOp(
        types, operands, inits, i64s(window), window_strides=i64s(strides),
        base_dilations=i64s(base_dilation), window_dilations=i64s(window_dilation),
        padding=pads_attribute(padding),
    )  # fmt: skip
    block = op.regions[0].blocks.append(*map(ctx.type, [*scalars, *scalars]))
    with ir.InsertionPoint(block):
        hlo.return_(list(combine(*block.arguments)))
    return list(op.results)


def pads_attribute(padding: Pads) -> ir.Attribute:
    """Padding as the attribute that StableHLO takes."""
    return ir.DenseIntElementsAttr.get(np.asarray(padding, np.int64).reshape(-1, 2))


# ---- reduce_window ------------------------------------------------------------------------------


def _windowed(name: str, op: Any, start: Callable[[np.dtype], Any], takes: str) -> Primitive:
    def abstract(
        x: ShapedArray, *, window_dimensions: Sizes, window_strides: Sizes, padding: Pads,
        base_dilation: Sizes, window_dilation: Sizes,
    ) -> ShapedArray:  # fmt: skip
        if kind(x.dtype) not in takes:
            raise TypeError(f"{name} does not accept dtype {x.dtype.name}.")
        every = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
        if any(len(numbers) != x.ndim for numbers in every):
            raise ValueError(
                f"{name}: the window's dimensions, strides, padding and dilations need a number "
                f"for each axis of {x.str_short()}, got {window_dimensions}, {window_strides}, "
                f"{padding}, {base_dilation} and {window_dilation}."
            )
        shape = [dilated(n, step) for n, step in zip(x.shape, base_dilation, strict=True)]
        window = [dilated(*pair) for pair in zip(window_dimensions, window_dilation, strict=True)]
        stops = map(window_stops, shape, window, window_strides, padding)
        return x.update(shape=tuple(stops))

    def lower(ctx: Any, x: Any, **params: Any) -> Any:
        starts = [start(ctx.out.dtype)]
        return lower_windows(ctx, lambda a, b: [op(a, b)], [x], starts, **_named(params))[0]

    primitive = Primitive(name, abstract=abstract, lower=lower)
    primitive.batch = _batch_rule(primitive)
    return primitive


def _named(params: dict[str, Any]) -> dict[str, Any]:
    names = {"window_dimensions": "window", "window_strides": "strides"}
    return {names.get(name, name): value for name, value in params.items()}


def _batch_rule(primitive: Primitive) -> Callable[..., Any]:
    """The window does not move over the axis of the examples: it is 1 long there."""

    def batch(size: int, args: Any, dims: Any, **params: Any) -> Any:
        fronts = [
            broadcast_leading(x, size) if dim is None else moveaxis(x, dim, 0)
            for x, dim in zip(args, dims, strict=True)
        ]
        own: dict[str, Any] = {"padding": (0, 0)}
        wide = {
            name: (own.get(name, 1), *value) if isinstance(value, tuple) else value
            for name, value in params.items()
        }
        return primitive.bind(*fronts, **wide), 0

    return batch


reduce_window_sum_p = _windowed("reduce_window_sum", hlo.add, lambda _: 0, "iufc")
reduce_window_max_p = _windowed("reduce_window_max", hlo.maximum, lowest, "biuf")
reduce_window_min_p = _windowed("reduce_window_min", hlo.minimum, highest, "biuf")

reduce_window_sum_p.jvp = linear(reduce_window_sum_p)


@reduce_window_sum_p.rule("transpose")
def _(
    ct: Any, x: Linear, *, window_dimensions: Sizes, window_strides: Sizes, padding: Pads,
    base_dilation: Sizes, window_dilation: Sizes,
) -> list[Any]:  # fmt: skip
    config = []
    for n, m, w, stride, pads, base, step in zip(
        x.aval.shape, aval_of(ct).shape, window_dimensions, window_strides, padding,
        base_dilation, window_dilation, strict=True,
    ):  # fmt: skip
        before = dilated(w, step) - 1 - pads[0]
        after = dilated(n, base) + dilated(w, step) - 1 - before - dilated(m, stride)
        config.append((before, after, stride - 1))
    padded = pad(ct, np.zeros((), x.aval.dtype)[()], config)
    ones = (1,) * x.aval.ndim
    return [
        reduce_window_sum_p.bind(
            padded, window_dimensions=window_dimensions, window_strides=base_dilation,
            padding=((0, 0),) * x.aval.ndim, base_dilation=ones, window_dilation=window_dilation,
        )
    ]  # fmt: skip


def _selecting(primitive: Primitive, select: Primitive) -> None:
    """Gives a maximum or minimum over windows its derivative."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        gathered = select_and_gather_add_p.bind(*tangents, *primals, select_prim=select, **params)
        return result, gathered

    primitive.jvp = jvp


_selecting(reduce_window_max_p, ge_p)
_selecting(reduce_window_min_p, le_p)

# ---- what a window's maximum chose --------------------------------------------------------------

select_and_gather_add_p = Primitive("select_and_gather_add")  # of a tangent and an array
select_and_scatter_add_p = Primitive("select_and_scatter_add")  # of a cotangent and an array


@select_and_gather_add_p.rule("abstract")
def _(tangent: ShapedArray, x: ShapedArray, *, select_prim: Primitive, **params: Any) -> Any:
    found = reduce_window_max_p.abstract(x, **params)
    return tangent.update(shape=found.shape)


@select_and_gather_add_p.rule("lower")
def _(ctx: Any, tangent: Any, x: Any, *, select_prim: Primitive, **params: Any) -> Any:
    def combine(t: Any, a: Any, u: Any, b: Any) -> list[Any]:
        first = _compared(ctx, select_prim, a, b)
        return [hlo.select(first, t, u), hlo.select(first, a, b)]

    start = lowest if select_prim is ge_p else highest
    starts = [0, start(ctx.avals_in[1].dtype)]
    return lower_windows(ctx, combine, [tangent, x], starts, **_named(params))[0]


def _compared(ctx: Any, select_prim: Primitive, a: Any, b: Any) -> Any:
    how = {"f": "FLOAT", "i": "SIGNED"}.get(kind(ctx.avals_in[1].dtype), "UNSIGNED")
    return ctx.compare(select_prim.name.upper(), a, b, how)


@select_and_scatter_add_p.rule("abstract")
def _(ct: ShapedArray, x: ShapedArray, **_: Any) -> ShapedArray:
    return ct.update(shape=x.shape)


@select_and_scatter_add_p.rule("lower")
def _(
    ctx: Any, ct: Any, x: Any, *, select_prim: Primitive, window_dimensions: Sizes,
    window_strides: Sizes, padding: Pads,
) -> Any:  # fmt: skip
    scalar = ShapedArray((), ctx.out.dtype)
    op = hlo.SelectAndScatterOp(
        ctx.type(ctx.out), x, ct, ctx.constant(0, scalar),
        window_dimensions=i64s(window_dimensions), window_strides=i64s(window_strides),
        padding=pads_attribute(padding),
    )  # fmt: skip
    pair = [ctx.type(scalar)] * 2
    with ir.InsertionPoint(op.regions[0].blocks.append(*pair)) as point:
        hlo.return_([_compared(ctx, select_prim, *point.block.arguments)])
    with ir.InsertionPoint(op.regions[1].blocks.append(*pair)) as point:
        hlo.return_([hlo.add(*point.block.arguments)])
    return op.result


def _linear_in_first(primitive: Primitive) -> None:
    """Gives a primitive that is linear in its first argument its jvp; the second only chooses."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        result = primitive.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return result, Zero(aval_of(result))
        return result, primitive.bind(tangents[0], primals[1], **params)

    primitive.jvp, primitive.batch = jvp, _batch_rule(primitive)


_linear_in_first(select_and_gather_add_p)
_linear_in_first(select_and_scatter_add_p)


@select_and_gather_add_p.rule("transpose")
def _(
    ct: Any, tangent: Linear, x: Any, *, base_dilation: Sizes, window_dilation: Sizes, **params: Any
) -> list[Any]:
    if {*base_dilation, *window_dilation} != {1}:
        raise NotImplementedError(
            "The reverse derivative of a maximum over dilated windows does not exist: use "
            "forward mode, or windows without dilation."
        )
    return [select_and_scatter_add_p.bind(ct, x, **params), None]


@select_and_scatter_add_p.rule("transpose")
def _(ct: Any, source: Linear, x: Any, **params: Any) -> list[Any]:
    ones = (1,) * aval_of(x).ndim
    dilations = {"base_dilation": ones, "window_dilation": ones}
    return [select_and_gather_add_p.bind(ct, x, **params, **dilations), None]


# ---- the functions ------------------------------------------------------------------------------


def _function(primitive: Primitive) -> Callable[..., Any]:
    def reduce_window(
        x: Any,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int] | None = None,
        padding: str | Sequence[tuple[int, int]] = "VALID",
        base_dilation: Sequence[int] | None = None,
        window_dilation: Sequence[int] | None = None,
    ) -> Any:
        shape = aval_of(x).shape
        ones = (1,) * len(shape)
        strides, base = tuple(window_strides or ones), tuple(base_dilation or ones)
        steps = tuple(window_dilation or ones)
        window = tuple(window_dimensions)
        lengths = [dilated(n, step) for n, step in zip(shape, base, strict=False)]
        reach = [dilated(w, step) for w, step in zip(window, steps, strict=False)]
        return primitive.bind(
            x, window_dimensions=window, window_strides=strides,
            padding=pads_of(padding, lengths, reach, strides),
            base_dilation=base, window_dilation=steps,
        )  # fmt: skip

    reduce_window.__name__ = primitive.name
    reduce_window.__doc__ = f"`{primitive.name}` with a window, a number for each axis of x."
    return reduce_window


reduce_window_sum = _function(reduce_window_sum_p)
reduce_window_max = _function(reduce_window_max_p)
reduce_window_min = _function(reduce_window_min_p)
