"""The views of a cell that compiled: one line below it, and the full answer of `%explain`."""

from collections.abc import Sequence
from dataclasses import replace

from jaxlens.ir.compile_log import Cure
from jaxlens.lenses.recompile.after_cell import AfterCell, report, warnings
from jaxlens.lenses.recompile.tables import tables
from jaxlens.render.document import Document, Findings, TableBlock
from jaxlens.render.html.brief import brief_html
from jaxlens.report import Finding


def line(after: AfterCell) -> tuple[Finding, ...]:
    """Returns what is said unasked: a line if a function was compiled, then warnings."""
    return report(after).findings


def text(after: AfterCell, times: bool) -> str:
    """Returns the line and the warnings as text.

    Args:
        after: What the cell compiled.
        times: Whether figures that change from run to run are written.
    """
    lines = [finding.measured if times else finding.text for finding in line(after)]
    start = 1 if after.compiles else 0
    return "\n".join([*lines[:start], *(f"Warning: {warning}" for warning in lines[start:])])


def html(after: AfterCell) -> str:
    """Returns the same as HTML; a click on the line opens the tables of the cell's calls."""
    blocks = tuple(map(TableBlock, tables(after.log))) if after.compiles else ()
    warned = warnings(after)
    first = line(after)[: bool(after.compiles)]
    return brief_html(first[0] if first else None, warned, blocks)


def explained(answer: Document, after: AfterCell, ways: Sequence[Cure]) -> Document:
    """Returns the full answer about a cell, below the warnings.

    Args:
        answer: The document of the cell's compile log.
        after: What the cell compiled.
        ways: What would avoid that XLA replicates values.
    """
    found = warnings(replace(after, growth=None), explained=True)
    cures = tuple(Finding(f"Cure: {way.text} ({way.tried}).", "compared") for way in ways)
    first = (Findings((*found, *cures)),) if found else ()
    return replace(answer, blocks=(*first, *answer.blocks))
