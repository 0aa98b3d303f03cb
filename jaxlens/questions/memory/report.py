"""Reports the memory peak by source line and by value, and the residuals.

`donation.py` and `checkpoint.py` report on what they are about.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from jaxlens.ir.facts import Constant
from jaxlens.ir.hlo.memory_spaces import space_name
from jaxlens.program.closed_over import closed_over
from jaxlens.program.sentences import Quoter, bracketed, listed, quoter
from jaxlens.questions.memory import donation
from jaxlens.questions.memory.checkpoint import checkpoint_table, sentences
from jaxlens.questions.memory.facts import HeldValue, MemoryFacts
from jaxlens.questions.memory.residuals import Residual
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Overlay,
    Report,
    Table,
    amount,
    count,
    explains,
    percent,
    share,
    table,
    tally,
)

Value = TypeVar("Value", HeldValue, Residual)

_ROWS = 12
_LONG = 48  # characters of a type; of a longer tuple the number of its parts is written
_BYTES = NumberColumn("bytes", amount, "bytes")
_MEANING = {
    "arguments": "inputs, there before the program starts",
    "outputs": "results, there after it ends",
    "temporaries": "scratch between kernels; values that live at different times share it",
    "aliases": "arguments whose memory holds results (donated); part of both sizes above",
    "code": "the machine code",
}
_SMALL = 0.05  # share of the peak below which possible donations are not reported
_MUCH = 0.5  # share of the peak from which the report on residuals suggests --checkpoint


def report(facts: MemoryFacts) -> Report:
    """Reports the peak and the lines that made it, then residuals and donation."""
    subject = facts.subject()
    quote = quoter(subject)
    answer = _peak(facts, closed_over(subject) or (), quote)
    # Trials run only on request, so their findings come first.
    findings = [*sentences(facts), answer, _whole(facts), *_residuals(facts, quote)]
    whole = facts.peak or facts.reserved
    possible = sum(d.bytes or 0 for d in facts.donations if not d.donated)
    is_large = possible >= _SMALL * (whole or 0)
    donations = [d for d in facts.donations if d.donated or is_large]
    findings += donation.sentences(donations, whole, subject.program.jit)
    tables = (
        line_table(facts, quote),
        buffer_table(facts),
        size_table(facts),
        residual_table(facts.residuals, quote),
        *([checkpoint_table(facts)] if facts.tried else []),
        donation.donation_table(donations),
    )
    tint: Counter[str] = Counter()
    for value in facts.at_peak:
        tint[value.instruction] += value.bytes
    overlay = (Overlay("memory at the peak (B)", "optimized", tint),) if tint else ()
    return Report("Memory", tuple(findings), tuple(t for t in tables if t.rows), overlay)


def _peak(use: MemoryFacts, captured: Sequence[Constant], quote: Quoter) -> Finding:
    """Returns the finding on the peak: bytes, instruction and owning line."""
    if use.peak is None:
        return Finding(
            f"It takes {amount(use.reserved)} from start to end; when it is most, and which line "
            f"owns that, is not known: {use.missing or 'XLA gives no live ranges here'}.",
            "unknown",
            weight=explains(1, 1),  # the reason, which is that of other panes too
        )
    when = f" {use.moment}" if use.moment else ""
    ids = (use.instruction, *(value.instruction for value in use.at_peak[:8]))
    main = space_name(0, use.subject().program.target.platform)
    where = f" of {main}" if use.spaces else ""
    clause, size = _largest(use, captured, quote)
    text = f"The peak is {amount(use.peak)}{where}{when}; {clause}."
    return Finding(text, "counted", ids, weight=explains(size, use.peak))


def _largest(use: MemoryFacts, captured: Sequence[Constant], quote: Quoter) -> tuple[str, int]:
    """Returns the clause on what is most at the peak, a line, arguments or constants; its bytes."""
    arguments, constants = use.kind("argument"), use.kind("constant")
    line, size = next(((line, size) for line, size in use.by_line.items() if line), ("", 0))
    values = [value for value in use.at_peak if value.line == line and value.kind != "argument"]
    span = next((value.span for value in values if value.span), None)
    code = bracketed(span, quote(span))
    also = f", and {line} owns {amount(size)}{code}" if line else ""
    if constants > max(arguments, size):
        part, most = share(constants, use.peak), captured[0] if captured else None
        held = f" (closed over: {most.name}, {amount(most.bytes)})" if most else ""
        return f"{part} of it are constants{held}{also}", constants
    if arguments >= size:
        names = (value.name for value in use.at_peak if value.kind == "argument")
        part = f"{share(arguments, use.peak)} of it are arguments (most of all {next(names, '')})"
        return (f"{part}{also}" if arguments else "no line is known to own any of it"), arguments
    residuals = sum(value.bytes for value in values if value.saved)
    kept = ", saved for the backward pass" if residuals > size / 2 else ""
    part = share(size, use.peak)
    return f"{line}{code} owns {amount(size)} of it, {part}: {types(values)}{kept}", size


def _residuals(facts: MemoryFacts, quote: Quoter) -> Iterator[Finding]:
    """Yields the finding on residuals; if these are large, it suggests --checkpoint."""
    saved, devices = facts.saved, facts.subject().program.target.devices
    if not saved.is_differentiated:
        return
    if not saved.values:
        yield Finding("Autodiff saves nothing but inputs for the backward pass.")
        return
    line, values, size = by_group(saved.values, lambda residual: residual.line)[0]
    code = bracketed(values[0].owner, quote(values[0].owner))
    whose = f", {amount(size)} of it from {line}{code}" if line else ""
    where = f"; that is for all {devices} devices together" if devices > 1 else ""
    is_more = devices == 1 and saved.bytes > (facts.peak or math.inf)
    more = ", more than the peak: XLA never holds them all at once" if is_more else ""
    much = saved.bytes >= _MUCH * (facts.peak or math.inf) and not facts.tried
    ask = "; --checkpoint tries what jax.checkpoint would change" if much else ""
    yield Finding(
        f"Autodiff saves {amount(saved.bytes)} in {count(len(saved.values), 'value')} for the "
        f"backward pass{whose}{where}{more}{ask}.",
        ids=tuple(residual.id for residual in saved.values),
        weight=explains(saved.bytes, facts.peak),
    )


def _whole(use: MemoryFacts) -> Finding:
    """Returns the finding with XLA's sizes."""
    shared = f", of which {amount(use.aliases)} shared by donation" if use.aliases else ""
    reserved = f"; {amount(use.reserved)} is reserved from start to end" if use.reserved else ""
    return Finding(
        f"Memory: arguments {amount(use.arguments)}, outputs {amount(use.outputs)}, "
        f"temporaries {amount(use.temporaries)}{shared}{reserved}.",
        "xla",
    )


