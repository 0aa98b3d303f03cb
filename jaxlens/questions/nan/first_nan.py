"""The answer to where the first NaN or infinity of a program's results comes from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlens.ir.graph import Span
from jaxlens.program.sentences import listed, located, quoter
from jaxlens.program.subject import ProgramFacts
from jaxlens.questions.nan.maker import CureTrial, Maker
from jaxlens.questions.nan.records import NonFiniteRun
from jaxlens.taps.primitives import Path

NAMES = {"nan": "NaN", "inf": "infinity"}


@dataclass(frozen=True, slots=True)
class FirstNan(ProgramFacts):
    """Where the NaN or infinity of a program's results comes from.

    The first is the earliest equation of the forward pass whose NaN reaches a result; else the
    earliest equation of a gradient. What a gradient made says less than what the forward pass made,
    and may stand before it.

    Attributes:
        kind: "nan", "inf", or "" if all results are finite.
        run: Which equations had NaN and infinities.
        way: Equations from the maker to the results that passed it on, in the order of execution.
        others: Ids of equations that made NaN in a value that no result got, in program order,
            without `unseen`.
        arguments: Names of the arguments that have NaN or infinities and reach a result.
        maker: The equation that made it; None if an argument has it, or if there is none.
        makers: All equations that made what reached a result, in the order of execution, those of
            gradients last; the first is that of `maker`.
        inputs: Names of the arguments that the maker's operands are computed from.
        infinity_maker: The equation that made the infinity of which the maker made a NaN; None for
            none.
        infinity_arguments: Names of the arguments that have the infinity of which the maker made a
            NaN.
        trial: What the cure changes; None if it was not tried.
        gradient: The line whose gradient first had what an argument has, where the results have it
            by a gradient alone; None if they do not.
        unseen: The first equation in program order that made a NaN, where no result has a NaN or an
            infinity; None for none.
    """

    kind: Literal["nan", "inf", ""]
    run: NonFiniteRun
    way: tuple[Path, ...]
    others: tuple[str, ...]
    arguments: tuple[str, ...]
    maker: Maker | None = None
    makers: tuple[Path, ...] = ()
    inputs: tuple[str, ...] = ()
    infinity_maker: Maker | None = None
    infinity_arguments: tuple[str, ...] = ()
    trial: CureTrial | None = None
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
        return self.maker.loops[-1].number if self.maker and self.maker.loops else None

    @property
    def cure(self) -> str:
        """What avoids it; "" where nothing general is known."""
        cures = (made.reason.cure for made in (self.maker, self.infinity_maker) if made)
        return next(filter(None, cures), "")

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        if not self.kind:
            return "No NaN and no infinity in the results."
        what = NAMES[self.kind]
        quote = quoter(self.subject())
        if self.arguments:
            text = _contained(self.arguments, "NaN" if self.kind == "nan" else "an infinity")
            if self.gradient is not None:
                text += f"; the gradient of {located(self.gradient, quote)} reads it"
            return f"{text[0].upper()}{text[1:]}."
        maker, infinity = self.maker, self.infinity_maker
        if maker is None and not self.way:
            return f"The {what} is written in the program, as one of its results."
        if maker is None:
            return (
                f"A result has {what}, and the equation that made it is unknown: it is in a body "
                "that is measured as a whole."
            )
        text = maker.sentence(f"The first {what}", quote)
        if infinity is not None:
            text += f"; {infinity.sentence('the infinity in it', quote, maker.span)}"
        elif self.infinity_arguments:
            text += f"; {_contained(self.infinity_arguments, 'the infinity in it')}"
        return f"{text}."


def _contained(arguments: Sequence[str], what: str) -> str:
    verb = "arguments {} already contain {}" if arguments[1:] else "argument {} already contains {}"
    return verb.format(listed(arguments), what)
