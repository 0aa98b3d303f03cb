"""The first NaN or infinity of a program's results: where it comes from, and that in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlens.ir.graph import Span
from jaxlens.program.maker import CureTrial, Maker, located
from jaxlens.program.sentences import listed, quoter
from jaxlens.program.subject import ProgramFacts
from jaxlens.taps.executions import NonFiniteRun, Path

Kind = Literal["nan", "inf", ""]
NAMES = {"nan": "NaN", "inf": "infinity"}


@dataclass(frozen=True, slots=True)
class FirstNan(ProgramFacts):
    """Where the NaN or infinity of a program's results comes from.

    Attributes:
        kind: "nan", "inf", or "" if all results are finite.
        maker: The equation that made it; None if an argument has it, or if there is none.
        infinity: The equation that made the infinity which that NaN was made of; None for none.
        arguments: Names of the arguments that have NaN or infinities and reach a result.
        inputs: Names of the arguments that the maker's operands are computed from.
        way: Equations from the maker to the results that passed it on, in the order of execution.
        others: Ids of equations that made NaN in a value that no result got, in program order.
        run: Which equations had NaN and infinities.
        makers: All equations that made what reached a result, in the order of execution, those of
            derivatives last.
        trial: What the cure changes; None if it was not tried.
        infinite: Names of the arguments that have the infinity which that NaN was made of.
        gradient: The line whose gradient first had what an argument has, where the results have it
            by a gradient alone; None if they do not.
        unseen: The equation that first made a NaN, where no result has one; None for none.
    """

    kind: Kind
    maker: Maker | None
    infinity: Maker | None
    arguments: tuple[str, ...]
    inputs: tuple[str, ...]
    way: tuple[Path, ...]
    others: tuple[str, ...]
    run: NonFiniteRun
    makers: tuple[Path, ...] = ()
    trial: CureTrial | None = None
    infinite: tuple[str, ...] = ()
    gradient: Span | None = None
    unseen: Maker | None = None

    @property
    def found(self) -> bool:
        """Whether a result has a NaN or an infinity."""
        return bool(self.kind)

    @property
    def opcode(self) -> str:
        """The primitive that made it; "" for none."""
        return self.maker.opcode if self.maker else ""

    @property
    def span(self) -> Span | None:
        """The line and columns at which it was made; None for none."""
        return self.maker.span if self.maker else None

    @property
    def iteration(self) -> int | None:
        """The iteration of the innermost loop around it, from 0; None outside of a loop."""
        return self.maker.iterations[-1] if self.maker and self.maker.iterations else None

    @property
    def cure(self) -> str:
        """What avoids it; "" where nothing general is known."""
        cures = (made.reason.cure for made in (self.maker, self.infinity) if made)
        return next(filter(None, cures), "")

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        if not self.kind:
            return "No NaN and no infinity in the results."
        what = NAMES[self.kind]
        quote = quoter(self.subject())
        if self.arguments:
            text = f"The {what} comes in: {_have(self.arguments)}"
            if self.gradient is not None:
                text += f"; the gradient of {located(self.gradient, quote)} reads it"
            return f"{text}."
        maker, infinity = self.maker, self.infinity
        if maker is None:
            return (
                f"A result has {what}, and the equation that made it is unknown: it is in a body "
                "that is measured as a whole."
            )
        text = maker.sentence(f"The first {what}", quote)
        if infinity is not None:
            text += f"; {infinity.sentence('the infinity in it', quote, maker.span)}"
        elif self.infinite:
            text += f"; the infinity in it comes in: {_have(self.infinite)}"
        return f"{text}."


def _have(arguments: Sequence[str]) -> str:
    return f"{listed(arguments)} {'have' if len(arguments) > 1 else 'has'} it already"
