"""Draws a table's bars, or the shares of the user's lines, as a chart."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxlens.render.chart import chart, rect, words
from jaxlens.render.document import SourcePane
from jaxlens.render.graph.text_width import columns, shorten
from jaxlens.report import Table

_ROWS = 40  # drawn; a sentence says how many more there are
_ROW, _TOP, _PAD, _GAP = 20.0, 46.0, 12.0, 16.0
_LABEL, _LETTER = 60, 7.3  # columns of a line of code at most, and the width of one
_BAR = 150.0


@dataclass(frozen=True, slots=True)
class _Bar:
    """A figure: its text, and its share of the column's largest; None for no bar."""

    text: str
    share: float | None


@dataclass(frozen=True, slots=True)
class _Row:
    """A row: its name, its figures, its line number, and the columns before the name."""

    name: str
    bars: Sequence[_Bar]
    number: str = ""
    indent: int = 0


def has_bars(shown: Table | SourcePane) -> bool:
    """Whether there is anything to draw."""
    if isinstance(shown, SourcePane):
        return any(line.share is not None for line in shown.lines)
    return any(cell.bar is not None for row in shown.rows for cell in row)


def table_bars(table: Table) -> str:
    """Returns an SVG document: the table's rows, with the columns that have bars."""
    drawn = [
        n for n in range(len(table.columns)) if any(row[n].bar is not None for row in table.rows)
    ]
    rows = [
        _Row("" if 0 in drawn else row[0].text, [_Bar(row[n].text, row[n].bar) for n in drawn])
        for row in table.rows
    ]
    return _chart(table.title, [table.columns[n] for n in drawn], rows)


def source_bars(pane: SourcePane) -> str:
    """Returns an SVG document: the user's lines, with a bar for the share of each."""
    largest = max((line.share or 0.0 for line in pane.lines), default=0.0) or 1.0
    rows = []
    for line in pane.lines:
        indent = 5 + len(line.text) - len(line.text.lstrip())
        bar = _Bar(line.note, None if line.share is None else line.share / largest)
        rows.append(_Row(shorten(line.text.lstrip(), _LABEL), [bar], str(line.number), indent))
    return _chart(pane.title, [pane.scale], rows)


def _chart(title: str, heads: Sequence[str], rows: Sequence[_Row]) -> str:
    shown = rows[:_ROWS]
    longest = max((row.indent + columns(row.name) for row in shown), default=0)
    left = _PAD + _LETTER * longest + _GAP
    texts = [
        [columns(head), *(columns(row.bars[n].text) for row in shown)]
        for n, head in enumerate(heads)
    ]
    wide = [_BAR + _GAP + _LETTER * max(lengths) for lengths in texts]
    marks = [words(_PAD, 20, title)]
    for n, head in enumerate(heads):
        marks.append(words(left + sum(wide[:n]) + n * _GAP, _TOP - 8, head, "dim"))
    for at, row in enumerate(shown):
        y = _TOP + at * _ROW
        if row.number:
            marks.append(words(_PAD + _LETTER * 4, y + 14, row.number, "dim", "end"))
        marks.append(words(_PAD + _LETTER * row.indent, y + 14, row.name))
        for n, bar in enumerate(row.bars):
            x = left + sum(wide[:n]) + n * _GAP
            if bar.share is not None:
                marks.append(rect(x, y + 3, _BAR * min(max(bar.share, 0.0), 1.0), _ROW - 6, "hue0"))
            marks.append(words(x + _BAR + 8, y + 14, bar.text))
    bottom = _TOP + len(shown) * _ROW
    if more := len(rows) - len(shown):
        bottom += _ROW
        marks.append(words(_PAD, bottom - 6, f"{more:,} more rows", "dim"))
    across = left + sum(wide) + _GAP * len(wide)
    return chart(max(across, 2 * _PAD + _LETTER * columns(title)), bottom + _PAD, marks)
