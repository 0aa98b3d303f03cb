"""Formats the facts about fusion as sentences and tables."""

from collections import Counter
from collections.abc import Iterator

from jaxlens.lenses.fusion.facts import Boundary, Fusions, reasons
from jaxlens.lenses.program.fusion_change import again, fates_table
from jaxlens.lenses.sentences import listed
from jaxlens.report import Cell, Finding, Overlay, Report, Table, Trust, amount, cells, count

_ROWS = 40
UNSAID = "XLA does not say"


def report(facts: Fusions) -> Report:
    """Reports the bytes that fusions save, and why the remaining values are not fused."""
    saved = {fusion.id: float(fusion.saved * fusion.times) for fusion in facts.fusions}
    overlay = Overlay("bytes that fusion saves (B)", "optimized", saved)
    tables = (fusions(facts), boundaries(facts), fates_table(facts.change))
    return Report("Fusion", tuple(findings(facts)), tuple(t for t in tables if t.rows), (overlay,))


def findings(facts: Fusions) -> Iterator[Finding]:
    """Yields the findings, the answer first: bytes saved, then values left and why."""
    yield Finding(_saved(facts), ids=tuple(fusion.id for fusion in facts.fusions))
    yield from _left(facts)
    yield from again(facts.change)
    yield from _model(facts)


def _saved(facts: Fusions) -> str:
    """Returns the sentence on bytes moved, and their share of the bytes moved without fusion."""
    runs = f"{count(facts.before, 'operation')} run as {facts.after:,}"
    if not facts.fusions:
        moves = f" A run moves {amount(facts.moved)}." if facts.moved else ""
        return f"Nothing was fused: {runs}, and no fusion joins two operations.{moves}"
    top = facts.fusions[0]
    many = count(len(facts.fusions), "fusion")
    whole = facts.moved + facts.saved
    most = ""
    if top.saved and len(facts.fusions) > 1:
        lines = f", {listed(top.lines, 2)}" if top.lines else ""
        share = top.saved * top.times / facts.saved
        most = f"; {share:.0%} of what that spares is {top.id}'s{lines}"
    moves = (
        f"A run moves {amount(facts.moved)} in memory, {facts.moved / whole:.0%} of what its "
        f"operations would one by one"
        if whole
        else "Nothing moves in memory"
    )
    return f"{moves}: {runs}, {many} of several operations{most}."


def _left(facts: Fusions) -> Iterator[Finding]:
    """Yields the finding on the largest value between kernels, and why it is not fused."""
    if not facts.left:
        yield Finding("No value is written to memory by one kernel and read by another.")
        return
    top = facts.boundaries[0]
    why = top.why or UNSAID
    trust: Trust = "xla" if top.trust == "xla" else "counted" if top.why else "unknown"
    most, lines = amount(top.bytes * top.times), f" ({listed(top.lines, 2)})" if top.lines else ""
    yield Finding(
        f"{amount(facts.left)} of it travel between kernels, most ({most}) from "
        f"{top.producer}{lines} to "
        f"{listed(top.consumers, 2)}: {why}.",
        trust,
        (top.producer, *top.consumers),
    )


def _model(facts: Fusions) -> Iterator[Finding]:
    """Yields the findings from XLA's log of fusion decisions."""
    if facts.why_not:
        return
    gains = [fusion.estimate for fusion in facts.fusions if fusion.estimate is not None]
    if gains:
        yield Finding(
            f"By XLA's cost model joining saved {sum(gains):.2f} µs in "
            f"{count(len(gains), 'fusion')} (estimates for one run of each).",
            "xla",
        )
    told = [f'"{reason}" ({n})' if n > 1 else f'"{reason}"' for reason, n in reasons(facts.refused)]
    if told:
        yield Finding(
            f"XLA refused to fuse {count(len(facts.refused), 'instruction')} into what reads "
            f"{'it' if len(facts.refused) == 1 else 'them'}: {listed(told)}.",
            "xla",
            tuple(facts.refused),
        )


def fusions(facts: Fusions) -> Table:
    """Returns a table with a row per fusion: operations, source lines, bytes saved."""
    shown = facts.fusions[:_ROWS]
    top = max((fusion.saved * fusion.times for fusion in shown), default=0) or 1
    modelled = any(fusion.estimate is not None for fusion in shown)
    looped = any(fusion.times > 1 for fusion in shown)
    rows = tuple(
        (
            Cell(fusion.id, ids=(fusion.id,)),
            Cell(fusion.kind),
            Cell(_kinds(fusion.operations)),
            Cell(", ".join(fusion.lines)),
            *(cells(fusion.times) if looped else ()),
            Cell(amount(fusion.saved), fusion.saved, bar=fusion.saved * fusion.times / top),
            *cells(fusion.repeated),
            *([Cell(_micros(fusion.estimate), fusion.estimate)] if modelled else []),
        )
        for fusion in shown
    )
    times = ("runs",) if looped else ()
    model = ("XLA: saved, µs",) if modelled else ()
    columns = ("fusion", "kind", "joins", "from lines", *times, "saved", "repeats", *model)
    notes = [
        "Saved: what its operations would read and write one by one, less what it does as one, "
        "in each run. Repeats: operations that another place computes too."
    ]
    if facts.wrapped:
        notes.append(f"{count(facts.wrapped, 'fusion')} of one operation joined nothing.")
    if len(facts.fusions) > len(shown):
        notes.append(f"{len(facts.fusions) - len(shown):,} more below these.")
    notes.append(facts.note)
    right = tuple(range(4, len(columns)))
    note = " ".join(filter(None, notes))
    return Table("Fusions", columns, rows, note, right=right, stage="optimized")


def _micros(estimate: float | None) -> str:
    return "" if estimate is None else f"{estimate:.2f}"


def _kinds(operations: tuple[str, ...]) -> str:
    return ", ".join(f"{k} x {n}" if n > 1 else k for k, n in Counter(operations).items())


def boundaries(facts: Fusions) -> Table:
    """Returns a table of the values between kernels, and why they are not fused."""
    shown = [boundary for boundary in facts.boundaries if boundary.bytes][:_ROWS]
    top = max((boundary.bytes * boundary.times for boundary in shown), default=0) or 1
    rows = tuple(_boundary(boundary, top) for boundary in shown)
    left = len(facts.boundaries) - len(shown)
    notes = [
        "Bytes: once written, and read once by each. A result of the program and a value that "
        "several read are facts, and need not be XLA's reason."
    ]
    if facts.why_not:
        notes.append("Only on GPUs XLA says why.")
    if left:
        notes.append(f"{left:,} smaller ones below these.")
    columns = ("written by", "read by", "from lines", "runs", "bytes", "what is known of why")
    return Table("Not fused", columns, rows, " ".join(notes), right=(3, 4), stage="optimized")


def _boundary(one: Boundary, top: int) -> tuple[Cell, ...]:
    return (
        Cell(one.producer, ids=(one.producer,)),
        Cell(listed(one.consumers, 3), ids=one.consumers),
        Cell(listed(one.lines, 3)),
        *cells(one.times),
        Cell(amount(one.bytes), one.bytes, bar=one.bytes * one.times / top),
        Cell(one.why or UNSAID),
    )
