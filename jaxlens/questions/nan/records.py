"""What the runs measured: which equations had NaN and infinities, and the values of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from jaxlens.taps.primitives import Path


@dataclass(frozen=True, slots=True)
class NonFiniteExecution:
    """The first execution of an equation that had NaN, or infinities, in its results.

    Attributes:
        iterations: Iterations of the loops around it, from 0, the outermost first.
        device: Index of the device in the mesh of its `shard_map`; None outside of one.
        chosen: Indices of the operands that gave the result of a `select_n` such elements; None for
            other equations.
    """

    iterations: tuple[int, ...] = ()
    device: int | None = None
    chosen: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NonFiniteElements:
    """Where one run had NaN, or where it had infinities.

    Equations that only move elements, and those with a body that was measured, are left out.

    Attributes:
        name: Which of both, as a jaxpr writes such a number.
        executions: The first execution with such elements, of each equation that had one.
        inputs: Indices of the program's inputs with such elements.
        results: Indices of the program's results with such elements; after them count its constants
            and inputs that are refs, with what they hold at the end.
    """

    name: Literal["nan", "inf"]
    executions: Mapping[Path, NonFiniteExecution]
    inputs: frozenset[int] = frozenset()
    results: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NonFiniteRun:
    """The NaN and the infinities of one run."""

    nan: NonFiniteElements
    inf: NonFiniteElements

    def of_results(self) -> NonFiniteElements:
        """Returns the NaN if a result has one, else the infinities."""
        return self.nan if self.nan.results else self.inf


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What one value held in one execution.

    Attributes:
        least: The smallest element that is no NaN; NaN if there is none.
        most: The largest, likewise.
        elements: Number of elements.
        zeros: Number of zeros.
        nan: Number of NaN.
        inf: Number of infinities.
        first: The index of the first NaN, else of the first infinity; None if all are finite.
    """

    least: float
    most: float
    elements: int
    zeros: int
    nan: int
    inf: int
    first: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class EquationValues:
    """What the operands and results of an equation held in one execution.

    A value that has no floats is None. Both are empty where nothing was measured.
    """

    operands: tuple[ValueRange | None, ...] = ()
    results: tuple[ValueRange | None, ...] = ()
