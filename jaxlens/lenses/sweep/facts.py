"""How a figure grows along an axis of numbers, and which points fit a limit.

A growth is fitted by least squares to the points that were measured, and is an estimate: nothing
is said of a value outside of them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from jaxlens.ir.run.sweep import SweepAxis, SweepRow
from jaxlens.lenses.memory.capacity import Capacity

_LINE, _SQUARE, _POWER = 0.02, 0.005, 0.03  # largest relative error of a fit by each law
_WHOLE = 0.03  # largest distance of a power from a whole number
_FEWEST = 3  # points of a fit


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
        once: Whether flops have the body of a while loop once, as its trips are not known.
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
    once: bool = False

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
        kind: "line": base + slope * n; "square": with + square * n ** 2; "power": slope * n **
            power; "step": no such law, and slope is the ratio of the last two.
        base: Value at 0 of the line or square.
        slope: Growth for 1 of the axis, factor of the power, or a ratio.
        power: The exponent; 1 for a line.
        first: The smallest number that it was fitted to.
        last: The largest.
        points: How many points it was fitted to.
        error: Its largest relative error at these points.
        square: Growth with the square.
    """

    kind: str
    base: float
    slope: float
    power: float
    first: float
    last: float
    points: int
    error: float
    square: float = 0.0

    @property
    def is_flat(self) -> bool:
        """Whether a line hardly changes within its points."""
        change = abs(self.slope) * (self.last - self.first)
        return self.kind == "line" and change <= 0.01 * (self.base + self.slope * self.last)


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
    laws = partial(_polynomial, 1), partial(_polynomial, 2), _power
    tails = range(len(x) - _FEWEST + 1)
    fits = (law(x[n:], y[n:]) for n in tails for law in laws)
    ends = float(x[-2]), float(x[-1])
    last = Growth("step", 0.0, float(y[-1] / y[-2]), 0.0, *ends, len(x), 0.0)
    return next(filter(None, fits), last)


def _polynomial(degree: int, x: Any, y: Any) -> Growth | None:
    if len(x) < degree + 2:  # fewer points are always on one
        return None
    square, slope, base = (0.0, *map(float, np.polyfit(x, y, degree, w=1 / y)))[-3:]
    error, ends = _error(base + slope * x + square * x**2, y), (float(x[0]), float(x[-1]))
    kind, most = (("line", _LINE), ("square", _SQUARE))[degree - 1]
    fitted = Growth(kind, base, slope, float(degree), *ends, len(x), error, square)
    rises = square >= 0 and slope + 2 * square * x[0] >= 0  # of the square; a line may fall
    return fitted if error <= most and (degree == 1 or rises) else None


def _power(x: Any, y: Any) -> Growth | None:
    if x[0] <= 0:
        return None
    power, factor = map(float, np.polyfit(np.log(x), np.log(y), 1))
    error = _error(math.exp(factor) * x**power, y)
    ends = float(x[0]), float(x[-1])
    fitted = Growth("power", 0.0, math.exp(factor), power, *ends, len(x), error)
    is_whole = abs(power - round(power)) <= _WHOLE and round(power) not in (0, 1)
    return fitted if error <= _POWER and is_whole else None


def _error(fitted: Any, y: Any) -> float:
    return float(np.max(np.abs(fitted / y - 1)))


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


@dataclass(frozen=True, slots=True)
class Fit:
    """Which of a series fit the limit.

    Attributes:
        series: The series.
        largest: The largest that fits, with its row; None where none does.
        next: The smallest above it, which does not fit; None where all fit.
    """

    series: Series
    largest: tuple[float, SweepRow] | None
    next: tuple[float, SweepRow] | None


def fit(of: Series) -> Fit | None:
    """Returns where a series reaches the limit; None where it does so twice, or is unknown."""
    known = [(n, r) for n, r in zip(of.numbers, of.rows, strict=True) if r.fits is not None]
    if not known:
        return None
    fits = [bool(row.fits) for _, row in known]
    if any(after and not before for before, after in pairwise(fits)):
        return None
    count = sum(fits)
    low, high = known[count - 1] if count else None, known[count] if count < len(known) else None
    return Fit(of, low, high)


def figure(name: str) -> Callable[[SweepRow], Any]:
    """Returns the function that reads a figure of a row."""
    return lambda row: getattr(row.figures, name)
