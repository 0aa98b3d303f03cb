"""How a figure grows along an axis of numbers, and which points fit a limit.

A growth is fitted by least squares to the points that were measured, and is an estimate: nothing
is said of a value outside of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from jaxlens.ir.run.sweep import SweepAxis, SweepRow
from jaxlens.lenses.memory.capacity import Capacity

_LINE, _SQUARE, _POWER = 0.02, 0.005, 0.03  # largest relative error of a fit by each law
_WHOLE = 0.03  # largest distance of a power from a whole number
_FEWEST = 3  # points of a fit

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
class Growth:
    """A curve through the measured points.

    Attributes:
        terms: Factors by the power of the number: {1: slope, 0: base} for a line; {} where no law
            fits.
        first: The smallest number that it was fitted to.
        last: The largest.
        points: How many points it was fitted to.
        error: Its largest relative error at these points.
        ratio: The last value by the one before, where no law fits.
    """

    terms: Mapping[int, float]
    first: float
    last: float
    points: int
    error: float = 0.0
    ratio: float = 1.0

    @property
    def is_line(self) -> bool:
        """Whether it is a line."""
        return self.terms.keys() == {0, 1}

    @property
    def is_flat(self) -> bool:
        """Whether a line hardly changes within its points."""
        change = abs(self.terms.get(1, 0.0)) * (self.last - self.first)
        return self.is_line and change <= 0.01 * self.at(self.last)

    def at(self, number: float) -> float:
        """Returns the value of the curve at a number."""
        return sum(factor * number**power for power, factor in self.terms.items())

    def counts(self, power: int) -> bool:
        """Whether a term is more than 1 % of the curve at the smallest or largest number."""
        term = abs(self.terms[power])
        return any(term * end**power > 0.01 * self.at(end) for end in (self.first, self.last))


def growth(numbers: Sequence[float], values: Sequence[float]) -> Growth | None:
    """Returns the law that fits from some point on, else the last step; None where neither is.

    Memory and arithmetic are sums of products of sizes: a power between 1 and 2 is a sum of both
    that a few points do not show, so that whole powers alone are laws.

    Args:
        numbers: The values of the axis.
        values: The figure at each.
    """
    pairs = sorted(zip(numbers, values, strict=True))
    if len(pairs) < 2 or min(v for _, v in pairs) <= 0:
        return None
    x, y = np.array(pairs, dtype=float).T
    for first in range(len(x) - _FEWEST + 1):
        tail, measured = x[first:], y[first:]
        for terms, most in _curves(tail, measured):
            fitted = sum(factor * tail**power for power, factor in terms.items())
            error = float(np.max(np.abs(fitted / measured - 1)))
            if error <= most:
                return Growth(terms, float(tail[0]), float(tail[-1]), len(tail), error)
    return Growth({}, float(x[-2]), float(x[-1]), len(x), ratio=float(y[-1] / y[-2]))


def _curves(x: Any, y: Any) -> Iterator[tuple[dict[int, float], float]]:
    """Yields the nearest curve of each kind, with the relative error up to which it is a law."""
    for degree, most in ((1, _LINE), (2, _SQUARE)):
        if len(x) > degree + 1:  # fewer points are always on one
            factors = np.polyfit(x, y, degree, w=1 / y)
            rises = factors[0] >= 0 and np.polyval(np.polyder(factors), x[0]) >= 0
            if degree == 1 or rises:  # a line may fall
                yield {degree - n: float(factor) for n, factor in enumerate(factors)}, most
    if x[0] > 0:
        power = float(np.polyfit(np.log(x), np.log(y), 1)[0])
        whole = round(power)
        if abs(power - whole) <= _WHOLE and whole not in (0, 1):
            yield {whole: float(np.exp(np.mean(np.log(y) - whole * np.log(x))))}, _POWER


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
