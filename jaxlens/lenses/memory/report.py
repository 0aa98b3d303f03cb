"""Reports the memory peak by source line, residuals and donation.

`peak.py`, `residuals.py`, `donation.py` and `checkpoint.py` compute the facts; this module formats
them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Memory
from jaxlens.lenses.memory import checkpoint, donation
from jaxlens.lenses.memory.checkpoint import Tried
from jaxlens.lenses.memory.donation import Donation
from jaxlens.lenses.memory.peak import MemoryUse, Space, Timeline, memory_use, timeline
from jaxlens.lenses.memory.residuals import Residual, Saved
from jaxlens.lenses.memory.tables import (
    by_line,
    held_table,
    residual_table,
    share,
    size_table,
    space_table,
    types,
)
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.source_quote import Quoter, bracketed, quoter
from jaxlens.lenses.subject import Given, ProgramFacts, subject_of
from jaxlens.report import Finding, Overlay, Report, amount, count

_NO_SIZES = Memory(None, None, None, None)
_NO_TIMELINE: Given[Timeline | None] = Given(lambda: None)
_SMALL = 0.05  # share of the peak below which possible donations are not reported
_MUCH = 0.5  # share of the peak from which the report on residuals suggests --checkpoint


@dataclass(frozen=True, slots=True)
class MemoryFacts(ProgramFacts):
    """All facts about a program's memory. Attributes of `MemoryUse` can be read from it too."""

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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.use, name)

    def __dir__(self) -> list[str]:
        own = [*(f.name for f in fields(self)), *(f.name for f in fields(self.use))]
        return sorted([*(name for name in own if not name.startswith("_")), "residuals"])

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
    return MemoryFacts(
        memory_use(capture),
        _donations(capture),
        tuple(tried),
        capture.memory,
        Given(lambda: timeline(capture)),
        _subject=subject_of(capture, "jaxpr", "optimized"),
    )


def _donations(capture: Capture) -> tuple[Donation, ...]:
    try:
        return donation.donations(capture)
    except UnavailableError:
        return ()


def report(facts: MemoryFacts) -> Report:
    """Reports the peak and the lines that own it, then residuals and donation."""
    use, sizes, subject = facts.use, facts.sizes(), facts.subject()
    quote = quoter(subject)
    answer, *more = _peak(use, quote)
    kept = _kept(use.saved, quote, subject.program.target.devices, facts)
    # Trials run only on request, so their findings come first.
    tries = checkpoint.sentences(facts.tried, use.peak, subject)
    findings = [*tries, answer, Finding(sentence(sizes), "xla"), *more, *kept]
    worth = [d for d in facts.donations if d.donated or _worth(d, facts)]
    findings += donation.sentences(worth)
    tables = (
        by_line(use, quote),
        held_table(use),
        size_table(sizes),
        space_table(use),
        residual_table(use.saved, quote),
        checkpoint.table(facts.tried, use, subject),
        *([donation.table(worth)] if worth else []),
    )
    values: dict[str, float] = {}
    for one in use.at_peak:
        values[one.instruction] = values.get(one.instruction, 0.0) + one.bytes
    overlay = (Overlay("memory at the peak (B)", "optimized", values),) if values else ()
    return Report("Memory", tuple(findings), tuple(t for t in tables if t.rows), overlay)


def _worth(one: Donation, known: MemoryFacts) -> bool:
    could = sum(d.bytes or 0 for d in known.donations if not d.donated)
    return could >= _SMALL * (known.use.peak or known.use.reserved or 0)


def _peak(use: MemoryUse, quote: Quoter) -> Iterator[Finding]:
    """Yields the findings on the peak: bytes, instruction and owning line."""
    if use.peak is None:
        yield Finding(
            f"It takes {amount(use.reserved)} from start to end; when it is most, and which line "
            f"owns that, is not known: {use.missing or 'XLA gives no live ranges here'}.",
            "unknown",
        )
        return
    at = f" ({use.runs})" if use.runs else ""
    runs = f" when {use.instruction} runs{at}" if use.instruction else ""
    ids = (use.instruction, *(one.instruction for one in use.at_peak[:8]))
    where = f" of {use.memory}" if use.spaces else ""
    text = f"The peak is {amount(use.peak)}{where}{runs}; {_owner(use, quote)}."
    yield Finding(text, "counted", ids)
    whole = f"{amount(use.reserved)} is reserved from start to end" if use.reserved else ""
    parts = [
        f"{amount(size)} of {name}"
        for name, size in (
            ("arguments", use.kind("argument")),
            ("results", use.kind("result")),
            ("constants", use.kind("constant")),
            ("temporaries", use.kind("temporary")),
        )
        if size
    ]
    yield Finding(f"There are {listed(parts)} then; {whole}." if whole else f"{listed(parts)}.")
    most = max((space.peak for space in use.spaces), default=0)
    yield from (_elsewhere(space) for space in use.spaces if space.peak >= _SMALL * most)
    if use.unplaced:
        text = f"{count(use.unplaced, 'value')} without a live range could not be counted."
        yield Finding(text, "unknown")


