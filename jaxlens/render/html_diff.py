"""Two programs side by side as HTML: one grid per group, three cells per row."""

from jaxlens.render.document import Diff, DiffGroup, DiffRow, Line
from jaxlens.render.fates import mark
from jaxlens.render.html_listing import FOLDS
from jaxlens.render.html_marks import (
    Ink,
    diff_sides,
    escaped,
    has_folds,
    node_id,
    note,
    pieces,
    style,
)

# Inline, for pages that drop our CSS: JupyterLab keeps this form of it.
_GRID = style("display:grid", "grid-template-columns:minmax(0,1fr) 9em minmax(0,1fr)", "gap:0 8px")


def diff_html(diff: Diff, ink: Ink) -> str:
    """A heading over both columns, then each group behind its title."""
    toggle = FOLDS if has_folds(diff_sides(diff)) else ""
    head = f"<b>{escaped(diff.left)}</b><i></i><b>{escaped(diff.right)}</b>"
    groups = "".join(_group(group, ink) for group in diff.groups)
    return (
        f'<div class="L D">{toggle}<pre class="c d"{_GRID}>{head}</pre>{groups}'
        f"{note(diff.note)}</div>"
    )


def _group(group: DiffGroup, ink: Ink) -> str:
    rows = "".join(_row(row, ink) for row in group.rows)
    opened = " open" if group.open else ""
    return (
        f"<details{opened}><summary>{escaped(group.title)}</summary>"
        f'<pre class="c d"{_GRID}>{rows}</pre></details>'
    )


def _row(row: DiffRow, ink: Ink) -> str:
    """Left, mark, right. The note stands on the right, under the line it explains."""
    fate = mark(row.fate)
    tint = f" style=background:{fate.tint}" if fate.tint else ""
    words = f"<i{tint}>{escaped(f'{fate.sign} {row.fate}'.strip())}</i>"
    remark = f"<em>{escaped(row.note)}</em>" if row.note else ""
    return f"{_cell(row.left, ink)}{words}{_cell(row.right, ink, remark)}"


def _cell(line: Line | None, ink: Ink, remark: str = "") -> str:
    if line is None:
        return f"<div>{remark}</div>"
    below = f"<br>{remark}" if remark else ""
    return f"<div{node_id(line)}{ink.cell(line.line)}>{pieces(line)}{below}</div>"