def size_table(use: MemoryFacts) -> Table:
    """Returns a table of XLA's sizes, with a row per kind, and of the device's other memories."""
    rows = [(name, getattr(use, name), meaning) for name, meaning in _MEANING.items()]
    rows = [row for row in rows if row[0] != "code" or row[1] is not None]
    rows += [(s.name, s.peak, "most in use there at once") for s in use.spaces]
    note = "XLA's buffer assignment, per device."
    if use.note:
        note = f"{note} {use.note[:1].upper()}{use.note[1:]}."
    return table("Memory", ("", _BYTES, "what it is"), rows, note)


def by_group(
    values: Iterable[Value], name: Callable[[Value], str]
) -> list[tuple[str, list[Value], int]]:
    """Returns the names of groups, each with its values and their bytes, largest first."""
    groups: defaultdict[str, list[Value]] = defaultdict(list)
    for value in values:
        groups[name(value)].append(value)
    sums = [(key, group, sum(v.bytes or 0 for v in group)) for key, group in groups.items()]
    return sorted(sums, key=lambda row: -row[2])


def line_table(use: MemoryFacts, quote: Quoter) -> Table:
    """Returns a table of the values at the peak by line; arguments are one row."""

    def group(value: HeldValue) -> str:
        if value.kind == "argument":
            return "arguments"
        return "constants" if value.kind == "constant" and not value.line else value.line

    rows = (
        (
            Cell(name or "no line", ids=tuple(value.instruction for value in values)),
            quote(next((value.span for value in values if value.span), None)),
            size,
            size / (use.peak or 1),
            types(values),
            _marks(values),
        )
        for name, values, size in by_group(use.at_peak, group)
    )
    note = f"Every byte in use {use.moment or 'when it runs'}."
    part = NumberColumn("share", percent)
    columns = ("line", "code", _BYTES, part, "values", "what they are")
    title, rest = "Memory at the peak, by line", ": .by_line has all"
    return table(title, columns, rows, note, most=_ROWS, rest=rest, stage="optimized")


def _marks(values: Sequence[HeldValue]) -> str:
    """Returns what the values of a line are, with shares: residuals, stacked values, results."""
    size = sum(value.bytes for value in values) or 1
    marks = {
        "saved for the backward pass": sum(v.bytes for v in values if v.saved),
        "stacked by a loop": sum(v.bytes for v in values if v.stacked and not v.saved),
        "scratch memory of a library": sum(v.bytes for v in values if v.scratch),
        "results": sum(v.bytes for v in values if v.kind == "result"),
    }
    return ", ".join(
        name if part > 0.95 * size else f"{part / size:.0%} {name}"
        for name, part in marks.items()
        if part > 0.05 * size
    )


def buffer_table(use: MemoryFacts) -> Table:
    """Returns a table of the buffers at the peak."""
    rows = (
        (
            Cell(value.name, ids=tuple(dict.fromkeys((value.instruction, value.name)))),
            value.type if len(value.type) <= _LONG else types([value]),
            value.bytes,
            value.kind,
            value.line,
            _marks([value]) if value.kind == "temporary" else "",
        )
        for value in use.at_peak
    )
    columns = ("value", "type", _BYTES, "kind", "made by line", "what it is")
    title, rest = "Buffers at the peak", ": .at_peak has all"
    return table(title, columns, rows, most=_ROWS, rest=rest, stage="optimized")


def residual_table(residuals: Sequence[Residual], quote: Quoter) -> Table:
    """Returns a table of the residuals by line."""
    rows = (
        (
            Cell(line or "no line", ids=tuple(dict.fromkeys(value.maker for value in values))),
            quote(values[0].owner),
            size,
            listed(tally(value.opcode for value in values), 3),
            listed(tally(str(value.type) for value in values), 2),
        )
        for line, values, size in by_group(residuals, lambda residual: residual.line)
    )
    columns = ("line", "code", _BYTES, "made by", "types")
    note = "From the jaxpr: XLA may compute some of it again instead, or keep other values."
    title, rest = "Saved for the backward pass", ": .residuals has all"
    return table(title, columns, rows, note, most=_ROWS, rest=rest, stage="jaxpr")


def types(values: Sequence[HeldValue]) -> str:
    """Returns the types of values, as `f32[4,4,128,128] x 2 and 1 tuple of 2 arrays`."""
    names = (value.type for value in values)
    # Of a tuple, which may have hundreds of parts, their number.
    short = Counter(n.count(", ") + 1 if n.startswith("(") else n for n in names)
    texts = (
        f"{count(n, 'tuple')} of {count(kind, 'array')}"
        if isinstance(kind, int)
        else tally({kind: n})[0]
        for kind, n in short.items()
    )
    return listed(list(texts), 2)
