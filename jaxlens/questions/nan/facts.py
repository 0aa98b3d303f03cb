"""Finds the equation that made the first NaN or infinity of a result (`FirstNan` has the rule)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jaxlens.captures import Capture
from jaxlens.ir.graph import Span, Value
from jaxlens.program.lines import owners
from jaxlens.program.sentences import listed, located, quoter
from jaxlens.program.subject import ProgramFacts
from jaxlens.questions.nan.maker import CureTrial, Maker
from jaxlens.questions.nan.records import NonFiniteRun
from jaxlens.questions.nan.walk import Walker
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


def facts(capture: Capture) -> FirstNan:
    """Runs a program with measurements, and follows what is not finite back to its origin.

    Raises:
        UnavailableError: It cannot be run here.
    """
    module = capture.jaxpr.module
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.nan.measure.diagnose import Diagnosis
    from jaxlens.questions.nan.measure.nonfinite import measure_nonfinite

    run = measure_nonfinite(live)
    walker = Walker(module)
    diagnosis = Diagnosis(live, walker, owners(module), run)
    names = _input_names(capture, module.body().parameters)

    def named(indices: Iterable[int]) -> tuple[str, ...]:
        return tuple(names[n] for n in sorted(indices))

    nonfinite = run.of_results()
    kind = nonfinite.name if nonfinite.results else ""
    origins = walker.trace_origins(nonfinite, walker.results(nonfinite))
    arguments = named(nonfinite.inputs & origins.inputs)
    nan_makers = diagnosis.nan_makers()
    unseen = nan_makers[0] if nan_makers and not kind else ()
    told = {path[-1] for path in (*origins.makers, unseen) if path}
    others = tuple(path[-1] for path in nan_makers if path[-1] not in told)
    answer = FirstNan(kind, run, origins.way, others, arguments, _subject=capture)
    if arguments or not origins.makers:
        return replace(
            answer,
            gradient=diagnosis.first_gradient_line(origins.way),
            unseen=diagnosis.maker(unseen, run.nan) if unseen else None,
        )
    makers = tuple(sorted(origins.makers, key=diagnosis.in_gradient))  # stable: by execution
    path = makers[0]
    maker, infinity_maker = diagnosis.maker(path, nonfinite, origins.way), None
    if kind == "nan":
        infinity_maker, inputs = diagnosis.find_infinity_source(path, origins.way)
        answer = replace(answer, infinity_maker=infinity_maker, infinity_arguments=named(inputs))
    treated = maker if maker.reason.cure or infinity_maker is None else infinity_maker
    trial = None
    if treated.reason.cure and treated.reason.can_be_tried:
        trial = diagnosis.trial(makers, kind, guard_infinity_source=treated is infinity_maker)
    read = walker.operands(path) if path in nonfinite.executions else []
    inputs = walker.inputs_of(read)
    return replace(answer, maker=maker, inputs=named(inputs), makers=makers, trial=trial)


def _input_names(capture: Capture, parameters: Sequence[Value]) -> list[str]:
    names = [leaf.name for leaf in capture.program.inputs]
    types = [value.type for value in parameters[: len(parameters) - len(names)]]
    captured = [f"{constant.name} (captured)" for constant in capture.constants]
    if [constant.type for constant in capture.constants] != types:  # bodies hold some of them
        captured = [f"constant {n}" for n in range(len(types))]
    return captured + names
