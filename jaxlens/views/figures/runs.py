"""Runs of neighbouring steps, and where steps come from: what `fold.py` works on."""

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
    """The steps `low` to `high` (exclusive) as one box; nobody changes it.

    Attributes:
        low: First step.
        high: Step after the last.
        level: How many leading places of the path its steps have in common for certain.
        copies: How often the run repeats; its children are the copies, one by one.
        number: Which copy of a repeat it is, from 1; 0 for none.
    """

    low: int
    high: int
    level: int = 0
    copies: int = 1
    number: int = 0

    def __len__(self) -> int:
        return self.high - self.low


def call_path(place: Place) -> Path:
    """Where a node comes from, outermost first: transform, named scopes, frames."""
    transform = "(".join(_TRANSFORM.findall(place.scope))
    transform += ")" * transform.count("(")
    return (transform, *_SCOPE.findall(place.scope), *reversed(place.spans))


def bundled(parts: list[StepRange], most: int, size: int = 0) -> list[StepRange]:
    """Neighbours joined where there are too many, so that no level has more than `most`.

    All joined runs have about the same number of parts, a power of `most` at most. Parts of
    a repeat, `size` steps to a copy, make a repeat again.
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
