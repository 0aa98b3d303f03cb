"""The arrays that a program closes over and what XLA folded, in sentences and tables."""

from jaxlens.program.closed_over import LARGE, sentence
from jaxlens.program.compile_parts import FOLDING
from jaxlens.questions.constants.facts import NOT_COMPILED, Captured
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Report,
    Table,
    amount,
    count,
    is_cause,
    table,
)

_ROWS = 30
_BYTES = NumberColumn("bytes", amount, "bytes")


def report(facts: Captured) -> Report:
    """Reports the constants of a program, their cost, and the cure."""
    compiled = facts.missing != NOT_COMPILED
    folding = _folding(facts) if compiled else []
    if facts.constants:
        findings = [sentence(facts.constants), *folding]
    elif compiled and facts.folded and not facts.missing:
        findings = _folding(facts, "No array is closed over; ")
    else:
        nothing = ", and nothing was folded" if compiled and not facts.missing else ""
        findings = [Finding(f"No array is closed over{nothing}."), *folding]
    tables = [_arrays(facts)] if facts.constants else []
    if facts.folded:
        tables.append(_folded(facts))
    return Report("Captured", tuple(findings), tuple(tables))


def _folding(facts: Captured, before: str = "") -> list[Finding]:
    """Returns the finding on what was folded; `before` is the beginning of its sentence."""
    if facts.missing:
        return [Finding(f"What was folded is not known: {facts.missing}.", "unknown")]
    if not facts.folded:
        return []
    constants = count(len(facts.folded), "constant")
    text = f"{before}XLA folded parts of it into {constants} of {amount(facts.folded_bytes)}"
    text += " while it compiled"
    largest = max(facts.folded, key=lambda fold: fold.bytes or 0)
    size = largest.bytes or 0
    if size >= LARGE and is_cause(size, facts.folded_bytes):
        where = f" at {largest.line}" if largest.line else ""
        text += f", the largest ({largest.type}, {amount(size)}) the result of "
        text += f"{largest.opcode}{where}"
        if largest.own:
            text += ": made from an argument, it would be computed when the program runs"
    return [Finding(f"{text}.", ids=tuple(fold.constant for fold in facts.folded))]


def _arrays(facts: Captured) -> Table:
    """Returns a table with one row per array."""
    rows = (
        (
            c.name,
            c.type,
            c.bytes,
            c.held,
            f"{c.holder} ({c.defined})" if c.defined else c.holder,
            c.span,
            c.reads or None,
        )
        for c in facts.constants
    )
    reads = NumberColumn("reads", none="")
    columns = ("name", "type", _BYTES, "held as", "by", "first read", reads)
    note = "Reads: equations that name it, in all bodies."
    return table("Arrays that are closed over", columns, rows, note, most=_ROWS)


def _folded(facts: Captured) -> Table:
    """Returns a table with one row per folded constant."""
    ranked = sorted(facts.folded, key=lambda fold: (-(fold.bytes or 0), fold.step, fold.id))
    rows = (
        (
            Cell(fold.constant, ids=(fold.constant,)),
            fold.type,
            fold.bytes,
            fold.opcode,
            fold.line or "(no line)",
        )
        for fold in ranked
    )
    columns = ("constant", "type", _BYTES, "was", "from line")
    note = f"As the dumps before and after {FOLDING} show; some is folded again, or removed, later."
    title = "Folded while compiling"
    return table(title, columns, rows, note, most=_ROWS, stage="optimized")
