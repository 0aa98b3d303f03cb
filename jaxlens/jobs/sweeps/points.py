"""The points of a sweep, what was measured at each, and all that is known of a sweep."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from jaxlens.errors import missing_package
from jaxlens.program.published_limits import Capacity


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """One axis of the grid.

    Attributes:
        name: What varies: an argument, several ("x, y"), "target" or "flags".
        labels: Each value in words.
        numbers: What changes along it as numbers; () where it is no one number.
        quantity: What these numbers are: "x.shape[0]", or the argument itself; "" without them.
        values: The values.
    """

    name: str
    labels: tuple[str, ...]
    numbers: tuple[float, ...] = ()
    quantity: str = ""
    values: tuple[Any, ...] = ()

    def value(self, n: int) -> float | str:
        """Returns value number n as a number, or in words where it has none."""
        return self.numbers[n] if self.numbers else self.labels[n]


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
    """

    compile: float | None = None
    peak: int | None = None
    reserved: int | None = None
    flops: int | None = None
    bytes: int | None = None
    kernels: int | None = None


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


@dataclass(frozen=True, slots=True)
class SweepFacts:
    """All points of a sweep.

    Attributes:
        name: The function.
        axes: The axes of the grid.
        rows: One row a point, in the order of the grid, the last axis fastest.
        capacity: The limit, or None.
        trouble: Why points could not be written to the file; "" where they could.
        elsewhere: What points were compiled for, where that is not the device of the limit.
        traced: Axes of numbers that the function only traces: no value of theirs is in a program.
        open: Loops whose trips tracing does not tell, by line: no flops are known of these points.
    """

    name: str
    axes: tuple[SweepAxis, ...]
    rows: tuple[SweepRow, ...]
    capacity: Capacity | None = None
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

    def pandas(self) -> Any:
        """Returns the points as a `pandas.DataFrame`: axes, figures, "fits" and "error".

        Raises:
            PackageError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise missing_package("sweep.pandas", error) from None
        rows = [
            {
                **{axis.name: axis.value(row.place[n]) for n, axis in enumerate(self.axes)},
                **asdict(row.figures),
                "fits": row.fits,
                "error": row.error,
            }
            for row in self.rows
        ]
        return pd.DataFrame(rows)
