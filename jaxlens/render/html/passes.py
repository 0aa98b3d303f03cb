"""The steps through the passes as HTML: the timeline as a table, and what the viewer slides over.

The table says all without scripts: a bar for each step's instructions, what the step did and
what such a pass is for. The rows of each step travel deflated beside it (`passes_data.py`).
"""

from dataclasses import replace

from jaxlens.render.document import PassSteps
from jaxlens.render.html.marks import Ink, note
from jaxlens.render.html.passes_data import data
from jaxlens.render.html.payload import Budget, data_html
from jaxlens.render.html.table import table_html
from jaxlens.report import Cell, Table, count

_SHARE = 1_500_000  # bytes of one output that rows of passes may take


def passes_html(block: PassSteps, ink: Ink, budget: Budget | None = None) -> str:
    """The timeline, with the data that `passes/scrubber.js` makes a slider of."""
    budget = budget or Budget()
    element, block = _fitting(block, ink, min(budget.bytes, _SHARE))
    table = table_html(_timeline(block), inline=False, whole=True) if block.tables else ""
    return f"<div class=passes>{table}{note(block.note)}{budget.take(element)}</div>"


def _fitting(block: PassSteps, ink: Ink, most: int) -> tuple[str, PassSteps]:
    """The data, with the rows of as many steps as fit."""
    element = data_html("passes", data(block, ink.hues))
    kept = sum(step.rows is not None for step in block.steps)
    while len(element) > most and kept:
        kept = min(kept - 1, int(kept * most / len(element)))
        block = _cut(block, kept)
        element = data_html("passes", data(block, ink.hues))
    return element, block


def _cut(block: PassSteps, kept: int) -> PassSteps:
    """The block with the rows of its first steps."""
    bare = [replace(step, rows=None, atoms={}) for step in block.steps[kept:]]
    return replace(block, steps=(*block.steps[:kept], *bare), note=left_out(len(bare)))


def left_out(steps: int) -> str:
    """The note under a timeline that lacks the rows of some steps."""
    if not steps:
        return ""
    return (
        f"The rows of {count(steps, 'step')} are left out here; a live kernel shows them, "
        "and so does --pass with the step's number."
    )


def _timeline(block: PassSteps) -> Table:
    """The first of the block's tables with a bar for each size, and what each pass is for, once."""
    table = block.tables[0]
    meanings = {step.index: step.meaning for step in block.steps}
    after = table.columns.index("after")
    most = max((step.size or 0 for step in block.steps), default=0) or 1
    rows, said = [], set[str]()
    for row in table.rows:
        number, size = row[0].value, row[after].value
        bar = size / most if isinstance(size, int | float) else None
        told = meanings.get(number, "") if isinstance(number, int) else ""
        sized = replace(row[after], bar=bar)
        rows.append((*row[:after], sized, *row[after + 1 :], Cell("" if told in said else told)))
        said.add(told)
    return replace(table, columns=(*table.columns, "what it is for"), rows=tuple(rows))
