"""What one run lost to rounding, by equation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.taps.primitives import Path

# Float8 and narrower are not measured: their ulps are so large that a count of digits says no more
# than the values do. Float64 is what the others are measured against.
BITS = {"float32": 24, "complex64": 24, "bfloat16": 8, "float16": 11}
"""Bits of precision of the element types whose errors are measured, the leading one included."""


@dataclass(frozen=True, slots=True)
class RoundingExecution:
    """The error of one execution of an equation.

    Errors are those of the worst element, in ulps: units in the last place of the exact value in
    the result's element type. In an array, an element counts as no smaller than the root mean
    square of all, so that one that is near 0 by chance does not speak for the array.

    Attributes:
        path: The equation.
        iterations: The indices of the loops around it, outermost first.
        dtype: The element type of the result.
        own: Its own error: its result against the same operation in float64 on the same operands.
        total: Its result against the program in float64.
        operands: The executions that made its operands, by index; -1 for inputs and constants, and
            for values that are not floats.
        value: The worst element.
        exact: That element in the program in float64.
        read: The elements of the operands there; None where an operand has another shape.
        read_exact: These elements in the program in float64.
    """

    path: Path
    iterations: tuple[int, ...]
    dtype: str
    own: float
    total: float
    operands: tuple[int, ...]
    value: float
    exact: float
    read: tuple[float | None, ...]
    read_exact: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class DotRounding:
    """A matrix product or convolution, as the device rounds its operands by default.

    Errors are own errors, in ulps of the result, of the first execution.

    Attributes:
        precision: As the program has it; "DEFAULT" for none.
        here: The error on this device.
        highest: The error on this device with `precision=HIGHEST`; None if it is not available, or
            if the product is too large to be computed again.
    """

    precision: str
    here: float
    highest: float | None


@dataclass(frozen=True, slots=True)
class ResultRounding:
    """The error of one of the program's results, of the worst element, in ulps.

    Attributes:
        index: The index of the result.
        maker: The execution that made it, by index; -1 for an input or a constant.
        dtype: Its element type.
        total: Op by op, against the program in float64.
        compiled: As compiled, against the program in float64.
    """

    index: int
    maker: int
    dtype: str
    total: float
    compiled: float

    @property
    def largest(self) -> float:
        """The larger of both errors."""
        return max(self.total, self.compiled)


@dataclass(frozen=True, slots=True)
class ResultDifference:
    """How a result as compiled differs from that op by op, compared in its own type.

    Attributes:
        index: The index of the result.
        dtype: Its element type.
        elements: Number of its elements.
        unequal: Number of those of which a bit differs; NaN are equal.
        ulps: The largest difference of a float, counted in numbers of its type from one value to
            the other; infinite where only one of the two is finite; None for other types.
        apart: The largest absolute difference, in the unit of the values; 0 for other types.
        largest: The largest absolute element, op by op; 0 for other types.
    """

    index: int
    dtype: str
    elements: int
    unequal: int
    ulps: float | None
    apart: float = 0.0
    largest: float = 0.0

    @property
    def size(self) -> float:
        """The difference in ulps; infinite for one of integers, booleans or keys."""
        return math.inf if self.ulps is None and self.unequal else self.ulps or 0.0


@dataclass(frozen=True, slots=True)
class NumericsRun:
    """What one run lost to rounding.

    Attributes:
        executions: Of equations with float results, in the order of execution.
        results: The program's results of the types in `BITS`.
        dots: Matrix products and convolutions, by equation.
        unknown: Equations that cannot be evaluated in float64; their results count as exact.
        differs: The first equation at which the compiled program differs from op by op; None if
            there is none, or if it is unknown.
        differences: How each of the program's results differs, as compiled, from op by op.
        strict: The same with `xla_allow_excess_precision=false`; () if it was not tried.
    """

    executions: tuple[RoundingExecution, ...]
    results: tuple[ResultRounding, ...]
    dots: Mapping[Path, DotRounding]
    unknown: tuple[Path, ...]
    differs: Path | None = None
    differences: tuple[ResultDifference, ...] = ()
    strict: tuple[ResultDifference, ...] = ()


def convert_ulps(ulps: float, dtype: str, to: str) -> float:
    """Converts an error in ulps of one element type to ulps of another."""
    return ulps * 2.0 ** (BITS[to] - BITS[dtype])


def digits_lost(ulps: float, dtype: str) -> float:
    """Returns the decimal digits that an error takes, at most those of the element type."""
    digits = BITS[dtype] * math.log10(2)
    return min(math.log10(ulps), digits) if ulps > 1 else 0.0
