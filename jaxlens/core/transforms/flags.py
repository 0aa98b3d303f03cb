"""Lists with a flag per item, in which the rules of calls and loops think.

Which parameters have a tangent, which results are batched, which arguments are unknown: each is a
list of flags beside a list of values. `split` takes a list apart by its flags, `merge` puts it
together again.

    split([False, True, False], "abc")      # ["a", "c"], ["b"]
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from jaxlens.core.kernel.basics import Dim, Zero, to_front
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.kernel.types import ShapedArray, tangent_aval

Flags = tuple[bool, ...]


def split(flags: Iterable[bool], items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the items whose flag is off, and those whose flag is on."""
    halves: tuple[list[Any], list[Any]] = [], []
    for flag, item in zip(flags, items, strict=True):
        halves[flag].append(item)
    return halves


def merge(flags: Iterable[bool], off: Iterable[Any], on: Iterable[Any]) -> list[Any]:
    """Undoes `split`."""
    halves = iter(off), iter(on)
    return [next(halves[flag]) for flag in flags]


def cut(items: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """Returns consecutive pieces of these lengths, and the rest."""
    bounds = [*accumulate(sizes, initial=0), None]
    return [list(items[start:stop]) for start, stop in pairwise(bounds)]


def nonzero(tangents: Sequence[Any]) -> Flags:
    """Flags the tangents or cotangents that are not `Zero`."""
    return tuple(type(tangent) is not Zero for tangent in tangents)


def with_zeros(avals: Sequence[ShapedArray], flags: Sequence[bool], tangents: Sequence[Any]) -> Any:
    """Returns a tangent per type: the next of `tangents` where flagged, else `Zero`."""
    return merge(flags, [Zero(tangent_aval(a)) for a in split(flags, avals)[0]], tangents)


def with_tangents(results: Sequence[Any], flags: Sequence[bool]) -> tuple[list[Any], Any]:
    """Returns values, and a tangent of each, from values and the tangents of the flagged ones."""
    values, tangents = cut(results, len(flags))
    return values, with_zeros(list(map(aval_of, values)), flags, tangents)


def forced(flags: Sequence[bool], force: Sequence[bool] | None) -> list[bool]:
    """Returns flags, of which those in `force` are on in any case."""
    return [flag or must for flag, must in zip(flags, force or [False] * len(flags), strict=True)]


def in_front(
    size: int, args: Sequence[Any], dims: Sequence[Dim], flags: Sequence[bool] | None = None
) -> list[Any]:
    """Moves the examples of flagged arguments, or of all that are batched, to the first axis."""
    flags = [dim is not None for dim in dims] if flags is None else flags
    triples = zip(args, dims, flags, strict=True)
    return [to_front(size, x, dim) if has else x for x, dim, has in triples]
