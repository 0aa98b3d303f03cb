"""Runs of consecutive steps and call paths of steps, the data that `fold.py` uses."""

import re
from dataclasses import dataclass
from itertools import pairwise

from jaxlens.ir.columns import Place
from jaxlens.ir.graph import Span

_TRANSFORM = re.compile(r"\b(\w++)\(")
_SCOPE = re.compile(r"[^/()]+(?=[/)]|$)")

Frame = str | Span  # a transform or scope by name, or a frame
Path = tuple[Frame, ...]


@dataclass(slots=True, unsafe_hash=True)  # frozen, thousands of them would take thrice as long
class StepRange:
    """The steps `low` to `high` (exclusive) as one box; never modified.

    Attributes:
        low: First step.
        high: Step after the last.
        level: Lower bound of the number of leading frames of the path that its steps share.
        copies: Number of repetitions; the children of a repeat are its copies.
        number: Number of the copy in a repeat, from 1; 0 for none.
    """

    low: int
    high: int
    level: int = 0
    copies: int = 1
    number: int = 0

    def __len__(self) -> int:
        return self.high - self.low


def call_path(place: Place) -> Path:
    """Returns the path of a place, outermost first: transform, named scopes, frames."""
    transform = "(".join(_TRANSFORM.findall(place.scope))
    transform += ")" * transform.count("(")
    return (transform, *_SCOPE.findall(place.scope), *reversed(place.spans))


def bundled(parts: list[StepRange], most: int, size: int = 0) -> list[StepRange]:
    """Joins neighbouring runs into groups, so that no level has more than `most`.

    All groups have about the same number of parts, at most a power of `most`: 100 parts with
    `most` 14 become 8 groups of 12 or 13. Parts of a repeat, with `size` steps per copy, become a
    repeat again.
    """
    if len(parts) <= most:
        return parts
    unit = most
    while len(parts) > unit * most:
        unit *= most
    groups = -(-len(parts) // unit)
    level = max(0, min(part.level for part in parts) - (not size))
    bounds = [len(parts) * n // groups for n in range(groups + 1)]
    bundles = []
    for start, stop in pairwise(bounds):
        low, high = parts[start].low, parts[stop - 1].high
        if stop - start == 1:
            bundles.append(parts[start])
        else:
            copies = (high - low) // size if size else 1
            bundles.append(StepRange(low, high, level, copies, parts[start].number if size else 0))
    return bundles
