"""The steps through the passes as HTML: the timeline as a table, and what the viewer slides over.

The table shows without scripts: a bar for each step's instructions, what the step did and what
such a pass is for. The rows of each step travel deflated beside it, as JSON-able data for
`passes/scrubber.js`, and so do the table's rows beyond the first. Most lines are equal from pass
to pass, so `lines` has each once, with its atoms. The rows of a step are three columns: the numbers
of their lines, each as the difference from the one before; a letter for each mark, capital for a
removed row; and indices into `notes` from 1, 0 for none.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line, PassStep, PassSteps
from jaxlens.render.fate_marks import MARKS, mark
from jaxlens.render.html.lazy_lines import row_of
from jaxlens.render.html.marks import Ink, note
from jaxlens.render.html.payload import Budget, data_html, runs
from jaxlens.render.html.table import table_html
from jaxlens.report import Cell, Table, count

_SHARE = 1_500_000  # bytes of one output that rows of passes may take


def passes_html(block: PassSteps, ink: Ink, budget: Budget | None = None) -> str:
    """The timeline, with the data that `passes/scrubber.js` makes a slider of."""
    budget = budget or Budget()
    whole = data(block, ink.hues)
    budget.read("\n".join(text for text, *_ in whole["lines"]))
    element, block = _fitting(block, whole, ink, min(budget.bytes, _SHARE))
    table = table_html(_timeline(block), inline=False, whole=False) if block.tables else ""
    return f"<div class=passes>{table}{note(block.note)}{budget.take(element)}</div>"


def _fitting(block: PassSteps, whole: dict[str, Any], ink: Ink, most: int) -> tuple[str, PassSteps]:
    """The data, with the rows of as many steps as fit."""
    element = data_html("passes", whole)
    full = sum(step.rows is not None for step in block.steps)
    while len(element) > most and full:
        full = min(full - 1, int(full * most / len(element)))
        bare = [replace(step, rows=None, atoms={}) for step in block.steps[full:]]
        block = replace(block, steps=(*block.steps[:full], *bare), note=left_out(len(bare)))
        element = data_html("passes", data(block, ink.hues))
    return element, block


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
    rows, listed = [], {""}
    for row in table.rows:
        number, size = row[0].value, row[after].value
        bar = size / most if isinstance(size, int | float) else None
        meaning = meanings.get(number, "") if isinstance(number, int) else ""
        sized, purpose = replace(row[after], bar=bar), "" if meaning in listed else meaning
        rows.append((*row[:after], sized, *row[after + 1 :], Cell(purpose)))
        listed.add(meaning)
    return replace(table, columns=(*table.columns, "what it is for"), rows=tuple(rows))


_LETTERS = dict(zip(MARKS, "abcdefghij", strict=True))


def data(block: PassSteps, hues: Mapping[str, int] | None = None) -> dict[str, Any]:
    """All that the viewer shows of the passes.

    Args:
        block: The steps.
        hues: The hue of each source line that has one, by its name.

    Returns:
        `marks`: word, sign and tint by letter; `lines`: text and id as a `lazy_lines.Row` has them,
        place in `owners` from 1 (0: none), atoms as `payload.runs` writes them; `owners`: names of
        source lines with their hues (-1: none); `notes`; `steps`.
    """
    pool = _Pool(hues or {})
    steps = [_step(step, pool) for step in block.steps]
    marks = {_LETTERS[name]: [name, mark(name).sign, mark(name).tint] for name in MARKS}
    return {"marks": marks, "note": visible(block.note), "steps": steps, **pool.columns()}


def _step(step: PassStep, pool: "_Pool") -> dict[str, Any]:
    data: dict[str, Any] = {
        "index": step.index,
        "title": visible(step.title),
        "name": visible(step.name),
        "size": step.size,
        "did": visible(step.did),
        "for": visible(step.meaning),
    }
    if step.rows is not None:
        letters = ((_LETTERS[row.mark], row.gone) for row in step.rows)
        data["marks"] = "".join(letter.upper() if gone else letter for letter, gone in letters)
        numbers = [pool.line(row.line, step.atoms) for row in step.rows]
        data["lines"] = [now - was for was, now in pairwise((0, *numbers))]
        data["notes"] = [pool.note(row.note) for row in step.rows]
    return data


class _Pool:
    """Lines, owners and notes, each once, with their numbers."""

    def __init__(self, hues: Mapping[str, int]) -> None:
        self._hues = hues
        self._lines: dict[tuple[Line, tuple[int, ...]], int] = {}
        self._owners: dict[str, int] = {}
        self._notes: dict[str, int] = {}

    def line(self, line: Line, atoms: Mapping[str, tuple[int, ...]]) -> int:
        key = line, atoms.get(line.id, ())
        return self._lines.setdefault(key, len(self._lines))

    def note(self, note: str) -> int:
        return self._notes.setdefault(note, len(self._notes) + 1) if note else 0

    def columns(self) -> dict[str, Any]:
        lines = [self._written(line, atoms) for line, atoms in self._lines]
        owners = [[visible(name), self._hues.get(name, -1)] for name in self._owners]
        return {"lines": lines, "owners": owners, "notes": list(map(visible, self._notes))}

    def _written(self, line: Line, atoms: tuple[int, ...]) -> list[Any]:
        owner = self._owners.setdefault(line.line, len(self._owners)) + 1 if line.line else 0
        text, id, _ = row_of(replace(line, indent=0))
        return [text, id, owner, *runs(atoms)]
