"""What is known of a compiled program that may be wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxlens.ir.graph import Span
from jaxlens.program.subject import ProgramFacts
from jaxlens.taps.primitives import Path


@dataclass(frozen=True, slots=True)
class CheckedResult:
    """A result as compiled, against the same op by op and in float64.

    Attributes:
        index: The index of the result.
        dtype: Its element type.
        shape: Its shape.
        unequal: Number of elements that differ from op by op.
        wrong: Number of those that rounding does not explain.
        nan: Number of those that are NaN.
        error: The largest error as compiled against float64, in ulps; None for other types than
            floats, and where all elements are equal.
        own: The same op by op.
        allowed: The largest error that rounding explains.
    """

    index: int
    dtype: str
    shape: tuple[int, ...]
    unequal: int
    wrong: int = 0
    nan: int = 0
    error: float | None = None
    own: float | None = None
    allowed: float | None = None


@dataclass(frozen=True, slots=True)
class ReducedProgram:
    """A part of the program that is compiled wrongly when it is compiled by itself.

    Attributes:
        equations: The equations of the program that it has, in order.
        opcodes: Their primitives.
        types: The types of its inputs.
        results: Its results.
        compiles: How many programs were compiled to find it.
        complete: Whether no smaller part was left to try; else the budget was spent.
    """

    equations: tuple[Path, ...]
    opcodes: tuple[str, ...]
    types: tuple[str, ...]
    results: tuple[CheckedResult, ...]
    compiles: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Disagreement(ProgramFacts):
    """Whether a compiled program is wrong, and why.

    Attributes:
        results: The program's results.
        reduced: A small part that is wrong; None where nothing is, or none was found.
        why: Why there is none; "" where there is, or nothing is wrong.
        trials: Whether the small part is right without a pass or with a flag, by its name; "" is
            the part as it is, None what XLA does not compile.
        fusions: What XLA made of its equations: fusions and instructions.
        spans: The user's line of each equation, by id.
        code: A file that compiles and runs the part, and says whether it is wrong.
        issue: Text to report it with.
        written: The file that was written; "" for none.
    """

    results: tuple[CheckedResult, ...]
    reduced: ReducedProgram | None = None
    why: str = ""
    trials: Mapping[str, bool | None] = field(default_factory=dict)
    fusions: tuple[str, ...] = ()
    spans: Mapping[Path, Span | None] = field(default_factory=dict)
    code: str = field(default="", repr=False)
    issue: str = field(default="", repr=False)
    written: str = ""

    @property
    def found(self) -> bool:
        """Whether a result is wrong."""
        return any(result.wrong for result in self.results)

    @property
    def span(self) -> Span | None:
        """The line of the last equation of the small part; None if unknown."""
        return self.spans.get(self.reduced.equations[-1]) if self.reduced else None

    @property
    def cures(self) -> tuple[str, ...]:
        """The passes without which the small part is right, and the flags with which it is."""
        if self.trials.get("", True):  # it was right as it is, in the process that tried
            return ()
        return tuple(name for name, right in self.trials.items() if right)
