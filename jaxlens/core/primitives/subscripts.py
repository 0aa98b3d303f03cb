"""Subscripts: what stands in the brackets of `x[...]`, spelled out.

NumPy lets an index be short: it may leave out axes, add some, count from the end, name places by a
mask. Here it becomes a list with one entry for each axis of the array: a range, an integer or an
array of integers, and None where a new axis comes. What can be wrong with an index is found here,
before any primitive is applied.

After NumPy's "Indexing on ndarrays".
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxlens.core import sources
from jaxlens.core.primitives.shapes import expand_dims
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Tracer, Value

INT = np.dtype("int32")
# None for a new axis; a range; an integer; an array of integers; `...` that stands for no axis.
Entry = Any


class NonConcreteBooleanIndexError(IndexError):
    """A mask whose numbers are not known was used as an index: the shape would be unknown."""


def entries_of(x: Any, at: Any) -> tuple[Any, list[Entry]]:
    """An index spelled out: an entry for each axis of `x`, and None where a new axis comes."""
    if isinstance(at, list):
        raise TypeError(
            f"x[{at}]: a list alone is no index, as x[[0, 1]] might mean x[0, 1]: make it an array."
        )
    parts = [_array(part) for part in (at if isinstance(at, tuple) else (at,))]
    for k, part in enumerate(parts):
        if _is_mask(part) and not np.ndim(part):  # it counts along an axis of its own
            parts[k] = np.arange(int(_concrete(part)), dtype=INT)
            x = expand_dims(x, [sum(map(_axes, parts[:k]))])
    shape = aval_of(x).shape
    dots = [k for k, part in enumerate(parts) if part is ...]
    used = sum(map(_axes, parts))
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed"
        )
    place = dots[0] if dots else len(parts)
    left_out: list[Any] = [slice(None)] * (len(shape) - used)
    parts[place : place + 1] = left_out or [...]
    entries: list[Entry] = []
    axis = 0
    for part in parts:
        entries += [part] if part is None or part is ... else _entry(part, axis, shape)
        axis += _axes(part)
    return x, entries


def _array(part: Any) -> Any:
    """A part of an index: an array if it is a list of numbers."""
    if part is None or part is ... or isinstance(part, slice | Value | np.ndarray | np.generic):
        return part
    if isinstance(part, bool | int | list) or hasattr(part, "__array__"):
        return part if isinstance(part, int) and not isinstance(part, bool) else np.asarray(part)
    if isinstance(part, float | complex | str):
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type "
            f"{type(part).__name__}: {part!r}"
        )
    raise IndexError(
        f"only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean "
        f"arrays are valid indices, got {part!r}"
    )


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.bool_


def _axes(part: Any) -> int:
    """How many axes of the array a part of an index is about."""
    if part is None or part is ...:
        return 0
    return int(np.ndim(part)) if _is_mask(part) else 1


def _entry(part: Any, axis: int, shape: Sequence[int]) -> list[Entry]:
    n = shape[axis]
    if isinstance(part, slice):
        if any(isinstance(bound, Tracer) for bound in (part.start, part.stop, part.step)):
            raise IndexError(
                f"{sources.line()}: Slice entries must be static integers, got {part}: the "
                f"length of the result would be unknown. Use lax.dynamic_slice, which takes a "
                f"traced start and a known size, or mark the bounds static (static_argnums)."
            )
        return [range(*part.indices(n))]
    if isinstance(part, int | np.integer):
        return [int(part) + n if -n <= part < 0 else int(part)]
    if _is_mask(part):
        mask = _concrete(part)
        if mask.shape != tuple(shape[axis : axis + mask.ndim]):
            raise IndexError(
                f"boolean index did not match shape of indexed array in index {axis}: got "
                f"{mask.shape}, expected {tuple(shape[axis : axis + mask.ndim])}"
            )
        return [where.astype(INT) for where in np.nonzero(mask)]
    if part.dtype.kind not in "iu":
        if isinstance(part, np.ndarray) and not part.size:
            return [part.astype(INT)]
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {part.dtype.name}"
        )
    return [part]


def _concrete(mask: Any) -> np.ndarray:
    if isinstance(mask, Tracer):
        raise NonConcreteBooleanIndexError(
            f"{sources.line()}: Array boolean indices must be concrete; got "
            f"{mask.aval.str_short()}, whose numbers are not known yet, so that the result would "
            f"have no known shape. Use cnp.where(mask, x, other), or x.at[...] with integers."
        )
    return np.asarray(mask)


def on_axes(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that are about an axis of the array."""
    return [entry for entry in entries if entry is not None and entry is not ...]


def is_array(entry: Entry) -> bool:
    return not isinstance(entry, range | int | None) and np.ndim(entry) > 0
