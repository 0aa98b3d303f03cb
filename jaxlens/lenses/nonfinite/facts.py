"""The equation that made the first NaN or infinity of a result, and what it is computed from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlens.captures import Capture
from jaxlens.ir.graph import Span
from jaxlens.ir.run.nonfinite import EquationValues, NonFiniteExecution, NonFiniteRun, Path
from jaxlens.lenses.lines import Owners, owners
from jaxlens.lenses.nonfinite.reasons import LITERAL, Reason, reason
from jaxlens.lenses.nonfinite.walk import LOOPS, NonFiniteKind, Walker
from jaxlens.lenses.sentences import bracketed, listed, quoter
from jaxlens.lenses.subject import ProgramFacts, subject_of

_BACKWARD = "transpose("
_TRIED = 5  # rounds of a trial
_GUARDED = ("mul", "div")  # equations that a trial changes
_STEPS = 60  # equations from a zero operand back to the `where` that it comes from
Kind = Literal["nan", "inf", ""]
NAMES = {"nan": "NaN", "inf": "infinity"}


@dataclass(frozen=True, slots=True)
class Maker:
    """An equation that made a NaN or an infinity of operands without.

    Attributes:
        path: The equation, within its calls.
        opcode: Its primitive.
        span: The user's line, with columns; None if unknown.
        loop: The line of the innermost loop around it; None without one.
        iterations: Iterations of the loops around it, from 0, the outermost first.
        device: Index of the device in the mesh of its `shard_map`; None outside of one.
        backward: Whether it is part of a gradient: the line is that of the forward pass.
        values: What it read and made at that time.
        reason: Why.
        type: The type of its result.
    """

    path: Path
    opcode: str
    span: Span | None
    loop: Span | None
    iterations: tuple[int, ...]
    device: int | None
    backward: bool
    values: EquationValues
    reason: Reason
    type: str

    @property
    def id(self) -> str:
        """The equation's id in the jaxpr."""
        return self.path[-1]

    @property
    def index(self) -> tuple[int, ...] | None:
        """The index of the first such element of its result: the example of a batch."""
        return next((v.first for v in self.values.results if v is not None and v.first), None)


@dataclass(frozen=True, slots=True)
class CureTrial:
    """Runs with 0 as the result of equations where an operand of theirs is 0.

    A second `jnp.where`, which gives the branch that is not taken a safe argument, does the same.

    Attributes:
        paths: The equations; each was the first to make a NaN with those before it changed.
        cured: Whether the results have no NaN then.
        infinite: Whether a result has an infinity then.
        change: The largest change of an element of a result that is finite as it is.
    """

    paths: tuple[Path, ...]
    cured: bool
    infinite: bool
    change: float


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
        makers: All equations that made what reached a result, in the order of execution.
        trial: What the cure changes; None if it was not tried.
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
        if self.arguments:
            plural = "have" if len(self.arguments) > 1 else "has"
            return f"The {what} comes in: {listed(self.arguments)} {plural} it already."
        if self.maker is None:
            return (
                f"A result has {what}, and the equation that made it is unknown: it is in a body "
                "that is measured as a whole."
            )
        maker = self.maker
        quote = quoter(self.subject())(maker.span)
        at = f"{place(maker.span)}{bracketed(maker.span, quote)}"
        if maker.reason is LITERAL:
            return f"The first {what} is written in the program: {at}."
        which = "the gradient of " if maker.backward else ""
        return f"The first {what} is made by `{maker.opcode}` in {which}{at}: {maker.reason.text}."


def place(span: Span | None) -> str:
    """Returns "cell 3:5"."""
    return str(span) if span is not None else "an unknown line"


def facts(capture: Capture) -> FirstNan:
    """Runs a program once with measurements, and follows what is not finite back to its origin.

    Raises:
        UnavailableError: It cannot be run here.
    """
    subject = subject_of(capture, "jaxpr")
    module = subject.jaxpr.module
    driver = capture.driver
    run = driver.nonfinite()
    walker, owner = Walker(module), owners(module)
    names = _inputs(capture, len(module.body().parameters))
    kind: Kind = "nan" if run.nan_results else "inf" if run.inf_results else ""
    nan = kind == "nan"
    had = _kind(run, nan=nan)
    results = run.nan_results if nan else run.inf_results
    origins = walker.back(walker.results(results), had)
    bad_inputs = had.inputs & origins.inputs if kind else frozenset()
    every = _makers_of_nan(run, walker)
    if not kind or bad_inputs or not origins.makers:
        arguments = tuple(names[n] for n in sorted(bad_inputs))
        return FirstNan(kind, None, None, arguments, (), origins.way, every, run, _subject=subject)
    look = _Look(capture, walker, owner, run)
    path = origins.makers[0]
    infinity = look.infinity(path) if nan else None
    maker = look.maker(path, nan=nan)
    inputs = walker.all_inputs(walker.operands(path))
    reached = {maker[-1] for maker in origins.makers}
    others = tuple(ident for ident in every if ident not in reached)
    trial = look.trial(origins.makers) if nan and maker.reason.cure else None
    return FirstNan(
        kind,
        maker,
        infinity,
        (),
        tuple(names[n] for n in sorted(inputs)),
        origins.way,
        others,
        run,
        origins.makers,
        trial,
        _subject=subject,
    )


