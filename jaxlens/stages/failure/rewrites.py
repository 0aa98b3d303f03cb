"""Rewrites of a failing line by the kind of mistake, with the user's own names; runs no code.

Each rewrite keeps the meaning of the line, or its text states the difference.
"""

from collections.abc import Callable, Iterator, Mapping

from jaxlens.ir.failure import Mistake
from jaxlens.stages.failure.rewrite import FailingCode, Rewrite
from jaxlens.stages.failure.rewrites_of_conditions import of_condition
from jaxlens.stages.failure.rewrites_of_functions import (
    of_branches,
    of_carry,
    of_data_as_key,
    of_format,
    of_hash,
    of_in_place,
    of_key_as_data,
    of_numpy,
)
from jaxlens.stages.failure.rewrites_of_numbers import of_mask, of_number, of_shape, of_size

_BY_MISTAKE: Mapping[Mistake, Callable[[FailingCode], Iterator[Rewrite]]] = {
    "condition": of_condition,
    "number": of_number,
    "shape": of_shape,
    "size": of_size,
    "mask": of_mask,
    "numpy": of_numpy,
    "in place": of_in_place,
    "hash": of_hash,
    "format": of_format,
    "key as data": of_key_as_data,
    "data as key": of_data_as_key,
    "carry": of_carry,
    "branches": of_branches,
}


def rewrites(line: FailingCode, mistake: Mistake) -> Iterator[Rewrite]:
    """Yields rewrites of a line, the closest to the original first."""
    make = _BY_MISTAKE.get(mistake)
    if make is not None:
        yield from make(line)
