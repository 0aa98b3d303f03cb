"""The equation that produced a NaN or an infinity, and the runs that try what avoids it."""

from dataclasses import dataclass

from jaxlens.ir.graph import Span
from jaxlens.program.sentences import THAT_LINE, Quoter, located
from jaxlens.questions.nan.reasons import LITERAL, Reason
from jaxlens.questions.nan.records import EquationValues
from jaxlens.taps.primitives import Path


@dataclass(frozen=True, slots=True)
class LoopIteration:
    """An iteration of a loop.

    Attributes:
        line: The user's line of the loop; None if unknown.
        number: The iteration, from 0, in the order of execution.
        element: Of a `scan` that runs in reverse, the index of what the iteration reads; None of
            other loops.
    """

    line: Span | None
    number: int
    element: int | None


@dataclass(frozen=True, slots=True)
class Maker:
    """An equation that produced a NaN (infinity) although no operand had a NaN (infinity).

    For a literal it is the equation that reads it, or the call whose body returns it.

    Attributes:
        path: The equation, within its calls.
        opcode: Its primitive.
        span: The user's line, with columns; None if unknown.
        loops: The iterations of the loops around it, the outermost first.
        device: Index of the device in the mesh of its `shard_map`; None outside of one.
        in_gradient: Whether it is part of a gradient: the line is that of the forward pass.
        values: What it read and made at that time.
        reason: Why.
        type: The type of its result.
        underflow: The equation that made the 0 at fault of operands without zeros, and its line;
            None if it is no such 0.
    """

    path: Path
    opcode: str
    span: Span | None
    loops: tuple[LoopIteration, ...]
    device: int | None
    in_gradient: bool
    values: EquationValues
    reason: Reason
    type: str
    underflow: tuple[str, Span | None] | None = None

    @property
    def id(self) -> str:
        """The equation's id in the jaxpr."""
        return self.path[-1]

    @property
    def index(self) -> tuple[int, ...] | None:
        """The index of the first such element of its result: the example of a batch."""
        return next((v.first for v in self.values.results if v is not None and v.first), None)

    def sentence(self, subject: str, quote: Quoter, before: Span | None = None) -> str:
        """Returns a clause that says what made it, where, and why.

        Args:
            subject: "the first NaN".
            quote: Quotes lines.
            before: The line that the sentence has named already.
        """
        at = located(self.span, quote, before)
        if self.reason in LITERAL.values():
            return f"{subject} is written in {'' if at == THAT_LINE else 'the program: '}{at}"
        which = "the gradient of " if self.in_gradient else ""
        text = f"{subject} is made by `{self.opcode}` in {which}{at}: {self.reason.text}"
        if self.underflow is not None:
            opcode, span = self.underflow
            text += f"; the 0 is an underflow of `{opcode}` in {located(span, quote, self.span)}"
        return text


@dataclass(frozen=True, slots=True)
class CureTrial:
    """Runs with equations guarded: changed as a cure would change what they read or make.

    Attributes:
        guarded: The equations; each was the first to make it with those before it guarded.
        guards: How they were guarded, in words.
        cured: Whether the results have no NaN then, or no infinity, if that was to be cured.
        infinity_remains: Whether no result has a NaN then, but one has an infinity.
        largest_change: Of an element of a result that is finite without guards; None if a NaN
            remains, where nothing is compared.
    """

    guarded: tuple[Path, ...]
    guards: str
    cured: bool
    infinity_remains: bool
    largest_change: float | None
