"""What one run had of NaN and infinities, by equation."""

from collections.abc import Mapping
from dataclasses import dataclass

Path = tuple[str, ...]
"""An equation within a run: the ids of the equations whose bodies lead to it, and its own id."""


@dataclass(frozen=True, slots=True)
class NonFiniteExecution:
    """The first execution of an equation that had NaN, or infinities, in its results.

    Attributes:
        elements: Number of such elements.
        nan_operands: Indices of the operands with a NaN; of a `select_n` the cases that gave the
            result one.
        inf_operands: Those with an infinity, likewise.
        iterations: Iterations of the loops around it, from 0, the outermost first.
        device: Index of the device in the mesh of its `shard_map`; None outside of one.
    """

    elements: int
    nan_operands: tuple[int, ...]
    inf_operands: tuple[int, ...]
    iterations: tuple[int, ...] = ()
    device: int | None = None


@dataclass(frozen=True, slots=True)
class NonFiniteRun:
    """The NaN and infinities of one run.

    Attributes:
        nan: The first execution with NaN, of each equation that had one.
        inf: The first execution with infinities, likewise.
        nan_inputs: Indices of the program's inputs with a NaN.
        inf_inputs: Those with an infinity.
        nan_results: Indices of the program's results with a NaN.
        inf_results: Those with an infinity.
    """

    nan: Mapping[Path, NonFiniteExecution]
    inf: Mapping[Path, NonFiniteExecution]
    nan_inputs: tuple[int, ...] = ()
    inf_inputs: tuple[int, ...] = ()
    nan_results: tuple[int, ...] = ()
    inf_results: tuple[int, ...] = ()


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
    """What the operands and results of an equation held in one execution; None for no floats."""

    operands: tuple[ValueRange | None, ...]
    results: tuple[ValueRange | None, ...]
