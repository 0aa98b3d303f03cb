"""Renders a table as aligned columns of text."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import zip_longest

from jaxlens.render.control_chars import visible
from jaxlens.render.text.lines import words, wrap
from jaxlens.report import Table

_GAP = 2
_LEAST = 12  # minimum width of a narrowed column: a wide table reads better than a tall one
_HEADING = 16  # up to which a heading of numbers is not wrapped; names of devices are longer


def table_lines(table: Table, width: int) -> list[str]:
    """Returns title, headings, rule, rows and note as lines; numbers are right-aligned.

    Args:
        table: The table to render.
        width: Target width in columns; the widest columns are wrapped to reach it. Names and
            numbers are not broken, so a table of long names or many columns may be wider.
    """
    head = [visible(c) for c in table.columns]
    rows = [[visible(cell.text) for cell in row] for row in table.rows]
    columns = list(zip(head, *rows, strict=True))
    widths = _narrowed(columns, table.right, width - 2)
    fold = cache(_folded)  # the cells of a column are often the same
    lines = [visible(table.title)] if table.title else []
    lines += _row(head, widths, table.right, fold)
    lines += _row(["-" * w for w in widths], widths, (), fold)
    for row in rows:
        lines += _row(row, widths, table.right, fold)
    if not rows:
        lines.append("  (no rows)")
    if table.note:
        lines += wrap(visible(table.note), width, initial_indent="  ", subsequent_indent="  ")
    return lines


def _narrowed(columns: Sequence[Sequence[str]], right: Sequence[int], total: int) -> list[int]:
    """Returns column widths that sum to `total` if possible, by narrowing the widest column.

    A column is narrowed to its longest word at most, and to no less than `_LEAST`; a column of
    numbers (`right`) to its longest number, and its heading to no less than `_HEADING`.
    """
    widths = [max(map(len, column)) for column in columns]
    least = [
        max(min(w, _HEADING), *map(len, column[1:]), *map(len, words(column[0])), 0)
        if i in right
        else max(min(w, _LEAST), *(len(x) for t in set(column) for x in words(t)), 0)
        for i, (w, column) in enumerate(zip(widths, columns, strict=True))
    ]
    over = sum(widths) + _GAP * (len(widths) - 1) - total
    while over > 0:
        can = [i for i, w in enumerate(widths) if w > least[i]]
        if not can:
            break
        widest = max(can, key=lambda i: widths[i])
        widths[widest] -= 1
        over -= 1
    return widths


def _folded(text: str, width: int) -> list[str]:
    return [text] if len(text) <= width else wrap(text, width, break_on_hyphens=False)


def _row(
    row: Sequence[str],
    widths: Sequence[int],
    right: Sequence[int],
    fold: Callable[[str, int], list[str]],
) -> list[str]:
    """Returns the lines of one row; a wrapped cell continues on the lines below."""
    cells = map(fold, row, widths)
    lines = []
    for parts in zip_longest(*cells, fillvalue=""):
        fitted = (
            part.rjust(width) if i in right else part.ljust(width)
            for i, (part, width) in enumerate(zip(parts, widths, strict=True))
        )
        lines.append(("  " + (" " * _GAP).join(fitted)).rstrip())
    return lines
