"""Lines of a jaxpr that are made on access.

Most lines are runs of consecutive equations on one line each, stored as a range of steps.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import accumulate

from jaxlens.ir.columns import ColumnsModule
from jaxlens.ir.graph import Module, Region
from jaxlens.ir.lazy import ComputedSequence
from jaxlens.render.document import Line
from jaxlens.views.listings.lines_by_id import LinesById


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive equations of a region, from `low` to before `high`, on one line each."""

    region: Region
    low: int
    high: int
    indent: int


@dataclass(frozen=True, slots=True)
class Page:
    """Data shared by the lines of one listing.

    Attributes:
        module: The program.
        lines: Equations on one line, by id.
        shared: Names of the regions that several equations use.
        calls: Names of the nested regions, by region and step.
    """

    module: Module
    lines: LinesById
    shared: frozenset[str]
    calls: Mapping[str, Mapping[int, tuple[str, ...]]]


class Rows(ComputedSequence[Line]):
    """All lines of a listing; those in a `Stretch` are made on each access."""

    def __init__(self, page: Page, rows: Iterable[Line | Stretch], first: int = 0) -> None:
        self._page = page
        self._rows = list(rows)
        self._first = first
        sizes = (row.high - row.low if isinstance(row, Stretch) else 1 for row in self._rows)
        self._starts = [0, *accumulate(sizes)]

    def after(self, first: int) -> "Rows":
        """Returns the lines from `first` on."""
        later = copy(self)
        later._first = self._first + first
        return later

    @property
    def module(self) -> Module:
        """The program."""
        return self._page.module

    def called(self, region: str) -> Mapping[int, str]:
        """Returns what the user's code calls the values of a region, by number."""
        return self._page.lines.called(region)

    def stretches(self, count: int) -> Iterator[Line | Stretch]:
        """Yields the first `count` lines, as stretches where possible."""
        end = self._first + count
        for start, row in zip(self._starts, self._rows, strict=False):
            if start >= end:
                return
            if isinstance(row, Line):
                if start >= self._first:
                    yield row
                continue
            low = row.low + max(0, self._first - start)
            high = min(row.high, row.low + end - start)
            if low < high:
                yield Stretch(row.region, low, high, row.indent)

    def __len__(self) -> int:
        return max(0, self._starts[-1] - self._first)

    def place(self, id: str) -> int | None:
        """Returns the index of the first line with a node's id; None for none."""
        where = _where(self._page.module, id)
        if where is None:
            return None
        region, step = where
        for start, row in zip(self._starts, self._rows, strict=False):
            if isinstance(row, Line):
                place = start if row.id == id else -1
            else:
                inside = row.region.name == region and row.low <= step < row.high
                place = start + step - row.low if inside else -1
            if place >= self._first:
                return place - self._first
        return None

    def _item(self, index: int) -> Line:
        place = bisect_right(self._starts, index + self._first) - 1
        row = self._rows[place]
        if isinstance(row, Line):
            return row
        step = row.low + index + self._first - self._starts[place]
        line = self._page.lines.at(row.region, step)
        return Line(line.pieces, line.id, row.indent, line.line)


def _where(module: Module, id: str) -> tuple[str, int] | None:
    """Returns region and step of a node; None for an unknown id."""
    if isinstance(module, ColumnsModule):
        try:
            return module.locate(id)
        except KeyError:
            return None
    places = (
        (r.name, n) for r in module.regions.values() for n, e in enumerate(r.nodes) if e.id == id
    )
    return next(places, None)
