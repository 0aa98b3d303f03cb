"""Formats the facts about fusion as sentences and tables."""

from collections import Counter
from collections.abc import Iterator

from jaxlens.links.links import Links
from jaxlens.program.fusion_change import again, fates_table
from jaxlens.program.sentences import listed, passes, quoter
from jaxlens.questions.fusion.facts import Fusions
from jaxlens.render.document import Block, Tab, Tabs
from jaxlens.render.link_data import Web
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Overlay,
    Report,
    Table,
    Trust,
    amount,
    count,
    is_cause,
    share,
    table,
    tally,
)
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.links import weave
from jaxlens.views.passes.hlo_diff import diff as change_diff
from jaxlens.views.report_blocks import report_blocks

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
    yield _left(facts)
    yield from again(facts.change, quoter(facts.subject()))
    yield from _refused(facts)


def _saved(facts: Fusions) -> str:
    """Returns the sentence on bytes moved, and those that operations one by one would move."""
    runs = f"{count(facts.before, 'operation')} run as {facts.after:,}"
    of, moved = passes(facts.open), sum(facts.memories.values())
    saved, _ = facts.sums
    if not facts.fusions:
        moves = f" A run{of} moves {_moved(facts)}." if moved else ""
        return f"Nothing was fused: {runs}, and no fusion joins two operations.{moves}"
    top = facts.fusions[0]
    moves = "Nothing moves in memory"
    if moved + saved:
        moves = f"A run{of} moves {_moved(facts)}; one by one, its operations would move "
        moves += amount(moved + saved)
    most = ""
    if len(facts.fusions) > 1 and is_cause(top.saved * top.times, saved):
        part = share(top.saved * top.times, saved)
        lines = f" ({listed(top.lines, 2)})" if top.lines else ""
        most = f"; {top.id}{lines} saves {part} of the difference"
    many = count(len(facts.fusions), "fusion")
    return f"{moves}: {runs}, {many} of several operations{most}."


def _moved(facts: Fusions) -> str:
    """Returns the bytes that kernels move, those of each memory where there are several."""
    if len(facts.memories) < 2:
        return f"{amount(sum(facts.memories.values()))} in memory"
    return listed([f"{amount(size)} in {name}" for name, size in facts.memories.items()])


def _of(facts: Fusions) -> str:
    return f" Of a run{passes(facts.open)}." if facts.open else ""


def _left(facts: Fusions) -> Finding:
    """Returns the finding on the largest value between kernels, and why it is not fused."""
    _, left = facts.sums
    if not left:
        memory = next(iter(facts.memories)) if len(facts.memories) > 1 else "memory"
        return Finding(f"No value is written to {memory} by one kernel and read by another.")
    top = facts.boundaries[0]
    if not is_cause(top.bytes * top.times, left):
        values = count(sum(value.bytes > 0 for value in facts.boundaries), "value")
        text = f"{amount(left)} of it travel between kernels in {values}, none of which is a fifth."
        return Finding(text)
    why = top.why or UNSAID
    trust: Trust = "xla" if top.trust == "xla" else "counted" if top.why else "unknown"
    most, lines = amount(top.bytes * top.times), f" ({listed(top.lines, 2)})" if top.lines else ""
    return Finding(
        f"{amount(left)} of it travel between kernels, most ({most}) from "
        f"{top.producer}{lines} to {listed(top.consumers, 2)}: {why}.",
        trust,
        (top.producer, *top.consumers),
    )


def _refused(facts: Fusions) -> Iterator[Finding]:
    """Yields XLA's reasons not to fuse, where its log has some."""
    if facts.refused:
        reasons = Counter(facts.refused.values()).most_common()
        quoted = [f'"{reason}" ({n})' if n > 1 else f'"{reason}"' for reason, n in reasons]
        pronoun = "it" if len(facts.refused) == 1 else "them"
        yield Finding(
            f"XLA refused to fuse {count(len(facts.refused), 'instruction')} into what reads "
            f"{pronoun}: {listed(quoted)}.",
            "xla",
            tuple(facts.refused),
        )


def fusions(facts: Fusions) -> Table:
    """Returns a table with a row per fusion: operations, source lines, bytes saved."""
    looped = any(fusion.times > 1 for fusion in facts.fusions[:_ROWS])
    top = max((fusion.saved * fusion.times for fusion in facts.fusions), default=0) or 1
    rows = (
        (
            Cell(fusion.id, ids=(fusion.id,)),
            fusion.kind,
            ", ".join(tally(fusion.operations)),
            ", ".join(fusion.lines),
            fusion.times if looped else None,
            Cell(amount(fusion.saved), fusion.saved, bar=fusion.saved * fusion.times / top),
            fusion.repeated,
        )
        for fusion in facts.fusions
    )
    numbers = NumberColumn("runs", rare=True), NumberColumn("saved"), NumberColumn("repeats")
    note = (
        "Saved: what its operations would read and write one by one, less what it does as one, "
        "in each run. Repeats: operations that another place has computed already."
    )
    if facts.wrapped:
        note += f" {count(facts.wrapped, 'fusion')} of one operation joined nothing."
    note += f" {facts.note}" if facts.note else ""
    note += _of(facts)
    columns = ("fusion", "kind", "joins", "from lines", *numbers)
    return table("Fusions", columns, rows, note, most=_ROWS, stage="optimized")


def boundaries(facts: Fusions) -> Table:
    """Returns a table of the values between kernels, and why they are not fused."""
    top = max((value.bytes * value.times for value in facts.boundaries), default=0) or 1
    rows = (
        (
            Cell(value.producer, ids=(value.producer,)),
            Cell(listed(value.consumers, 3), ids=value.consumers),
            listed(value.lines, 3),
            value.times,
            Cell(amount(value.bytes), value.bytes, bar=value.bytes * value.times / top),
            value.why or UNSAID,
        )
        for value in facts.boundaries
        if value.bytes
    )
    note = (
        "Bytes: once written, and read once by each. A result of the program and a value that "
        "several read are facts, and need not be XLA's reason."
    )
    note += " Only on GPUs XLA says why." if facts.why_not else ""
    note += _of(facts)
    sizes = NumberColumn("runs"), NumberColumn("bytes")
    columns = ("written by", "read by", "from lines", *sizes, "what is known of why")
    return table("Not fused", columns, rows, note, most=_ROWS, stage="optimized")


_LARGE = 500  # operations before fusion


def web(links: Links, fusions: Fusions) -> Web | None:
    """Returns links of tables and diff; None for a large program, where they are slow."""
    return weave(links, ("jaxpr", "optimized")) if fusions.before < _LARGE else None


def blocks(fusions: Fusions, full: bool = False) -> list[Block]:
    """Returns findings, tables and the diff.

    Args:
        fusions: The fusions.
        full: Whether to add the graph, in which fusions open, and to leave nothing out.
    """
    inputs = fusions.subject().program.inputs
    shown = change_diff(fusions.change, "Before fusion", "After", fusions.note, full, inputs)
    tabs = [Tab("Before and after fusion", (shown,), in_text=True, key="change")]
    tabs += [Tab("Graph", (hlo_figure.pane(fusions.subject()),), key="graph")] if full else []
    return [*report_blocks(report(fusions)), Tabs(tuple(tabs))]