def _inputs(capture: Capture, parameters: int) -> list[str]:
    names = [leaf.name for leaf in capture.program.inputs]
    return [f"constant {n}" for n in range(parameters - len(names))] + names


def _kind(run: NonFiniteRun, *, nan: bool) -> NonFiniteKind:
    if nan:
        return NonFiniteKind(run.nan, frozenset(run.nan_inputs), "nan")
    return NonFiniteKind(run.inf, frozenset(run.inf_inputs), "inf")


def _makers_of_nan(run: NonFiniteRun, walker: Walker) -> tuple[str, ...]:
    """Returns the equations that made NaN of operands without, in program order."""
    kind = _kind(run, nan=True)
    made = {
        path[-1]
        for path in run.nan
        if not any(walker.has(spot, kind) for spot in walker.before(path, kind))
    }
    return tuple(sorted(made, key=lambda ident: int(ident[1:])))


@dataclass(frozen=True, slots=True)
class _Look:
    capture: Capture
    walker: Walker
    owner: Owners
    run: NonFiniteRun

    def maker(self, path: Path, *, nan: bool) -> Maker:
        """Returns an equation with what it read and made; runs the program once more."""
        node = self.walker.nodes[path[-1]]
        at = (self.run.nan if nan else self.run.inf).get(path, NonFiniteExecution())
        values = self.capture.driver.equation_values(path, at)
        backward = any(_BACKWARD in self.walker.nodes[step].scope for step in path)
        loops = [step for step in path[:-1] if self.walker.nodes[step].opcode in LOOPS]
        loop = self._span(path[: path.index(loops[-1]) + 1]) if loops else None
        untaken = self._untaken(path, values) if backward else ""
        kind = _kind(self.run, nan=nan)
        literal = any(self.walker.has(spot, kind) for spot in self.walker.before(path, kind))
        dtype = node.results[0].type.dtype if node.results else ""
        return Maker(
            path,
            node.opcode,
            self._span(path),
            loop,
            at.iterations[: len(loops)],
            at.device,
            backward,
            values,
            LITERAL if literal else reason(node.opcode, values, dtype, untaken=untaken),
            str(node.results[0].type) if node.results else "",
        )

    def infinity(self, path: Path) -> Maker | None:
        """Returns the equation that made the infinity that an equation read."""
        kind = _kind(self.run, nan=False)
        spots = [spot for spot in self.walker.operands(path) if self.walker.has(spot, kind)]
        makers = self.walker.back(spots, kind).makers
        return self.maker(makers[0], nan=False) if makers else None

    def trial(self, makers: Sequence[Path]) -> CureTrial | None:
        """Tries zeros in the place of a NaN times or by 0; None where that is no cure."""
        paths: list[Path] = []
        change = 0.0
        for _ in range(_TRIED):
            if any(self.walker.nodes[path[-1]].opcode not in _GUARDED for path in makers):
                return CureTrial(tuple(paths), False, False, change) if paths else None
            paths += makers
            run, change = self.capture.driver.guarded(paths)
            if not run.nan_results:
                return CureTrial(tuple(paths), True, bool(run.inf_results), change)
            results = self.walker.results(run.nan_results)
            makers = self.walker.back(results, _kind(run, nan=True)).makers
            if not set(makers) - set(paths):
                break
        return CureTrial(tuple(paths), False, False, change)

    def _span(self, path: Path) -> Span | None:
        """Returns the user's line of an equation, or of the call that leads to it."""
        spans = [span for step in reversed(path) if (span := self.owner.get(step)) is not None]
        own = (span for span in spans if not span.library)
        return next(own, spans[0] if spans else None)

    def _untaken(self, path: Path, values: EquationValues) -> str:
        """Returns the line of the `where` that made an operand 0 on the way back; "" for none."""
        zeros = [n for n, v in enumerate(values.operands) if v is not None and v.zeros]
        pending, steps = self.walker.operands(path, zeros), 0
        visited: set[object] = set()
        while pending and steps < _STEPS:
            spot = pending.pop(0)
            if spot in visited:
                continue
            visited.add(spot)
            prefix, place, _ = spot
            made = self.walker.flow.makers.get(place)
            if made is None:
                pending += list(self.walker.around(prefix, place, ()))
                continue
            steps += 1
            inner = (*prefix, made[1].id)
            if not any(_BACKWARD in self.walker.nodes[step].scope for step in inner):
                continue
            if made[1].opcode == "select_n":
                span = self._span(inner)
                return str(span) if span is not None else "unknown line"
            pending += list(self.walker.bodies(inner, place[1], ())) or self.walker.operands(inner)
        return ""
