"""A table as aligned columns of text."""

import textwrap
from collections.abc import Sequence

from jaxlens.lenses.report import Table
from jaxlens.render.visible import visible

_GAP = 2
_LEAST = 12  # columns are not cut below this


def table_lines(table: Table, width: int, full: bool = False) -> list[str]:
    """Title, headings, rule, rows and note; numbers stand right.

    Args:
        table: What to write.
        width: Columns to keep to: the widest columns of words are cut with an ellipsis.
        full: Cut nothing.
    """
    head = [visible(c) for c in table.columns]
    rows = [[visible(cell.text) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)] if head else []
    if not full:
        widths = _narrowed(widths, table.right, width - 2)
    lines = [visible(table.title)] if table.title else []
    lines += [_row(head, widths, table.right), _row(["-" * w for w in widths], widths, ())]
    lines += [_row(row, widths, table.right) for row in rows] or ["  (no rows)"]
    if table.note:
        lines += textwrap.wrap(
            visible(table.note), width, initial_indent="  ", subsequent_indent="  "
        )
    return lines


def _narrowed(widths: Sequence[int], right: Sequence[int], total: int) -> list[int]:
    """Takes from the widest column of words until all fit, or none can give more."""
    narrowed = list(widths)
    words = [i for i in range(len(narrowed)) if i not in right]
    over = sum(narrowed) + _GAP * (len(narrowed) - 1) - total
    while over > 0 and words:
        widest = max(words, key=lambda i: narrowed[i])
        others = [narrowed[i] for i in words if i != widest]
        give = min(over, narrowed[widest] - max([_LEAST, *others]))
        if give <= 0:
            give = min(1, narrowed[widest] - _LEAST)
        if give <= 0:
            break
        narrowed[widest] -= give
        over -= give
    return narrowed


def _row(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    fitted = []
    for i, (word, width) in enumerate(zip(row, widths, strict=True)):
        shown = word if len(word) <= width else word[: width - 1] + "…"
        fitted.append(shown.rjust(width) if i in right else shown.ljust(width))
    return ("  " + (" " * _GAP).join(fitted)).rstrip()
