"""What the values of one run held, by equation."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.taps.primitives import Path


@dataclass(frozen=True, slots=True)
class ValueStatistics:
    """What a float result of an equation held, over all its executions.

    Of complex numbers it is their magnitude.

    Attributes:
        result: The index of the result.
        dtype: Its element type.
        exponents: Those of the smallest normal number and of the largest number of the type, to
            base 2.
        limit: The largest finite number of the type.
        executions: Number of executions; several devices of a `shard_map` each count.
        elements: Number of elements in all executions.
        least: The smallest element that is no NaN; NaN if there is none.
        most: The largest, likewise.
        smallest: The smallest magnitude that is not 0; NaN if there is none.
        largest: The largest finite magnitude; NaN if there is none.
        zeros: Number of zeros.
        nan: Number of NaN.
        inf: Number of infinities.
        subnormals: Number of elements below the smallest normal number of the type.
        iterations: Where it was worst: the first execution with a NaN or an infinity, else the
            first with the largest magnitude. Iterations of the loops around it, outermost first.
    """

    result: int
    dtype: str
    exponents: tuple[int, int]
    limit: float
    executions: int
    elements: int
    least: float
    most: float
    smallest: float
    largest: float
    zeros: int
    nan: int
    inf: int
    subnormals: int
    iterations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IntegerStatistics:
    """What a result of integers or booleans held, over all executions of its equation.

    Attributes:
        result: The index of the result.
        dtype: Its element type.
        executions: Number of executions; several devices of a `shard_map` each count.
        elements: Number of elements in all executions.
        least: The smallest element; of booleans 0 or 1.
        most: The largest, likewise.
        zeros: Number of elements that are 0 or False.
    """

    result: int
    dtype: str
    executions: int
    elements: int
    least: int
    most: int
    zeros: int


@dataclass(frozen=True, slots=True)
class ValuesRun:
    """The values of one run.

    Attributes:
        equations: By equation, its float results. Equations that only move elements, calls and
            loops are left out.
        integers: By equation, its results of integers and booleans, likewise.
        unmeasured: Equations that were not executed.
        finite: Whether the program's results are finite.
        operand_zeros: By equation, the largest share of zeros of a float that it was computed from;
            None if it is unknown. Equations on literals alone are left out.
    """

    equations: Mapping[Path, tuple[ValueStatistics, ...]]
    integers: Mapping[Path, tuple[IntegerStatistics, ...]]
    unmeasured: tuple[Path, ...]
    finite: bool
    operand_zeros: Mapping[Path, float | None]
