"""Reports the memory peak by source line, residuals and donation.

`peak.py`, `residuals.py`, `donation.py` and `checkpoint.py` compute the facts; this module formats
them.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Memory
from jaxlens.program.sentences import Quoter, bracketed, quoter
from jaxlens.program.subject import Forwarding, Given, ProgramFacts, subject_of
from jaxlens.questions.memory import checkpoint, donation
from jaxlens.questions.memory.checkpoint import Tried
from jaxlens.questions.memory.donation import Donation
from jaxlens.questions.memory.peak import MemoryUse, Space, Timeline, memory_use, timeline
from jaxlens.questions.memory.residuals import Residual
from jaxlens.questions.memory.tables import (
    buffer_table,
    by_line,
    by_owner,
    residual_table,
    size_table,
    space_table,
    types,
)
from jaxlens.report import Finding, Overlay, Report, amount, count, explains, share

_NO_SIZES = Memory(None, None, None, None)
_NO_TIMELINE: Given[Timeline | None] = Given(lambda: None)
_SMALL = 0.05  # share of the peak below which possible donations are not reported
_MUCH = 0.5  # share of the peak from which the report on residuals suggests --checkpoint


@dataclass(frozen=True, slots=True)
class MemoryFacts(Forwarding, ProgramFacts):
    """All facts about a program's memory. Attributes of `MemoryUse` can be read from it too."""

    _forwarded = MemoryUse
    use: MemoryUse
    donations: tuple[Donation, ...]
    tried: tuple[Tried, ...] = ()
    _sizes: Memory = field(default=_NO_SIZES, repr=False)
    _timeline: Given[Timeline | None] = field(default=_NO_TIMELINE, repr=False, compare=False)

    def sizes(self) -> Memory:
        """Returns XLA's own figures."""
        return self._sizes

    def timeline(self) -> Timeline | None:
        """Returns the live ranges over the schedule; None where XLA gives none."""
        return self._timeline.get()

    def _record(self) -> MemoryUse:
        return self.use

    @property
    def residuals(self) -> tuple[Residual, ...]:
        """The residuals, largest first."""
        return self.use.saved.residuals


def facts(capture: Capture, tried: Sequence[Tried] = ()) -> MemoryFacts:
    """Computes the facts about memory.

    Args:
        capture: Any capture.
        tried: Trials of `jax.checkpoint`, if there were any.

    Raises:
        UnavailableError: The backend provides no sizes.
    """
    try:
        donations = donation.donations(capture)
    except UnavailableError:
        donations = ()
    return MemoryFacts(
        memory_use(capture),
        donations,
        tuple(tried),
        capture.memory,
        Given(lambda: timeline(capture)),
        _subject=subject_of(capture, "jaxpr", "optimized"),
    )


def report(facts: MemoryFacts) -> Report:
    """Reports the peak and the lines that own it, then residuals and donation."""
    use, sizes, subject = facts.use, facts.sizes(), facts.subject()
    quote = quoter(subject)
    answer, *more = _peak(use, quote)
    residuals = _residuals(facts, quote)
    # Trials run only on request, so their findings come first.
    tries = checkpoint.sentences(facts.tried, use.peak, subject)
    reserved = f"; {amount(use.reserved)} is reserved from start to end." if use.reserved else "."
    whole = Finding(sentence(sizes).removesuffix(".") + reserved, "xla")
    findings = [*tries, answer, whole, *more, *residuals]
    possible = sum(d.bytes or 0 for d in facts.donations if not d.donated)
    is_large = possible >= _SMALL * (use.peak or use.reserved or 0)
    donations = [d for d in facts.donations if d.donated or is_large]
    findings += donation.sentences(donations, use.peak or use.reserved, subject.program.jit)
    tables = (
        by_line(use, quote),
        buffer_table(use),
        size_table(sizes, subject.program.target.platform),
        space_table(use),
        residual_table(use.saved.residuals, quote),
        checkpoint.table(facts.tried, use, subject),
        *([donation.table(donations)] if donations else []),
    )
    values: Counter[str] = Counter()
    for value in use.at_peak:
        values[value.instruction] += value.bytes
    tint = {instruction: float(size) for instruction, size in values.items()}
    overlay = (Overlay("memory at the peak (B)", "optimized", tint),) if tint else ()
    return Report("Memory", tuple(findings), tuple(t for t in tables if t.rows), overlay)


