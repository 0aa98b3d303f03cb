"""The points of a sweep along an axis of numbers, and which of them fit a limit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

from jaxlens.jobs.sweeps.points import SweepAxis, SweepRow
from jaxlens.program.published_limits import Capacity

Measured = tuple[float, SweepRow]
"""A number of an axis, and the row that was measured there."""


@dataclass(frozen=True, slots=True)
class SweepFacts:
    """All points of a sweep.

    Attributes:
        name: The function.
        axes: The axes of the grid.
        rows: One row a point, in the order of the grid, the last axis fastest.
        capacity: The limit, or None.
        workers: How many programs were compiled at a time; None where the executor decides.
        runs: How often each program was run; 0 for not at all.
        random: Whether they ran on random inputs.
        trouble: Why points could not be written to the file; "" where they could.
        elsewhere: What points were compiled for, where that is not the device of the limit.
        traced: Axes of numbers that the function only traces: no value of theirs is in a program.
        open: Loops whose trips tracing does not tell, by line: no flops are known of these points.
    """

    name: str
    axes: tuple[SweepAxis, ...]
    rows: tuple[SweepRow, ...]
    capacity: Capacity | None = None
    workers: int | None = None
    runs: int = 0
    random: bool = False
    trouble: str = ""
    elsewhere: tuple[str, ...] = ()
    traced: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def numbered(self) -> tuple[int, ...]:
        """The axes along which numbers change programs."""
        known = enumerate(self.axes)
        return tuple(n for n, a in known if len(a.numbers) > 1 and a.name not in self.traced)

    @property
    def failed(self) -> tuple[SweepRow, ...]:
        """The points with an error."""
        return tuple(row for row in self.rows if row.error)


@dataclass(frozen=True, slots=True)
class Series:
    """The rows along one axis of numbers, smallest first, at one value of each other axis.

    Attributes:
        others: The values of the other axes, in words, by axis.
        numbers: The numbers, of the rows that were measured.
        rows: These rows.
    """

    others: tuple[tuple[str, str], ...]
    numbers: tuple[float, ...]
    rows: tuple[SweepRow, ...]

    def values(self, of: Callable[[SweepRow], Any]) -> "tuple[list[float], list[float]]":
        """Returns the numbers and the figures of the rows that have one."""
        known = [(n, of(row)) for n, row in zip(self.numbers, self.rows, strict=True)]
        pairs = [(n, float(value)) for n, value in known if value is not None]
        return [n for n, _ in pairs], [value for _, value in pairs]


def series(facts: SweepFacts, at: int) -> Iterator[Series]:
    """Yields the rows along axis number `at`, which has numbers."""
    axis = facts.axes[at]
    others = [n for n in range(len(facts.axes)) if n != at]

    def place(row: SweepRow) -> tuple[int, ...]:
        return tuple(row.place[n] for n in others)

    for _, rows in groupby(sorted(facts.rows, key=place), place):
        known = (row for row in rows if not row.error or row.fits is not None)
        done = tuple(sorted(known, key=lambda row: axis.numbers[row.place[at]]))
        if done:
            fixed = tuple((facts.axes[n].name, done[0].point[facts.axes[n].name]) for n in others)
            yield Series(fixed, tuple(axis.numbers[row.place[at]] for row in done), done)


def fit(of: Series) -> tuple[Measured | None, Measured | None] | None:
    """Returns the largest of a series that fits the limit, and the next, which does not.

    One of them is None if all or none fit; there is no answer if the limit is met twice, or it is
    not known what fits.
    """
    known = [(n, r) for n, r in zip(of.numbers, of.rows, strict=True) if r.fits is not None]
    fits = [bool(row.fits) for _, row in known]
    if not known or any(after and not before for before, after in pairwise(fits)):
        return None
    count = sum(fits)
    return known[count - 1] if count else None, known[count] if count < len(known) else None


def figure(name: str) -> Callable[[SweepRow], Any]:
    """Returns the function that reads a figure of a row."""
    return attrgetter(f"figures.{name}")
