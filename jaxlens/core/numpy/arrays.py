"""Making arrays, and the same numbers under another shape.

Shapes are Python's: they are known while a function is traced. So all of this is decided then, and
what is left for the program are a few primitives that move numbers.
"""

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from jaxlens.core.interop.from_jax import library
from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import GROUND, Value, aval_of, current
from jaxlens.core.kernel.types import canonical
from jaxlens.core.numpy import ufuncs as uf
from jaxlens.core.transforms.promotion import broadcast_shapes
from jaxlens.core.transforms.trees import tree_leaves

Shape = int | Sequence[int]
float32, int32 = np.dtype("float32"), np.dtype("int32")


def sizes_of(shape: Any) -> tuple[int, ...]:
    """Returns a shape as a tuple of integers; a tracer in it raises an error."""
    return tuple(operator.index(n) for n in (shape if isinstance(shape, tuple | list) else [shape]))


def array(x: Any, dtype: Any = None) -> Any:
    """Returns an array of numbers, arrays, or nested lists of them."""
    if isinstance(x, list | tuple) and any(isinstance(leaf, Value) for leaf in tree_leaves(x)):
        return library("numpy", "array")(x, dtype)
    if isinstance(x, Value):
        return x if dtype is None else uf.astype(x, dtype)
    if current() is GROUND or np.ndim(x):
        return GROUND.backend.array(x, dtype)
    if dtype is None and isinstance(x, int | float | complex):
        return x  # a literal
    constant = np.asarray(x)
    return constant.astype(canonical(dtype or constant.dtype))


asarray = array


def zeros(shape: Shape, dtype: Any = float32) -> Any:
    """Returns an array of zeros."""
    return basics.full(sizes_of(shape), 0, dtype)


def ones(shape: Shape, dtype: Any = float32) -> Any:
    """Returns an array of ones."""
    return basics.full(sizes_of(shape), 1, dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """Returns evenly spaced numbers in [start, stop); `arange(n)` begins at 0."""
    if stop is None:
        start, stop = 0, start
    limits = (start, stop, step)  # a tracer among them says what to do instead
    real = float | np.floating
    bounds = np.arange(*(x if isinstance(x, real) else operator.index(x) for x in limits))
    kind = canonical(dtype or bounds.dtype)
    if (start, step) == (0, 1) and bounds.dtype.kind in "iu":
        return library("lax", "iota")(kind, len(bounds))
    return array(bounds.astype(kind))


# ---- shapes -------------------------------------------------------------------------------------


def reshape(x: Any, *shape: Any) -> Any:
    """Returns the same elements in another shape; one length may be -1."""
    aval, sizes = aval_of(x), sizes_of(shape[0] if len(shape) == 1 else shape)
    if -1 in sizes:
        rest = prod(n for n in sizes if n != -1)
        if sizes.count(-1) > 1 or not rest or aval.size % rest:
            raise TypeError(f"cannot reshape array of shape {aval.shape} into shape {sizes}.")
        sizes = tuple(aval.size // rest if n == -1 else n for n in sizes)
    return basics.reshape(x, sizes)


def ravel(x: Any) -> Any:
    """Returns the elements along one axis."""
    return reshape(x, -1)


def broadcast_to(x: Any, shape: Shape) -> Any:
    """Broadcasts an array to a shape."""
    sizes, own = sizes_of(shape), aval_of(x).shape
    if broadcast_shapes(own, sizes) != sizes:
        raise ValueError(f"broadcast_to: an array of shape {own} does not fit into {sizes}.")
    return basics.broadcast_to(x, sizes)
