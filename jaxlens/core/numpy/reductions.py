"""Functions over axes: the sum, and products of matrices.

Axes are named as in NumPy, counted from either end, None for all; primitives count from the front.
Products are `dot_general`, the one contraction that XLA knows: of axes that both share, axes summed
over, and the rest.
"""

import builtins
from typing import Any

import numpy as np

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import broadcast_to
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.kernel.types import bfloat16, canonical
from jaxlens.core.numpy import ufuncs as uf
from jaxlens.core.numpy.arrays import Axis, axes_of, float32
from jaxlens.core.primitives.contractions import dot_general
from jaxlens.core.primitives.shapes import convert_element_type, expand_dims
from jaxlens.core.transforms.promotion import broadcast_shapes

_HALF = (np.dtype("float16"), bfloat16)


def _counting(dtype: np.dtype) -> np.dtype:
    """Returns the dtype that small integers and booleans are summed in."""
    if dtype.kind not in "biu":
        return dtype
    return canonical(np.uint64 if dtype.kind == "u" else np.int64)


def sum(x: Any, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Sums over axes; 16-bit floats are accumulated in 32 bits."""
    axes, result = axes_of(axis, aval_of(x)), canonical(dtype or _counting(aval_of(x).dtype))
    total = basics.reduce_sum(uf.typed(x, float32 if result in _HALF else result, False), axes)
    total = convert_element_type(total, result)
    return expand_dims(total, axes) if keepdims and axes else total


# ---- products -----------------------------------------------------------------------------------


def dot(x: Any, y: Any) -> Any:
    """Contracts the last axis of `x` with the last but one of `y`."""
    x, y = uf.alike(x, y)
    a, b = aval_of(x), aval_of(y)
    if not a.ndim or not b.ndim:
        return uf.multiply(x, y)
    return _dot_general(x, y, (((a.ndim - 1,), (b.ndim - 2 if b.ndim > 1 else 0,)), ((), ())))


def _dot_general(x: Any, y: Any, numbers: Any) -> Any:
    """Binds `dot_general` with the dtype of the arguments for the sum."""
    return dot_general(x, y, numbers, preferred_element_type=aval_of(x).dtype)


def matmul(x: Any, y: Any) -> Any:
    """Multiplies matrices along the last two axes; the axes before them are broadcast.

    Raises:
        ValueError: An argument has no axes.
        TypeError: The lengths summed over differ.
    """
    x, y = uf.alike(x, y)
    a, b = aval_of(x), aval_of(y)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: a scalar is no matrix: use multiply (x * y).")
    left, right = a.ndim - 1, builtins.max(b.ndim - 2, 0)
    if a.shape[left] != b.shape[right]:
        raise TypeError(
            f"matmul: the last axis of the first argument, {a.str_short()}, and the "
            f"{'last but one' if b.ndim > 1 else 'last'} of the second, {b.str_short()}, must have "
            f"the same length, got {a.shape[left]} and {b.shape[right]}."
        )
    if b.ndim <= 2:
        return dot(x, y)
    if a.ndim == 1:
        return _dot_general(x, y, (((0,), (right,)), ((), ())))
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x, y = (broadcast_to(z, (*batch, *aval_of(z).shape[-2:])) for z in (x, y))
    n = len(batch)
    return _dot_general(x, y, (((n + 1,), (n,)), (range(n), range(n))))
