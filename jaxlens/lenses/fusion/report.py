"""Puts what was fused, and why not the rest, into sentences and tables."""

from collections import Counter
from collections.abc import Iterator

from jaxlens.lenses.fusion.facts import Boundary, Fusions, reasons
from jaxlens.lenses.program.fusion_change import again, fates_table
from jaxlens.lenses.sentences import listed
from jaxlens.report import Cell, Finding, Overlay, Report, Table, Trust, amount, cells, count

_ROWS = 40
UNSAID = "XLA does not say"


def report(found: Fusions) -> Report:
    """What was fused with the bytes that each fusion saved, and why not the rest."""
    saved = {one.id: float(one.saved * one.times) for one in found.fusions}
    overlay = Overlay("bytes that fusion saves (B)", "optimized", saved)
    tables = (fusions(found), boundaries(found), fates_table(found.change))
    return Report("Fusion", tuple(findings(found)), tuple(t for t in tables if t.rows), (overlay,))


def findings(found: Fusions) -> Iterator[Finding]:
    """The answer first: what fusing saved, what is left and why."""
    yield Finding(_saved(found), ids=tuple(one.id for one in found.fusions))
    yield from _left(found)
    yield from again(found.change)
    yield from _model(found)


def _saved(found: Fusions) -> str:
    """What still moves, and what share that is of what would move without any fusion."""
    runs = f"{count(found.before, 'operation')} run as {found.after:,}"
    if not found.fusions:
        moves = f" A run moves {amount(found.moved)}." if found.moved else ""
        return f"Nothing was fused: {runs}, and no fusion joins two operations.{moves}"
    top = found.fusions[0]
    many = count(len(found.fusions), "fusion")
    whole = found.moved + found.saved
    most = ""
    if top.saved and len(found.fusions) > 1:
        lines = f", {listed(top.lines, 2)}" if top.lines else ""
        share = top.saved * top.times / found.saved
        most = f"; {share:.0%} of what that spares is {top.id}'s{lines}"
    moves = (
        f"A run moves {amount(found.moved)} in memory, {found.moved / whole:.0%} of what its "
        f"operations would one by one"
        if whole
        else "Nothing moves in memory"
    )
    return f"{moves}: {runs}, {many} of several operations{most}."


def _left(found: Fusions) -> Iterator[Finding]:
    """The largest value that still travels, and what is known of why."""
    if not found.left:
        yield Finding("No value is written to memory by one kernel and read by another.")
        return
    top = found.boundaries[0]
    why = top.why or UNSAID
    trust: Trust = "xla" if top.trust == "xla" else "counted" if top.why else "unknown"
    most, lines = amount(top.bytes * top.times), f" ({listed(top.lines, 2)})" if top.lines else ""
    yield Finding(
        f"{amount(found.left)} of it travel between kernels, most ({most}) from "
        f"{top.producer}{lines} to "
        f"{listed(top.consumers, 2)}: {why}.",
        trust,
        (top.producer, *top.consumers),
    )


def _model(found: Fusions) -> Iterator[Finding]:
    """What XLA says of its own decisions."""
    if found.why_not:
        return
    gains = [one.estimate for one in found.fusions if one.estimate is not None]
    if gains:
        yield Finding(
            f"By XLA's cost model joining saved {sum(gains):.2f} µs in "
            f"{count(len(gains), 'fusion')} (estimates for one run of each).",
            "xla",
        )
    told = [f'"{reason}" ({n})' if n > 1 else f'"{reason}"' for reason, n in reasons(found.refused)]
    if told:
        yield Finding(
            f"XLA refused to fuse {count(len(found.refused), 'instruction')} into what reads "
            f"{'it' if len(found.refused) == 1 else 'them'}: {listed(told)}.",
            "xla",
            tuple(found.refused),
        )


def fusions(found: Fusions) -> Table:
    """One row per fusion: what it joined, from which lines, what that saved."""
    shown = found.fusions[:_ROWS]
    top = max((one.saved * one.times for one in shown), default=0) or 1
    modelled = any(one.estimate is not None for one in shown)
    looped = any(one.times > 1 for one in shown)
    rows = tuple(
        (
            Cell(one.id, ids=(one.id,)),
            Cell(one.kind),
            Cell(_kinds(one.operations)),
            Cell(", ".join(one.lines)),
            *(cells(one.times) if looped else ()),
            Cell(amount(one.saved), one.saved, bar=one.saved * one.times / top),
            *cells(one.repeated),
            *([Cell(_micros(one.estimate), one.estimate)] if modelled else []),
        )
        for one in shown
    )
    times = ("runs",) if looped else ()
    model = ("XLA: saved, µs",) if modelled else ()
    columns = ("fusion", "kind", "joins", "from lines", *times, "saved", "repeats", *model)
    notes = [
        "Saved: what its operations would read and write one by one, less what it does as one, "
        "in each run. Repeats: operations that another place computes too."
    ]
    if found.wrapped:
        notes.append(f"{count(found.wrapped, 'fusion')} of one operation joined nothing.")
    if len(found.fusions) > len(shown):
        notes.append(f"{len(found.fusions) - len(shown):,} more below these.")
    notes.append(found.note)
    right = tuple(range(4, len(columns)))
    note = " ".join(filter(None, notes))
    return Table("Fusions", columns, rows, note, right=right, stage="optimized")


def _micros(estimate: float | None) -> str:
    return "" if estimate is None else f"{estimate:.2f}"


def _kinds(operations: tuple[str, ...]) -> str:
    return ", ".join(f"{k} x {n}" if n > 1 else k for k, n in Counter(operations).items())


def boundaries(found: Fusions) -> Table:
    """Values that are still written and read between kernels, and what is known of why."""
    shown = [one for one in found.boundaries if one.bytes][:_ROWS]
    top = max((one.bytes * one.times for one in shown), default=0) or 1
    rows = tuple(_boundary(one, top) for one in shown)
    left = len(found.boundaries) - len(shown)
    notes = [
        "Bytes: once written, and read once by each. A result of the program and a value that "
        "several read are facts, and need not be XLA's reason."
    ]
    if found.why_not:
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
