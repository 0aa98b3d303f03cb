"""Making arrays, and the same numbers under another shape.

Shapes are Python's: they are known while a function is traced. So all of this is decided then, and
what is left for the program are a few primitives that move numbers.
"""

import operator
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import GROUND, Value, aval_of, current
from jaxlens.core.kernel.tree import tree_leaves
from jaxlens.core.kernel.types import ShapedArray, canonical
from jaxlens.core.numpy import ufuncs as uf
from jaxlens.core.primitives import pieces, shapes
from jaxlens.core.transforms.promotion import axis_of, broadcast_shapes

Axis = int | Sequence[int] | None
Shape = int | Sequence[int]
float32, int32 = np.dtype("float32"), np.dtype("int32")


def axes_of(axis: Axis, aval: ShapedArray) -> tuple[int, ...]:
    """Returns sorted axes, counted from the front; None means all axes."""
    if axis is None:
        return tuple(range(aval.ndim))
    named = (axis,) if isinstance(axis, int) else axis
    return tuple(sorted(axis_of(number, aval.ndim) for number in named))


def sizes_of(shape: Any) -> tuple[int, ...]:
    """Returns a shape as a tuple of integers; a tracer in it raises an error."""
    return tuple(operator.index(n) for n in (shape if isinstance(shape, tuple | list) else [shape]))


def array(x: Any, dtype: Any = None) -> Any:
    """Returns an array of numbers, arrays, or nested lists of them."""
    if isinstance(x, list | tuple) and any(isinstance(leaf, Value) for leaf in tree_leaves(x)):
        return stack([array(item, dtype) for item in x])
    if isinstance(x, Value):
        return x if dtype is None else uf.astype(x, dtype)
    if current() is GROUND or np.ndim(x):
        return GROUND.backend.array(x, dtype)
    if dtype is None and isinstance(x, int | float | complex):
        return x  # a literal
    constant = np.asarray(x)
    return constant.astype(canonical(dtype or constant.dtype))


asarray = array


def full(shape: Shape, value: Any, dtype: Any = None) -> Any:
    """Returns an array filled with one number."""
    number = array(value) if dtype is None else uf.astype(value, dtype)
    return basics.broadcast_to(number, sizes_of(shape))


def zeros(shape: Shape, dtype: Any = float32) -> Any:
    """Returns an array of zeros."""
    return basics.full(sizes_of(shape), 0, dtype)


def ones(shape: Shape, dtype: Any = float32) -> Any:
    """Returns an array of ones."""
    return basics.full(sizes_of(shape), 1, dtype)


def zeros_like(x: Any, dtype: Any = None) -> Any:
    """Returns zeros in the shape of `x`."""
    return zeros(aval_of(x).shape, dtype or aval_of(x).dtype)


def ones_like(x: Any, dtype: Any = None) -> Any:
    """Returns ones in the shape of `x`."""
    return ones(aval_of(x).shape, dtype or aval_of(x).dtype)


def full_like(x: Any, value: Any, dtype: Any = None) -> Any:
    """Returns an array in the shape of `x`, filled with one number."""
    return full(aval_of(x).shape, value, dtype or aval_of(x).dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """Returns evenly spaced numbers in [start, stop); `arange(n)` begins at 0."""
    if stop is None:
        start, stop = 0, start
    limits = (start, stop, step)  # a tracer among them says what to do instead
    real = float | np.floating
    bounds = np.arange(*(x if isinstance(x, real) else operator.index(x) for x in limits))
    kind = canonical(dtype or bounds.dtype)
    if (start, step) == (0, 1) and bounds.dtype.kind in "iu":
        return shapes.iota(kind, (len(bounds),), 0)
    return array(bounds.astype(kind))


def linspace(start: Any, stop: Any, num: int = 50) -> Any:
    """Returns `num` evenly spaced numbers from `start` to `stop`, both included."""
    number = shapes.iota(float32, (num,), 0)
    share = uf.divide(number, np.float32(max(num - 1, 1)))
    line = uf.add(uf.multiply(start, uf.subtract(1.0, share)), uf.multiply(stop, share))
    last = start if num == 1 else stop  # itself, also where it is infinite
    return uf.where(uf.equal(number, num - 1), last, line)


def _places(shape: Sequence[int], k: int) -> tuple[Any, Any]:
    """Returns the row index plus `k`, and the column index, of each element of a matrix."""
    rows, columns = shapes.iota(int32, shape, 0), shapes.iota(int32, shape, 1)
    return uf.add(rows, k), columns


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = float32) -> Any:
    """Returns a matrix with ones on the `k`-th diagonal and zeros elsewhere."""
    return uf.astype(uf.equal(*_places((n, n if m is None else m), k)), dtype)


def tril(x: Any, k: int = 0) -> Any:
    """Returns the matrix with zeros above the `k`-th diagonal."""
    return uf.where(uf.greater_equal(*_places(aval_of(x).shape[-2:], k)), x, zeros_like(x))


