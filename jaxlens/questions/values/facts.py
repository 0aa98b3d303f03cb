"""What the values of a run held, by equation."""

import math
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.graph import Span
from jaxlens.links.name_stack import EquationModules
from jaxlens.program.lines import owners, span_of
from jaxlens.program.subject import ProgramFacts
from jaxlens.questions.values.statistics import IntegerStatistics, ValueStatistics
from jaxlens.taps.primitives import Path

MOSTLY = 0.9
"""Share of zeros that is worth a sentence."""


@dataclass(frozen=True, slots=True)
class MeasuredResult:
    """A result of an equation.

    Attributes:
        path: The equation, within its calls.
        opcode: Its primitive.
        span: The user's line; None if unknown.
        type: The result's type: "f32[8,4]".
        statistics: What it held.
    """

    path: Path
    opcode: str
    span: Span | None
    type: str
    statistics: ValueStatistics | IntegerStatistics

    @property
    def id(self) -> str:
        """The equation's id in the jaxpr."""
        return self.path[-1]

    @property
    def zeros(self) -> float:
        """The share of its elements that are zero, or False."""
        return self.statistics.zeros / self.statistics.elements


@dataclass(frozen=True, slots=True)
class MeasuredInteger(MeasuredResult):
    """A result of integers or booleans."""

    statistics: IntegerStatistics


@dataclass(frozen=True, slots=True)
class MeasuredValue(MeasuredResult):
    """A float result of an equation.

    Attributes:
        module: The module that it belongs to, that which this is in first; () for none.
        backward: Whether a derivative's transpose made it.
        operand_zeros: The largest share of zeros of a float that it was computed from; None if it
            is unknown.
    """

    statistics: ValueStatistics
    module: tuple[str, ...] = ()
    backward: bool = False
    operand_zeros: float | None = None

    @property
    def nonfinite(self) -> int:
        """Number of NaN and infinities."""
        return self.statistics.nan + self.statistics.inf

    @property
    def exponents(self) -> tuple[int, int] | None:
        """The exponents, to base 2, of its smallest and largest magnitude; None for none."""
        if math.isnan(self.statistics.largest) or math.isnan(self.statistics.smallest):
            return None
        if not self.statistics.largest or math.isinf(self.statistics.smallest):
            return None
        ends = self.statistics.smallest, self.statistics.largest
        return math.frexp(ends[0])[1] - 1, math.frexp(ends[1])[1] - 1

    @property
    def headroom(self) -> int | None:
        """How often its largest magnitude can be doubled before it overflows; None for none."""
        own = self.exponents
        return self.statistics.exponents[1] - own[1] if own else None

    @property
    def is_limit(self) -> bool:
        """Whether its largest magnitude is the largest number of its dtype, as in a mask."""
        return self.statistics.largest == self.statistics.limit


@dataclass(frozen=True, slots=True)
class Values(ProgramFacts):
    """What the values of a run held.

    Attributes:
        values: The float results of each equation, in program order; without NaN and infinities
            that are written in the program.
        integers: The results of integers and booleans, in program order.
        unmeasured: Ids of equations that were not executed.
        finite: Whether all results of the program are finite.
    """

    values: tuple[MeasuredValue, ...]
    integers: tuple[MeasuredInteger, ...]
    unmeasured: tuple[str, ...]
    finite: bool

    @property
    def nonfinite(self) -> tuple[MeasuredValue, ...]:
        """Those with NaN or infinities."""
        return tuple(value for value in self.values if value.nonfinite)

    def of(self, ident: str) -> tuple[MeasuredValue, ...]:
        """Returns the float results of the equation with an id, once for each call of its body."""
        return tuple(value for value in self.values if value.id == ident)


def facts(capture: Capture) -> Values:
    """Runs a program once with measurements beside its equations.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    module = capture.jaxpr.module
    nodes = {node.id: node for node in module.nodes()}
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.values.measure import statistics

    run = statistics(live)
    owner = owners(module)
    modules = EquationModules(module)
    order = {ident: n for n, ident in enumerate(nodes)}

    def where(path: Path, result: int) -> tuple[Path, str, Span | None, str]:
        node = nodes[path[-1]]
        return path, node.opcode, span_of(path, owner), str(node.results[result].type)

    def in_order(path: Path) -> list[int]:
        return [order[step] for step in path]

    values = [
        MeasuredValue(
            *where(path, one.result), one, *modules.within(path), run.operand_zeros.get(path)
        )
        for path in sorted(run.equations, key=in_order)
        for one in run.equations[path]
    ]
    integers = [
        MeasuredInteger(*where(path, one.result), one)
        for path in sorted(run.integers, key=in_order)
        for one in run.integers[path]
    ]
    # What a literal holds is told where an equation takes it.
    values = [v for v in values if not v.nonfinite or v.path in run.operand_zeros]
    unmeasured = tuple(path[-1] for path in run.unmeasured)
    return Values(tuple(values), tuple(integers), unmeasured, run.finite, _subject=capture)
