"""Indexing: what `x[...]` and `x.at[...]` mean, as in NumPy.

What is known when a program is traced (integers, slices, `...` and None) becomes a slice of the
array here: one range for each of its axes, then axes of length 1 are dropped or added. An index
with arrays or computed integers becomes a gather or a scatter. Which axis is which in those takes
hundreds of lines and says nothing about tracing: JAX's are used, and run by the core.

An index out of bounds cannot raise an error, as it may be known only when the program runs: reading
clamps it, writing drops the update. Arrays are immutable: `x.at[...].set(y)` gives a new one.

After NumPy's "Indexing on ndarrays" and "Pure functions" in "Sharp bits" (docs.jax.dev).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlens.core.interop.from_jax import from_jax, library
from jaxlens.core.kernel.interpreter import GROUND, Tracer, aval_of, current
from jaxlens.core.kernel.sources import here
from jaxlens.core.primitives import shapes

_slice, _rev, _squeeze = (library("lax", name) for name in ("slice", "rev", "squeeze"))


class NonConcreteBooleanIndexError(IndexError):
    """A mask whose numbers are not known was used as an index: the shape would be unknown."""


def index(x: Any, at: Any) -> Any:
    """Computes `x[at]`; an integer out of bounds is clamped, as no error can be raised later."""
    parts = at if isinstance(at, tuple) else (at,)
    entries = _entries(aval_of(x).shape, parts)
    return _read(x, _written(at)) if entries is None else _sliced(x, entries)


# ---- known while tracing: a slice ---------------------------------------------------------------


def _entries(shape: Sequence[int], parts: Sequence[Any]) -> list[Any] | None:
    """Returns None for each axis to add, and for each axis of the array an integer or a range.

    None in place of the list: the index has something else in it, or is wrong.
    """
    dots = [k for k, part in enumerate(parts) if part is ...]
    used = sum(part is not None and part is not ... for part in parts)
    if len(dots) > 1 or used > len(shape):
        return None
    place = dots[0] if dots else len(parts)
    rest = [slice(None)] * (len(shape) - used)
    lengths = iter(shape)
    entries: list[Any] = []
    for part in [*parts[:place], *rest, *parts[place + 1 :]]:
        n = 0 if part is None else next(lengths)
        if type(part) is slice and not _bounds(part, Tracer):
            entries.append(range(*part.indices(n)))
        elif part is None or (type(part) is int and -n <= part < n):
            entries.append(part if part is None else part % n)
        else:
            return None
    return entries


def _bounds(part: slice, kind: type) -> bool:
    """Whether a bound of a slice is of this class."""
    return any(isinstance(bound, kind) for bound in (part.start, part.stop, part.step))


def _sliced(x: Any, entries: Sequence[Any]) -> Any:
    own = [entry for entry in entries if entry is not None]
    spans = [entry if isinstance(entry, range) else range(entry, entry + 1) for entry in own]
    if any(span != range(n) for span, n in zip(spans, aval_of(x).shape, strict=True)):
        starts, limits, strides = zip(*map(_upwards, spans), strict=True)
        x = _slice(x, starts, limits, strides if set(strides) != {1} else None)
    if flipped := [axis for axis, span in enumerate(spans) if span.step < 0]:
        x = _rev(x, flipped)
    if single := [axis for axis, entry in enumerate(own) if type(entry) is int]:
        x = _squeeze(x, single)
    axes = [entry for entry in entries if type(entry) is not int]
    return shapes.expand_dims(x, [axis for axis, entry in enumerate(axes) if entry is None])


def _upwards(span: range) -> tuple[int, int, int]:
    """Returns start, limit and positive stride of the elements of a range."""
    if span.step > 0:
        return span.start, max(span.start, span.stop), span.step
    return (span[-1], span[0] + 1, -span.step) if span else (0, 0, 1)


# ---- all else: a gather or a scatter of JAX's ---------------------------------------------------


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
        if _bounds(part, Tracer):
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
