"""The points of a sweep, and what was measured at each."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """One axis of the grid.

    Attributes:
        name: What varies: an argument, several ("x, y"), "target", "flags" or "policy".
        labels: Each value in words, all different.
        numbers: What changes along it as numbers; () where it is no one number. NaN for a value
            with which nothing was compiled, such as an array of another shape.
        quantity: What these numbers are: "x.shape[0]", or the argument itself; "" without them.
    """

    name: str
    labels: tuple[str, ...]
    numbers: tuple[float, ...] = ()
    quantity: str = ""

    def value(self, n: int) -> float | str:
        """Returns value number n as a number, or in words where it has none."""
        is_number = self.numbers and not math.isnan(self.numbers[n])
        return self.numbers[n] if is_number else self.labels[n]


@dataclass(frozen=True, slots=True)
class SweepFigures:
    """What was measured of one program; None for what was not asked for, or is not known.

    Attributes:
        compile: Seconds that XLA took.
        peak: Bytes in use at most on one device, by XLA's order of instructions.
        reserved: Bytes that the program takes from start to end.
        flops: Arithmetic operations counted over the equations, loops by their trips.
        bytes: Bytes that kernels read from and write to main memory, loops by their trips.
        kernels: Number of kernels that XLA generated.
        run: Median seconds of one run.
    """

    compile: float | None = None
    peak: int | None = None
    reserved: int | None = None
    flops: int | None = None
    bytes: int | None = None
    kernels: int | None = None
    run: float | None = None


FIGURES = tuple(field.name for field in fields(SweepFigures))


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One point of the grid.

    Attributes:
        point: Its value on each axis, in words, by the axis's name.
        place: Its index on each axis.
        figures: What was measured.
        error: Why it failed, in one line; "" where it did not.
        fits: Whether its memory is within the limit; None without a limit, or where unknown.
        kept: Whether the figures are from the file that an earlier sweep wrote.
        here: Why it was compiled in this process, one after another; "" where it was not.
    """

    point: Mapping[str, str]
    place: tuple[int, ...]
    figures: SweepFigures = SweepFigures()
    error: str = ""
    fits: bool | None = None
    kept: bool = False
    here: str = ""

    @property
    def takes(self) -> int | None:
        """Bytes that a device must have: those reserved, else those at the peak."""
        known = self.figures.reserved
        return self.figures.peak if known is None else known
