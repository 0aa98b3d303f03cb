"""Convolution: a kernel that moves over an array, and a product at each place where it stops.

Where the axes of batch, features and space are is data (`ConvDimensionNumbers`). That makes the
derivatives convolutions again, with the axes in other roles: by the array, the kernel turned round
moves over the cotangent; by the kernel, the cotangent moves over the array, and features and batch
change places. Many examples become more batch, more features, or groups of features.

After the StableHLO specification, and "A guide to convolution arithmetic for deep learning"
(Dumoulin and Visin, 2016, arXiv:1603.07285). Differs from JAX: there is no `batch_group_count`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.contractions import bilinear
from jaxlens.core.pieces import rev
from jaxlens.core.shapes import i64s, moveaxis, reshape
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive
from jaxlens.core.windows import Pads, Sizes, dilated, pads_attribute, pads_of, window_stops


class ConvDimensionNumbers(NamedTuple):
    """Where the axes are.

    Attributes:
        lhs_spec: Of the array: batch, features, then space.
        rhs_spec: Of the kernel: features of the result, features of the array, then space.
        out_spec: Of the result: batch, features, then space.
    """

    lhs_spec: Sizes
    rhs_spec: Sizes
    out_spec: Sizes


conv_general_dilated_p = Primitive("conv_general_dilated")


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
) -> Any:
    """Moves a kernel over an array.

    Args:
        lhs: The array.
        rhs: The kernel.
        window_strides: How far it moves from stop to stop, along each axis of space.
        padding: Zeros before and after each axis of space, or "SAME", "SAME_LOWER", "VALID".
        lhs_dilation: Between neighbours of the array, one zero less than this.
        rhs_dilation: The same for the kernel.
        dimension_numbers: Three words that name the axes, such as `("NHWC", "HWIO", "NHWC")`,
            or `ConvDimensionNumbers`; None for batch and features first.
        feature_group_count: Groups of features that do not see one another.
    """
    x, k = aval_of(lhs), aval_of(rhs)
    specs = _specs(dimension_numbers, x.ndim)
    space = len(window_strides)
    ones = (1,) * space
    base, steps = tuple(lhs_dilation or ones), tuple(rhs_dilation or ones)
    if not x.ndim == k.ndim == space + 2 or not len(base) == len(steps) == space:
        raise TypeError(
            f"conv_general_dilated: with {space} window_strides the array and the kernel must have "
            f"{space + 2} axes and the dilations {space} numbers, got {x.str_short()}, "
            f"{k.str_short()}, {base} and {steps}."
        )
    if isinstance(padding, str) and {*base} != {1}:
        raise ValueError(
            f"conv_general_dilated: padding {padding!r} has no meaning with lhs_dilation {base}: "
            f"give pairs of numbers."
        )
    lengths = [x.shape[axis] for axis in specs.lhs_spec[2:]]
    window = [dilated(k.shape[i], d) for i, d in zip(specs.rhs_spec[2:], steps, strict=True)]
    return conv_general_dilated_p.bind(
        lhs, rhs, window_strides=tuple(window_strides),
        padding=pads_of(padding, lengths, window, window_strides), lhs_dilation=base,
        rhs_dilation=steps, dimension_numbers=specs, feature_group_count=feature_group_count,
    )  # fmt: skip


def _specs(given: Any, ndim: int) -> ConvDimensionNumbers:
    if isinstance(given, ConvDimensionNumbers):
        return given
    if given is None:
        return ConvDimensionNumbers(*[tuple(range(ndim))] * 3)
    words = [str(word) for word in given]
    if len(words) != 3 or any(len(word) != ndim for word in words):
        raise ValueError(
            f"dimension_numbers: expected three words of {ndim} letters, such as "
            f"('NHWC', 'HWIO', 'NHWC'), got {given}."
        )
    space = [letter for letter in words[1] if letter not in "OI"]
    firsts = ("NC", "OI", "NC")
    try:
        found = [
            tuple(word.index(letter) for letter in [*first, *space])
            for word, first in zip(words, firsts, strict=True)
        ]
    except ValueError:
        raise ValueError(
            f"dimension_numbers: the array and the result need N, C and the kernel O, I, and all "
            f"the same letters for the axes of space, got {given}."
        ) from None
    return ConvDimensionNumbers(*found)


@conv_general_dilated_p.rule("abstract")
def _(
    x: ShapedArray, k: ShapedArray, *, window_strides: Sizes, padding: Pads, lhs_dilation: Sizes,
    rhs_dilation: Sizes, dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
) -> ShapedArray:  # fmt: skip
    lhs, rhs, out = dimension_numbers
    features, wanted = x.shape[lhs[1]], k.shape[rhs[1]] * feature_group_count
    if features != wanted or k.shape[rhs[0]] % feature_group_count:
        raise ValueError(
            f"conv_general_dilated: the kernel {k.str_short()} takes {k.shape[rhs[1]]} features in "
            f"each of {feature_group_count} groups and gives {k.shape[rhs[0]]}, which the groups "
            f"must divide; the array {x.str_short()} has {features}."
        )
    if x.dtype != k.dtype:
        raise TypeError(
            f"conv_general_dilated requires arguments to have the same dtypes, got "
            f"{x.str_short()} and {k.str_short()}: bring them to one with astype."
        )
    shape = [0] * x.ndim
    shape[out[0]], shape[out[1]] = x.shape[lhs[0]], k.shape[rhs[0]]
    for i, axis in enumerate(out[2:]):
        shape[axis] = window_stops(
            dilated(x.shape[lhs[2 + i]], lhs_dilation[i]),
            dilated(k.shape[rhs[2 + i]], rhs_dilation[i]), window_strides[i], padding[i],
        )  # fmt: skip
    return ShapedArray(tuple(shape), x.dtype, x.weak_type and k.weak_type)


@conv_general_dilated_p.rule("lower")
def _(
    ctx: Any, x: Any, k: Any, *, window_strides: Sizes, padding: Pads, lhs_dilation: Sizes,
    rhs_dilation: Sizes, dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
) -> Any:  # fmt: skip
    lhs, rhs, out = dimension_numbers
    numbers = hlo.ConvDimensionNumbers.get(
        lhs[0], lhs[1], lhs[2:], rhs[1], rhs[0], rhs[2:], out[0], out[1], out[2:]
    )
    return hlo.convolution(
        ctx.type(ctx.out), x, k, numbers, feature_group_count, 1,
        window_strides=i64s(window_strides), padding=pads_attribute(padding),
        lhs_dilation=i64s(lhs_dilation), rhs_dilation=i64s(rhs_dilation),
    )  # fmt: skip


conv_general_dilated_p.jvp = bilinear(conv_general_dilated_p)


@conv_general_dilated_p.rule("transpose")
def _(ct: Any, x: Any, k: Any, **params: Any) -> list[Any]:
    if type(x) is Linear:
        return [_by_array(ct, x.aval, k, **params), None]
    return [None, _by_kernel(ct, x, k.aval, **params)]


def _by_array(
    ct: Any, x: ShapedArray, k: Any, *, window_strides: Sizes, padding: Pads, lhs_dilation: Sizes,
    rhs_dilation: Sizes, dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
) -> Any:  # fmt: skip
    """The kernel turned round moves over the cotangent."""
    lhs, rhs, out = dimension_numbers
    lengths = _lengths(
        ct, x, aval_of(k), dimension_numbers, window_strides, lhs_dilation, rhs_dilation
    )
    pads = []
    for (stops, n, w), (low, _) in zip(lengths, padding, strict=True):
        pads.append((w - 1 - low, n - stops + low))
    if feature_group_count > 1:
        k = _merged(_parted(k, rhs[0], feature_group_count), rhs[0], rhs[1])
    return conv_general_dilated_p.bind(
        ct, rev(k, rhs[2:]), window_strides=lhs_dilation, padding=tuple(pads),
        lhs_dilation=window_strides, rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out, (rhs[1], rhs[0], *rhs[2:]), lhs),
        feature_group_count=feature_group_count,
    )  # fmt: skip


def _by_kernel(
    ct: Any, x: Any, k: ShapedArray, *, window_strides: Sizes, padding: Pads, lhs_dilation: Sizes,
    rhs_dilation: Sizes, dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
) -> Any:  # fmt: skip
    """The cotangent moves over the array; what was batch is summed over, as features are."""
    lhs, rhs, out = dimension_numbers
    lengths = _lengths(
        ct, aval_of(x), k, dimension_numbers, window_strides, lhs_dilation, rhs_dilation
    )
    pads = [
        (low, stops + w - 1 - n - low)
        for (stops, n, w), (low, _) in zip(lengths, padding, strict=True)
    ]
    if feature_group_count > 1:
        x = _merged(_parted(x, lhs[1], feature_group_count), lhs[1], lhs[0])
    return conv_general_dilated_p.bind(
        x, ct, window_strides=rhs_dilation, padding=tuple(pads), lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides, feature_group_count=feature_group_count,
        dimension_numbers=ConvDimensionNumbers(
            (lhs[1], lhs[0], *lhs[2:]), (out[1], out[0], *out[2:]), (rhs[1], rhs[0], *rhs[2:])
        ),
    )  # fmt: skip


def _lengths(
    ct: Any, x: ShapedArray, k: ShapedArray, numbers: ConvDimensionNumbers, strides: Sizes,
    lhs_dilation: Sizes, rhs_dilation: Sizes,
) -> list[tuple[int, int, int]]:  # fmt: skip
    """Of each axis of space, the dilated lengths of the cotangent, the array and the kernel."""
    lhs, rhs, out = (spec[2:] for spec in numbers)
    return [
        (dilated(aval_of(ct).shape[c], s), dilated(x.shape[a], d), dilated(k.shape[b], e))
        for c, s, a, d, b, e in zip(out, strides, lhs, lhs_dilation, rhs, rhs_dilation, strict=True)
    ]


# ---- batching -----------------------------------------------------------------------------------


def _merged(x: Any, axis: int, into: int) -> Any:
    """An axis as the slow part of another, which is called `into` once the first is gone."""
    moved = moveaxis(x, axis, into)
    shape = list(aval_of(moved).shape)
    shape[into : into + 2] = [shape[into] * shape[into + 1]]
    return reshape(moved, shape)


def _parted(x: Any, axis: int, size: int) -> Any:
    """An axis as two: `size` slow ones, and the rest."""
    shape = list(aval_of(x).shape)
    shape[axis : axis + 1] = [size, shape[axis] // size]
    return reshape(x, shape)


@conv_general_dilated_p.rule("batch")
def _(
    size: int, args: Any, dims: Any, *, dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int, **params: Any,
) -> Any:  # fmt: skip
    (x, k), (x_dim, k_dim) = args, dims
    lhs, rhs, out = dimension_numbers
    groups, axis = feature_group_count, out[1]
    params["dimension_numbers"] = dimension_numbers
    if k_dim is None:  # more batch
        x, axis = _merged(x, x_dim, lhs[0]), out[0]
    elif x_dim is not None:  # groups of features
        x, k = _merged(x, x_dim, lhs[1]), _merged(k, k_dim, rhs[0])
        groups *= size
    elif groups == 1:  # more features
        k = _merged(k, k_dim, rhs[0])
    else:  # more features in each group
        parts = _parted(moveaxis(k, k_dim, 0), 1 + rhs[0], groups)
        k = _merged(_merged(parts, 0, 1 + rhs[0]), rhs[0], rhs[0])
    result = conv_general_dilated_p.bind(x, k, feature_group_count=groups, **params)
    if x_dim is None and groups > 1:
        parts = moveaxis(_parted(_parted(result, axis, groups), axis + 1, size), axis + 1, 0)
        return _merged(parts, axis + 1, axis + 1), 0
    return _parted(result, axis, size), axis
