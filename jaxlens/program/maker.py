"""What made a NaN or an infinity, why, and what avoids it."""

from dataclasses import dataclass

from jaxlens.ir.graph import Span
from jaxlens.program.reasons import LITERAL, Reason
from jaxlens.program.sentences import Quoter, bracketed
from jaxlens.taps.executions import EquationValues, Path

_NAMED = "that line"


@dataclass(frozen=True, slots=True)
class Maker:
    """An equation that made a NaN or an infinity of operands without.

    Attributes:
        path: The equation, within its calls.
        opcode: Its primitive.
        span: The user's line, with columns; None if unknown.
        loops: The lines of the loops around it, the outermost first.
        iterations: Iterations of these loops, from 0, in the order of execution.
        elements: Of a `scan` that runs in reverse, the index of what that iteration reads; None of
            other loops.
        device: Index of the device in the mesh of its `shard_map`; None outside of one.
        backward: Whether it is part of a gradient: the line is that of the forward pass.
        values: What it read and made at that time.
        reason: Why.
        type: The type of its result.
        underflow: The equation that made the 0 at fault of operands without zeros, and its line;
            None if it is no such 0.
    """

    path: Path
    opcode: str
    span: Span | None
    loops: tuple[Span | None, ...]
    iterations: tuple[int, ...]
    elements: tuple[int | None, ...]
    device: int | None
    backward: bool
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
        if self.reason is LITERAL:
            named = at == _NAMED
            return (
                f"{subject} is written in {at}"
                if named
                else f"{subject} is written in the program: {at}"
            )
        which = "the gradient of " if self.backward else ""
        text = f"{subject} is made by `{self.opcode}` in {which}{at}: {self.reason.text}"
        if self.underflow is not None:
            opcode, span = self.underflow
            text += f"; the 0 is an underflow of `{opcode}` in {located(span, quote, self.span)}"
        return text


def located(span: Span | None, quote: Quoter, before: Span | None = None) -> str:
    """Returns "cell 3:5 (TEXT)", or "that line" if it was named before."""
    if span is not None and before is not None and str(span) == str(before):
        return _NAMED
    return f"{place(span)}{bracketed(span, quote(span))}"


def place(span: Span | None) -> str:
    """Returns "cell 3:5"."""
    return str(span) if span is not None else "an unknown line"


@dataclass(frozen=True, slots=True)
class CureTrial:
    """Runs with equations changed as a cure would change what they read or make.

    Attributes:
        paths: The equations; each was the first to make it with those before it changed.
        changes: What was changed, in words.
        cured: Whether the results have no NaN then, or no infinity, if that was to be cured.
        infinite: Whether a result has an infinity then.
        change: The largest change of an element of a result that is finite as it is.
    """

    paths: tuple[Path, ...]
    changes: str
    cured: bool
    infinite: bool
    change: float
