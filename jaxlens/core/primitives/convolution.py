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

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.basics import Linear, i64s, moveaxis, reshape, to_front
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives.contractions import bilinear
from jaxlens.core.primitives.pieces import rev
from jaxlens.core.primitives.shapes import type_of

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]  # per axis of space: before and after


class ConvDimensionNumbers(NamedTuple):
    """Which axis of the operands and the result is which."""

    lhs_spec: Sizes  # of the array: batch, features, then space
    rhs_spec: Sizes  # of the kernel: features of the result, of the array, then space
    out_spec: Sizes  # of the result: batch, features, then space


class Convolution(NamedTuple):
    """The parameters of the primitive."""

    window_strides: Sizes
    padding: Pads
    lhs_dilation: Sizes
    rhs_dilation: Sizes
    dimension_numbers: ConvDimensionNumbers
    feature_group_count: int

    def bind(self, x: Any, k: Any) -> Any:
        """Applies the primitive to an array and a kernel."""
        return conv_p.bind(x, k, **self._asdict())


conv_p = Primitive("conv_general_dilated")
conv_p.jvp = bilinear(conv_p)


def _lengths(aval: ShapedArray, spec: Sizes, steps: Sequence[int]) -> list[int]:
    """Returns the lengths of the spatial axes, dilated by `steps`."""
    pairs = zip(spec[2:], steps, strict=True)
    return [max(0, (aval.shape[axis] - 1) * step + 1) for axis, step in pairs]


@conv_p.rule("abstract")
def _(x: ShapedArray, k: ShapedArray, **params: Any) -> ShapedArray:
    strides, padding, lhs_dilation, rhs_dilation, specs, groups = Convolution(**params)
    lhs, rhs, out = specs
    features, expected = x.shape[lhs[1]], k.shape[rhs[1]] * groups
    if features != expected or k.shape[rhs[0]] % groups:
        raise ValueError(
            f"conv_general_dilated: the kernel {k.str_short()} takes {k.shape[rhs[1]]} features in "
            f"each of {groups} groups and gives {k.shape[rhs[0]]}, which the groups "
            f"must divide; the array {x.str_short()} has {features}."
        )
    if x.dtype != k.dtype:
        raise TypeError(
            f"conv_general_dilated requires arguments to have the same dtypes, got "
            f"{x.str_short()} and {k.str_short()}: bring them to one with astype."
        )
    lengths, window = _lengths(x, lhs, lhs_dilation), _lengths(k, rhs, rhs_dilation)
    rooms = [n + sum(pads) - w for n, w, pads in zip(lengths, window, padding, strict=True)]
    stops = [max(0, room // step + 1) for room, step in zip(rooms, strides, strict=True)]
    sizes = dict(zip(out, [x.shape[lhs[0]], k.shape[rhs[0]], *stops], strict=True))
    shape = tuple(sizes[axis] for axis in range(x.ndim))
    return ShapedArray(shape, x.dtype, x.weak_type and k.weak_type)


@conv_p.rule("lower")
def _(ctx: Any, x: Any, k: Any, *, padding: Pads, **params: Any) -> Any:
    lhs, rhs, out = params.pop("dimension_numbers")
    groups = params.pop("feature_group_count")
    numbers = hlo.ConvDimensionNumbers.get(
        lhs[0], lhs[1], lhs[2:], rhs[1], rhs[0], rhs[2:], out[0], out[1], out[2:]
    )
    pads = ir.DenseIntElementsAttr.get(np.asarray(padding, np.int64).reshape(-1, 2))
    sizes = {name: i64s(numbers) for name, numbers in params.items()}
    return hlo.convolution(ctx.type(ctx.out), x, k, numbers, groups, 1, padding=pads, **sizes)


@conv_p.rule("transpose")
def _(ct: Any, x: Any, k: Any, **params: Any) -> list[Any]:
    strides, padding, lhs_dilation, rhs_dilation, specs, groups = Convolution(**params)
    lhs, rhs, out = specs
    stops, lengths = _lengths(ct.aval, out, strides), _lengths(type_of(x), lhs, lhs_dilation)
    window, before = _lengths(type_of(k), rhs, rhs_dilation), [low for low, _ in padding]
    spans = list(zip(stops, lengths, window, before, strict=True))
    x_turned, k_turned, ct_turned = ((s[1], s[0], *s[2:]) for s in specs)
    if type(x) is Linear:  # the kernel turned round moves over the cotangent
        k = rev(_regrouped(k, rhs[0], rhs[1], groups), rhs[2:])
        pads = tuple((w - 1 - low, n - stop + low) for stop, n, w, low in spans)
        specs = ConvDimensionNumbers(out, k_turned, lhs)
        turned = Convolution(lhs_dilation, pads, strides, rhs_dilation, specs, groups)
        return [turned.bind(ct, k), None]
    # The cotangent moves over the array, batch is summed over as features are.
    x = _regrouped(x, lhs[1], lhs[0], groups)
    pads = tuple((low, stop + w - 1 - n - low) for stop, n, w, low in spans)
    specs = ConvDimensionNumbers(x_turned, ct_turned, k_turned)
    turned = Convolution(rhs_dilation, pads, lhs_dilation, strides, specs, groups)
    return [None, turned.bind(x, ct)]


@conv_p.rule("batch")
def _(size: int, args: Any, dims: Any, **params: Any) -> Any:
    (x, k), (x_dim, k_dim), conv = args, dims, Convolution(**params)
    lhs, rhs, out = conv.dimension_numbers
    groups, axis = conv.feature_group_count, out[1]
    if x_dim is None and groups > 1:
        x, x_dim = to_front(size, x, None), 0
    if k_dim is None:  # more batch
        x, axis = _merged(x, x_dim, lhs[0]), out[0]
    elif x_dim is None:  # more features
        k = _merged(k, k_dim, rhs[0])
    else:  # groups of features
        x, k = _merged(x, x_dim, lhs[1]), _merged(k, k_dim, rhs[0])
        groups *= size
    return _parted(conv._replace(feature_group_count=groups).bind(x, k), axis, size), axis


def _merged(x: Any, axis: int, into: int) -> Any:
    """Merges an axis into axis `into` (numbered without the first), as its major part."""
    moved = moveaxis(x, axis, into)
    shape = list(aval_of(moved).shape)
    shape[into : into + 2] = [shape[into] * shape[into + 1]]
    return reshape(moved, shape)


def _regrouped(x: Any, axis: int, into: int, groups: int) -> Any:
    """Moves the groups along one axis to the major part of another."""
    return x if groups == 1 else _merged(_parted(x, axis, groups), axis, into)


def _parted(x: Any, axis: int, size: int) -> Any:
    """Splits an axis in two: a major axis of length `size`, and the rest."""
    shape = list(aval_of(x).shape)
    shape[axis : axis + 1] = [size, shape[axis] // size]
    return reshape(x, shape)