def triu(x: Any, k: int = 0) -> Any:
    """Returns the matrix with zeros below the `k`-th diagonal."""
    below = uf.greater_equal(*_places(aval_of(x).shape[-2:], k - 1))
    return uf.where(below, zeros_like(x), x)


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


def transpose(x: Any, *axes: Any) -> Any:
    """Permutes the axes; reverses them if no order is given."""
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    ndim = aval_of(x).ndim
    places = [axis_of(axis, ndim) for axis in order] if order else range(ndim)[::-1]
    return basics.transpose(x, places)


def swapaxes(x: Any, a: int, b: int) -> Any:
    """Exchanges two axes."""
    order = list(range(aval_of(x).ndim))
    order[a], order[b] = order[b], order[a]
    return basics.transpose(x, order)


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """Moves one axis to another position."""
    ndim = aval_of(x).ndim
    return basics.moveaxis(x, axis_of(source, ndim), axis_of(destination, ndim))


def expand_dims(x: Any, axis: Shape) -> Any:
    """Inserts axes of length 1 at these positions of the result."""
    axes = (axis,) if isinstance(axis, int) else axis
    ndim = aval_of(x).ndim + len(axes)
    return shapes.expand_dims(x, [axis_of(number, ndim) for number in axes])


def broadcast_to(x: Any, shape: Shape) -> Any:
    """Broadcasts an array to a shape."""
    sizes, own = sizes_of(shape), aval_of(x).shape
    if broadcast_shapes(own, sizes) != sizes:
        raise ValueError(f"broadcast_to: an array of shape {own} does not fit into {sizes}.")
    return basics.broadcast_to(x, sizes)


def squeeze(x: Any, axis: Axis = None) -> Any:
    """Removes axes of length 1: all of them, or those in `axis`."""
    aval = aval_of(x)
    ones_ = [i for i, n in enumerate(aval.shape) if n == 1]
    return shapes.squeeze(x, ones_ if axis is None else axes_of(axis, aval))


def _joined(xs: Sequence[Any], name: str, same: bool = False) -> list[Any]:
    """Promotes arrays to one dtype; they must have one rank, or with `same` one shape."""
    shapes_ = [aval_of(x).shape for x in xs]
    if len({shape if same else len(shape) for shape in shapes_}) != 1:
        raise (ValueError if same or not xs else TypeError)(
            f"{name}: expected arrays with the same {'shape' if same else 'number of axes'}, got "
            f"{', '.join(map(str, shapes_)) or 'none'}."
        )
    return uf.alike(*xs)


def concatenate(xs: Sequence[Any], axis: int = 0) -> Any:
    """Joins arrays along an existing axis."""
    arrays = _joined(xs, "concatenate")
    return pieces.concatenate(arrays, axis_of(axis, aval_of(arrays[0]).ndim))


def stack(xs: Sequence[Any], axis: int = 0) -> Any:
    """Joins arrays along a new axis."""
    arrays = _joined(xs, "stack", same=True)
    return pieces.stack(arrays, axis_of(axis, aval_of(arrays[0]).ndim + 1))


def split(x: Any, sections: Shape, axis: int = 0) -> list[Any]:
    """Splits an axis into equal parts, or at the indices in `sections`."""
    place, length = axis_of(axis, aval_of(x).ndim), aval_of(x).shape[axis]
    if isinstance(sections, int):
        if length % sections:
            raise ValueError(f"split: an axis of length {length} has no {sections} equal parts.")
        cuts = list(range(0, length + 1, length // sections))
    else:
        cuts = [0, *sections, length]
    return list(pieces.split(x, [b - a for a, b in pairwise(cuts)], place))


def pad(x: Any, pad_width: Any, constant_values: Any = 0) -> Any:
    """Pads each axis with a constant before and after its elements."""
    aval = aval_of(x)
    widths = np.broadcast_to(np.asarray(pad_width), (aval.ndim, 2)).tolist()
    value = uf.typed(constant_values, aval.dtype, False)
    return pieces.pad(x, value, tuple((low, high, 0) for low, high in widths))


def flip(x: Any, axis: Axis = None) -> Any:
    """Reverses the order of elements along axes."""
    return pieces.rev(x, axes_of(axis, aval_of(x)))


def repeat(x: Any, repeats: int, axis: int | None = None) -> Any:
    """Repeats each element along an axis."""
    if axis is None:
        return repeat(ravel(x), repeats, 0)
    place, shape = axis_of(axis, aval_of(x).ndim), aval_of(x).shape
    wide = shapes.expand_dims(x, [place + 1])
    many = basics.broadcast_to(wide, (*shape[: place + 1], repeats, *shape[place + 1 :]))
    return reshape(many, (*shape[:place], shape[place] * repeats, *shape[place + 1 :]))
