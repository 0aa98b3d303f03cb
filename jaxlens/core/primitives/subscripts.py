"""Subscripts: what stands in the brackets of `x[...]`, spelled out.

NumPy lets an index be short: it may leave out axes, add some, count from the end, name places by a
mask. Here it becomes one entry for each axis of the array: a range, an integer or an array of
integers. Beside these it says what each axis of the result is about. What can be wrong with an
index is found here, before any primitive is applied.

After NumPy's "Indexing on ndarrays".
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxlens.core import sources
from jaxlens.core.tracers import Tracer, Value

INT = np.dtype("int32")
ARRAYS = -1
Entry = Any  # a range, an integer or an array of integers
Order = list[int | None]  # of the result: an axis of the array, ARRAYS together, or a new axis


class NonConcreteBooleanIndexError(IndexError):
    """A mask whose numbers are not known was used as an index: the shape would be unknown."""


def spelled(shape: Sequence[int], at: Any) -> tuple[list[Entry], Order]:
    """An index spelled out: an entry for each axis, and what the axes of the result are about.

    Arrays (and integers beside them) give their axes where the first of them stands; in front of
    all others where something stands between two of them.
    """
    if isinstance(at, list):
        raise TypeError(
            f"x[{at}]: a list alone is no index, as x[[0, 1]] might mean x[0, 1]: make it an array."
        )
    parts = list(map(_part, at if isinstance(at, tuple) else (at,)))
    used = sum(map(_axes, parts))
    dots = [k for k, part in enumerate(parts) if part is ...]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed"
        )
    place = dots[0] if dots else len(parts)
    parts[place : place + 1] = [..., *[slice(None)] * (len(shape) - used)]
    entries: list[Entry] = []
    order: list[Any] = []
    for part in parts:
        if part is None or part is ...:
            order.append(part)
            continue
        for entry in _entries(part, len(entries), shape):
            if isinstance(entry, range):
                order.append(len(entries))
            elif order[-1:] != [ARRAYS]:
                order.append(ARRAYS)
            entries.append(entry)
    if order.count(ARRAYS) > 1:
        order = [ARRAYS, *(about for about in order if about != ARRAYS)]
    return entries, [about for about in order if about is not ...]


def _part(part: Any) -> Any:
    """A part of an index: an array if it is not an integer, a slice, None or `...`."""
    if isinstance(part, bool | float | complex | str | list) or hasattr(part, "__array__"):
        return part if isinstance(part, Value) else np.asarray(part)
    if part is None or part is ... or isinstance(part, slice | int):
        return part
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
    return max(part.ndim, 1) if _is_mask(part) else 1


def _entries(part: Any, axis: int, shape: Sequence[int]) -> Iterator[Entry]:
    """What a part says about the axes that it is about."""
    n = shape[axis]
    if isinstance(part, slice):
        if any(isinstance(bound, Tracer) for bound in (part.start, part.stop, part.step)):
            raise IndexError(
                f"{sources.line()}: Slice entries must be static integers, got {part}: the "
                f"length of the result would be unknown. Use lax.dynamic_slice, which takes a "
                f"traced start and a known size, or mark the bounds static (static_argnums)."
            )
        yield range(*part.indices(n))
    elif isinstance(part, int):
        yield part + n if -n <= part < 0 else part
    elif _is_mask(part):
        mask, own = _concrete(part), tuple(shape[axis : axis + _axes(part)])
        if mask.shape != own:
            raise IndexError(
                f"boolean index did not match shape of indexed array in index {axis}: got "
                f"{mask.shape}, expected {own}"
            )
        yield from (where.astype(INT) for where in np.nonzero(mask))
    elif part.dtype.kind in "iu":
        yield part
    elif isinstance(part, np.ndarray) and not part.size:
        yield part.astype(INT)
    else:
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {part.dtype.name}"
        )


def _concrete(mask: Any) -> np.ndarray:
    if isinstance(mask, Tracer):
        raise NonConcreteBooleanIndexError(
            f"{sources.line()}: Array boolean indices must be concrete; got "
            f"{mask.aval.str_short()}, whose numbers are not known yet, so that the result would "
            f"have no known shape. Use cnp.where(mask, x, other), or x.at[...] with integers."
        )
    return np.asarray(mask)
