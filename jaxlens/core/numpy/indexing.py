"""Indexing: what `x[...]` and `x.at[...]` mean, as in NumPy.

Integers, slices, `...` and None become a slice of the array; arrays or computed integers a gather
or a scatter. Which axis is which in those takes hundreds of lines and says nothing about tracing:
JAX's are used, and run by the core. Here is what of an index JAX traces, and what is compared.

An index out of bounds cannot raise an error, as it may be known only when the program runs: reading
clamps it, writing drops the update. Arrays are immutable: `x.at[...].set(y)` gives a new one.

After NumPy's "Indexing on ndarrays" and "Pure functions" in "Sharp bits" (docs.jax.dev).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxlens.core.interop.from_jax import from_jax
from jaxlens.core.kernel.interpreter import GROUND, Tracer, current
from jaxlens.core.kernel.sources import here


class NonConcreteBooleanIndexError(IndexError):
    """A mask whose numbers are not known was used as an index: the shape would be unknown."""


def index(x: Any, at: Any) -> Any:
    """Computes `x[at]`; an integer out of bounds is clamped, as no error can be raised later."""
    return _read(x, _written(at))


class _Span(NamedTuple):
    """A slice as a container, whose bounds are compared."""

    start: Any
    stop: Any
    step: Any


class _Known(NamedTuple):
    """An array as a container, whose elements are compared: those of a mask decide a shape."""

    shape: tuple[int, ...]
    dtype: str
    elements: bytes


def _written(part: Any) -> Any:
    """Returns a part of an index as containers, numbers and arrays: what JAX may be given."""
    if isinstance(part, tuple):
        return tuple(map(_written, part))
    if isinstance(part, slice):
        if any(isinstance(bound, Tracer) for bound in (part.start, part.stop, part.step)):
            raise IndexError(
                f"{here()}: Slice entries must be static integers, got {part}: the "
                f"length of the result would be unknown. Use lax.dynamic_slice, which takes a "
                f"traced start and a known size, or mark the bounds static (static_argnums)."
            )
        return _Span(part.start, part.stop, part.step)
    mask = getattr(part, "dtype", None) == np.bool_
    if mask and isinstance(part, Tracer):
        raise NonConcreteBooleanIndexError(
            f"{here()}: Array boolean indices must be concrete; got "
            f"{part.aval.str_short()}, whose numbers are not known yet, so that the result would "
            f"have no known shape. Use cnp.where(mask, x, other), or x.at[...] with integers."
        )
    if mask or (isinstance(part, np.ndarray) and current() is not GROUND):
        known = np.asarray(part)
        return _Known(known.shape, known.dtype.str, known.tobytes())
    return part


def _meant(part: Any) -> Any:
    """Undoes `_written`."""
    if isinstance(part, _Span):
        return slice(*part)
    if isinstance(part, _Known):
        return np.frombuffer(part.elements, part.dtype).reshape(part.shape)
    return tuple(map(_meant, part)) if isinstance(part, tuple) else part


_read = from_jax(lambda x, at: x[_meant(at)], of_library=True)
_update = from_jax(
    lambda x, at, kind, *args, **how: getattr(x.at[_meant(at)], kind)(*args, **how),
    of_library=True,
)


class At:
    """`x.at[index].set(value)` and its like: a new array, `x` with something written there.

    It has the methods of JAX's: `get`, `set`, `add`, `subtract`, `multiply`, `min`, `max`, ...
    """

    def __init__(self, x: Any, index: Any = ()) -> None:
        self._x = x
        self._index = index

    def __getitem__(self, index: Any) -> "At":
        return At(self._x, index)

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        if kind.startswith("_"):
            raise AttributeError(kind)
        return lambda *args, **how: _update(self._x, _written(self._index), kind, *args, **how)