def _peak(use: MemoryUse, quote: Quoter) -> Iterator[Finding]:
    """Yields the findings on the peak: bytes, instruction and owning line."""
    if use.peak is None:
        yield Finding(
            f"It takes {amount(use.reserved)} from start to end; when it is most, and which line "
            f"owns that, is not known: {use.missing or 'XLA gives no live ranges here'}.",
            "unknown",
            weight=explains(1, 1),  # the reason, which is that of other panes too
        )
        return
    when = f" {use.moment}" if use.moment else ""
    ids = (use.instruction, *(value.instruction for value in use.at_peak[:8]))
    where = f" of {use.memory}" if use.spaces else ""
    text = f"The peak is {amount(use.peak)}{where}{when}; {_owner(use, quote)}."
    owned = max(use.kind("argument"), use.kind("constant"), _largest(use)[1])
    yield Finding(text, "counted", ids, weight=explains(owned, use.peak))
    most = max((space.peak for space in use.spaces), default=0)
    yield from (_elsewhere(space) for space in use.spaces if space.peak >= _SMALL * most)
    if use.unplaced:
        text = f"{count(use.unplaced, 'value')} without a live range could not be counted."
        yield Finding(text, "unknown")


def _elsewhere(space: Space) -> Finding:
    """Returns the finding on another memory of the device: bytes and owning line."""
    line, size = _largest(space)
    most = f"; {line} owns {amount(size)} of it: {_values(space, line)}" if line else ""
    text = f"Beside that up to {amount(space.peak)} of {space.name}, when {space.instruction} runs"
    ids = (space.instruction, *(value.instruction for value in space.at_peak[:8]))
    return Finding(f"{text}{most}.", "counted", ids)


def _largest(use: MemoryUse | Space) -> tuple[str, int]:
    """Returns the line that owns most bytes at the peak, with these; "" for none."""
    return next(((line, size) for line, size in use.by_line.items() if line), ("", 0))


def _values(use: MemoryUse | Space, line: str) -> str:
    """Returns the types of a line's values at the peak, and whether most are residuals."""
    values = [value for value in use.at_peak if value.line == line and value.kind != "argument"]
    residuals = sum(value.bytes for value in values if value.saved)
    return types(values) + (
        ", saved for the backward pass" if residuals > use.by_line[line] / 2 else ""
    )


def _owner(use: MemoryUse, quote: Quoter) -> str:
    """Returns the clause on the largest owner: a line, the arguments or the constants."""
    arguments, constants = use.kind("argument"), use.kind("constant")
    line, size = _largest(use)
    span = next((v.span for v in use.at_peak if v.line == line and v.span), None)
    code = bracketed(span, quote(span))
    also = f", and {line} owns {amount(size)}{code}" if line else ""
    if constants > max(arguments, size):
        most = next(value for value in use.at_peak if value.kind == "constant")
        whose = " that is closed over" if most.name != most.instruction else ""
        part = share(constants, use.peak)
        return f"{part} of it are constants (most of all {most.name}, an array{whose}){also}"
    if arguments >= size:
        largest = next((value for value in use.at_peak if value.kind == "argument"), None)
        if largest is None:
            return "no line is known to own any of it"
        part = share(arguments, use.peak)
        return f"{part} of it are arguments (most of all {largest.name}){also}"
    part = share(size, use.peak)
    return f"{line}{code} owns {amount(size)} of it, {part}: {_values(use, line)}"


def _residuals(facts: MemoryFacts, quote: Quoter) -> Iterator[Finding]:
    """Yields the finding on residuals; if these are large, it suggests --checkpoint."""
    saved, devices = facts.use.saved, facts.subject().program.target.devices
    if not saved.backward:
        return
    if not saved.residuals:
        yield Finding("Autodiff saves nothing but inputs for the backward pass.")
        return
    line, values, size = by_owner(saved.residuals, lambda residual: residual.line)[0]
    code = bracketed(values[0].owner, quote(values[0].owner))
    whose = f", {amount(size)} of it from {line}{code}" if line else ""
    where = f"; that is for all {devices} devices together" if devices > 1 else ""
    much = saved.bytes >= _MUCH * (facts.use.peak or math.inf) and not facts.tried
    ask = "; --checkpoint tries what jax.checkpoint would change" if much else ""
    yield Finding(
        f"Autodiff saves {amount(saved.bytes)} in {count(len(saved.residuals), 'value')} for the "
        f"backward pass{whose}{where}{ask}.",
        ids=tuple(residual.id for residual in saved.residuals),
        weight=explains(saved.bytes, facts.use.peak),
    )


def sentence(sizes: Memory) -> str:
    """Returns a sentence with XLA's sizes."""
    shared = f", of which {amount(sizes.aliases)} shared by donation" if sizes.aliases else ""
    return (
        f"Memory: arguments {amount(sizes.arguments)}, outputs {amount(sizes.outputs)}, "
        f"temporaries {amount(sizes.temporaries)}{shared}."
    )
