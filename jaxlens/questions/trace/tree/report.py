"""Depth and work in sentences, and a table of the levels."""

from collections.abc import Iterator
from math import ceil, log2

from jaxlens.program.sentences import listed
from jaxlens.questions.trace.tree.facts import Depth, Level
from jaxlens.report import Cell, Finding, NumberColumn, Report, Table, count, table

_MOST = 40  # rows of the table


def report(depth: Depth) -> Report:
    """Reports how deep a program is."""
    return Report("Depth", tuple(findings(depth)), (levels_table(depth),) if depth.levels else ())


def findings(depth: Depth) -> Iterator[Finding]:
    """Yields what waits for what, in sentences."""
    equations = count(depth.equations, "equation")
    if depth.why:
        smaller = "; smaller inputs have one" if " over " in depth.why else ""
        yield Finding(f"No tree of its {equations}: {depth.why}{smaller}.", "unknown")
        return
    if not depth.levels:
        yield Finding(f"No level: its {equations} only move elements, or read no input.")
        return
    yield Finding(_first(depth))
    if depth.reads is not None and depth.reads > 2:
        yield Finding(
            f"One element of the result is made of up to {depth.reads:,} elements of the inputs: "
            f"taken one after another they need {depth.reads - 1:,} levels, taken in pairs "
            f"{ceil(log2(depth.reads))}."
        )
    if depth.moving:
        compute = "computes" if depth.computing == 1 else "compute"
        moves = "moves" if depth.moving == 1 else "move"
        yield Finding(
            f"Of its {equations} {depth.computing:,} {compute}; {depth.moving:,} only {moves} "
            f"elements ({listed(depth.moves, 5)}), which takes no level."
        )
    reduced = {name for level in depth.levels for name in level.operations if "reduce" in name}
    if reduced:
        makes = "makes" if len(reduced) == 1 else "make"
        yield Finding(
            f"{listed(sorted(reduced))} {makes} an element in one operation here: in which order "
            f"what it reads is combined is for XLA to choose."
        )
    if depth.opaque:
        one = "is one operation that reads all of its operands"
        many = "are one operation each, which reads all of its operands"
        yield Finding(
            f"{listed(depth.opaque)} {one if len(depth.opaque) == 1 else many}: which elements "
            f"make which is not followed.",
            "estimate",
        )


def _first(depth: Depth) -> str:
    levels, work = depth.depth or 1, depth.work or 1  # both are known where there are levels
    size, operations = f"{count(levels, 'level')} deep", count(work, "operation")
    if work == levels > 1:
        return f"{size}: each of its {operations} on elements waits for the one before."
    average = f"{work / levels:,.0f}" if work >= 100 * levels else f"{work / levels:.3g}"
    return f"{size}, {operations} on elements: on average {average} can be done at the same time."


def levels_table(depth: Depth) -> Table:
    """Returns a table with one row per level."""
    rows = (_row(n, level) for n, level in enumerate(depth.levels, 1))
    operations = NumberColumn("operations", bar="operations")
    columns = (NumberColumn("level"), operations, "of", "equations")
    return table("Levels", columns, rows, most=_MOST, rest=" in .levels", stage="jaxpr")


def _row(number: int, level: Level) -> tuple[object, ...]:
    of = ", ".join(f"{n:,} {name}" for name, n in level.operations.items())
    ids = " ".join(level.equations[:6]) + (" ..." if len(level.equations) > 6 else "")
    return number, level.total, of, Cell(ids, ids=level.equations)