def _elsewhere(space: Space) -> Finding:
    """Returns the finding on another memory of the device: bytes and owning line."""
    line, size = next(((n, b) for n, b in space.by_line.items() if n), ("", 0))
    mine = [one for one in space.at_peak if one.line == line and one.kind != "argument"]
    kept = sum(one.bytes for one in mine if one.saved) > size / 2
    what = f"{types(mine)}{', saved for the backward pass' if kept else ''}"
    most = f"; {line} owns {amount(size)} of it: {what}" if line else ""
    text = f"Beside that up to {amount(space.peak)} of {space.name}, when {space.instruction} runs"
    ids = (space.instruction, *(one.instruction for one in space.at_peak[:8]))
    return Finding(f"{text}{most}.", "counted", ids)


def _owner(use: MemoryUse, quote: Quoter) -> str:
    """Returns the clause on the largest owner: a line, the arguments or the constants."""
    arguments, constants = use.kind("argument"), use.kind("constant")
    line, size = next(((n, b) for n, b in use.by_line.items() if n), ("", 0))
    if constants > max(arguments, size):
        most = next(one for one in use.at_peak if one.kind == "constant")
        whose = " that is closed over" if most.name != most.instruction else ""
        text = f"{share(constants, use.peak)} of it are constants (most of all {most.name}"
        text += f", an array{whose})"
        return f"{text}, and {line} owns {amount(size)}{_code(use, line, quote)}" if line else text
    if arguments >= size:
        largest = next((one for one in use.at_peak if one.kind == "argument"), None)
        if largest is None:
            return "no line is known to own any of it"
        text = f"{share(arguments, use.peak)} of it are arguments (most of all {largest.name})"
        return f"{text}, and {line} owns {amount(size)}{_code(use, line, quote)}" if line else text
    mine = [one for one in use.at_peak if one.line == line and one.kind != "argument"]
    words = [types(mine)]
    if sum(one.bytes for one in mine if one.saved) > size / 2:
        words.append("saved for the backward pass")
    what = ", ".join(words)
    return (
        f"{line}{_code(use, line, quote)} owns {amount(size)} of it, "
        f"{share(size, use.peak)}: {what}"
    )


def _code(use: MemoryUse, line: str, quote: Quoter) -> str:
    span = next((one.span for one in use.at_peak if one.line == line and one.span), None)
    return bracketed(span, quote(span))


def _kept(kept: Saved, quote: Quoter, devices: int, known: MemoryFacts) -> Iterator[Finding]:
    """Yields the finding on residuals; if these are large, it suggests --checkpoint."""
    if not kept.backward:
        return
    if not kept.residuals:
        yield Finding("Autodiff saves nothing but inputs for the backward pass.")
        return
    by_line: dict[str, int] = {}
    spans = {one.line: one.owner for one in kept.residuals}
    for one in kept.residuals:
        by_line[one.line] = by_line.get(one.line, 0) + (one.bytes or 0)
    line, size = max(by_line.items(), key=lambda pair: pair[1])
    code = quote(spans[line])
    whose = f", {amount(size)} of it from {line}{f' ({code})' if code else ''}" if line else ""
    values = count(len(kept.residuals), "value")
    where = f"; that is for all {devices} devices together" if devices > 1 else ""
    ids = tuple(one.id for one in kept.residuals)
    much = kept.bytes >= _MUCH * (known.use.peak or math.inf) and not known.tried
    ask = "; --checkpoint tries what jax.checkpoint would change" if much else ""
    yield Finding(
        f"Autodiff saves {amount(kept.bytes)} in {values} for the backward pass{whose}{where}"
        f"{ask}.",
        "counted",
        ids,
    )


def sentence(sizes: Memory) -> str:
    """Returns a sentence with XLA's sizes."""
    parts = [
        f"{name} {amount(size)}"
        for name, size in (
            ("arguments", sizes.arguments),
            ("outputs", sizes.outputs),
            ("temporaries", sizes.temporaries),
        )
    ]
    shared = f", of which {amount(sizes.aliases)} shared by donation" if sizes.aliases else ""
    return f"Memory: {', '.join(parts)}{shared}."
