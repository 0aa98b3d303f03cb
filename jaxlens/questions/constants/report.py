"""The arrays that a program closes over and what XLA folded, in sentences and tables."""

from jaxlens.program.closed_over import LARGE, sentence
from jaxlens.program.compile_parts import FOLDING
from jaxlens.program.sentences import listed
from jaxlens.questions.constants.facts import NOT_COMPILED, Captured
from jaxlens.report import Cell, Finding, Report, Table, amount, count, duration, is_cause

_ROWS = 30


def report(facts: Captured) -> Report:
    """Reports the constants of a program, their cost, and the cure."""
    compiled = facts.missing != NOT_COMPILED
    folding = _folding(facts) if compiled else []
    if facts.constants:
        findings = [sentence(facts.constants), *_copies(facts), *folding]
    elif compiled and facts.folded and not facts.missing:
        findings = _folding(facts, "No array is closed over; ")
    else:
        nothing = ", and nothing was folded" if compiled and not facts.missing else ""
        findings = [Finding(f"No array is closed over{nothing}."), *folding]
    tables = [_arrays(facts)] if facts.constants else []
    if len(facts.stages) > 1 and any(n for n, _ in facts.stages.values()):
        tables.append(_stages(facts))
    if facts.folded:
        tables.append(_folded(facts))
    return Report("Captured", tuple(findings), tuple(tables))


def _copies(facts: Captured) -> list[Finding]:
    """Returns the finding on arrays that are copied once for each body that uses them."""
    several = [c for c in facts.constants if c.bodies > 1]
    if not several:
        return []
    copies = [f"`{c.name}` {c.bodies:,} times" for c in several]
    extra = sum((c.bodies - 1) * c.bytes for c in several)
    return [
        Finding(
            f"Jitted functions hold their own: {listed(copies)}; that is {amount(extra)} more in "
            "what is lowered."
        )
    ]


def _folding(facts: Captured, before: str = "") -> list[Finding]:
    """Returns the finding on what was folded; `before` is the beginning of its sentence."""
    if facts.missing:
        return [Finding(f"What was folded is not known: {facts.missing}.", "unknown")]
    if not facts.folded:
        return []
    seconds = facts.folding
    lead = "" if seconds is None else f"Constant folding took {duration(seconds)}. "
    instructions = {id for fold in facts.folded for id in (fold.id, *fold.gone)}
    text = (
        f"{before}XLA folded {count(len(instructions), 'instruction')} into "
        f"{count(len(facts.folded), 'constant')} of {amount(facts.folded_bytes)} while it compiled"
    )
    largest = max(facts.folded, key=lambda fold: fold.bytes or 0)
    size = largest.bytes or 0
    if size >= LARGE and is_cause(size, facts.folded_bytes):
        where = f" at {largest.line}" if largest.line else ""
        text += f", the largest ({largest.type}, {amount(size)}) the result of "
        text += f"{largest.opcode}{where}"
        if largest.own:
            text += ": made from an argument, it would be computed when the program runs"
    return [Finding(f"{text}.", ids=tuple(fold.constant for fold in facts.folded), lead=lead)]


def _arrays(facts: Captured) -> Table:
    """Returns a table with one row per array."""
    largest = facts.constants[0].bytes or 1
    rows = tuple(
        (
            Cell(c.name),
            Cell(str(c.type)),
            Cell(amount(c.bytes), c.bytes, bar=c.bytes / largest),
            Cell(c.held),
            Cell(f"{c.holder} ({c.defined})" if c.defined else c.holder),
            Cell(str(c.span or "")),
            Cell(f"{c.reads:,}" if c.reads else "", c.reads),
        )
        for c in facts.constants[:_ROWS]
    )
    left = len(facts.constants) - len(rows)
    more = f" {count(left, 'more array')} below these." if left else ""
    return Table(
        "Arrays that are closed over",
        ("name", "type", "bytes", "held as", "by", "first read", "reads"),
        rows,
        f"Reads: equations that name it, in all bodies.{more}",
        right=(2, 6),
    )


def _stages(facts: Captured) -> Table:
    """Returns a table of the constants of each stage."""
    titles = {
        "jaxpr": "jaxpr",
        "stablehlo": "StableHLO",
        "optimized": "Optimised HLO",
        "executable": "Executable",
    }
    largest = max(size for _, size in facts.stages.values()) or 1
    rows = tuple(
        (
            Cell(titles[name]),
            Cell(f"{n:,}", n),
            Cell(amount(size), size, bar=size / largest),
        )
        for name, (n, size) in facts.stages.items()
    )
    return Table(
        "Constants by stage",
        ("stage", "arrays", "bytes"),
        rows,
        "Constants with dimensions, the program's own too. StableHLO as text takes two characters "
        "a byte, where an array is not one number throughout.",
        right=(1, 2),
    )


def _folded(facts: Captured) -> Table:
    """Returns a table with one row per folded constant."""
    ranked = sorted(facts.folded, key=lambda fold: (-(fold.bytes or 0), fold.step, fold.id))
    largest = ranked[0].bytes or 1
    rows = tuple(
        (
            Cell(fold.constant, ids=(fold.constant,)),
            Cell(fold.type),
            Cell(amount(fold.bytes), fold.bytes, bar=(fold.bytes or 0) / largest),
            Cell(fold.opcode),
            Cell(f"{len(fold.gone) + 1:,}", len(fold.gone) + 1),
            Cell(fold.line or "(no line)"),
        )
        for fold in ranked[:_ROWS]
    )
    left = len(ranked) - len(rows)
    more = f" {count(left, 'more constant')} below these." if left else ""
    return Table(
        "Folded while compiling",
        ("constant", "type", "bytes", "was", "instructions", "from line"),
        rows,
        f"As StableHLO and the first HLO show, and the dumps before and after {FOLDING}; some is "
        f"folded again, or removed, later.{more}",
        right=(2, 4),
        stage="optimized",
    )
