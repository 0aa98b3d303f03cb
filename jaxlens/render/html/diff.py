"""Two programs side by side as HTML: one grid per group, three cells per row."""

from itertools import accumulate, pairwise

from jaxlens.render.document import Diff, DiffGroup, DiffRow, Line
from jaxlens.render.fate_marks import mark
from jaxlens.render.html.listing import FOLDS
from jaxlens.render.html.marks import (
    Ink,
    diff_sides,
    escaped,
    has_folds,
    node_id,
    note,
    pieces,
    style,
)
from jaxlens.render.html.payload import late_html

_AT_ONCE = 8  # rows of a diff behind a tab after which no further group stands in the page


def _grid(*rules: str) -> str:
    """Inline rules of rows, for pages that drop our CSS: JupyterLab keeps them."""
    return style("display:grid", *rules, "gap:0 8px")


_SIDES = "grid-template-columns:minmax(0,1fr) 0 minmax(0,1fr)"
_FATES = _grid("grid-template-columns:minmax(0,1fr) 12.5em minmax(0,1fr)")
_NO_FATES = _grid(_SIDES, f"{_SIDES}!important")  # our CSS leaves room for fates


def diff_html(diff: Diff, ink: Ink) -> str:
    """A heading over both columns, then each group behind its title."""
    toggle = FOLDS if has_folds(diff_sides(diff)) else ""
    grid = _FATES if any(row.fate for group in diff.groups for row in group.rows) else _NO_FATES
    head = f"<b>{escaped(diff.left)}</b><i></i><b>{escaped(diff.right)}</b>"
    groups, remark = _groups(diff, ink, grid)
    return (
        f'<div class="listing program-diff">{toggle}'
        f'<pre class="rows diff-rows"{grid}>{head}</pre>{groups}'
        f"{remark}{note(diff.note)}</div>"
    )


def _groups(diff: Diff, ink: Ink, grid: str) -> tuple[str, str]:
    """The groups and a remark; behind a tab those beyond the first rows travel deflated."""
    groups = [_group(group, ink, grid) for group in diff.groups]
    before = [0, *accumulate(len(group.rows) for group in diff.groups)]
    first = sum(rows < _AT_ONCE for rows in before[:-1])
    left = before[-1] - before[first]
    if ink.inline or not left:
        return "".join(groups), ""
    late, remark = late_html("".join(groups[first:]), f"{left:,} more rows")
    return "".join(groups[:first]) + late, remark


def _group(group: DiffGroup, ink: Ink, grid: str) -> str:
    # The source line of each row; both where its sides come from two.
    lines = ((side.line for side in (row.left, row.right) if side) for row in group.rows)
    owners = ["", *(" > ".join(dict.fromkeys(filter(None, names))) for names in lines)]
    if grid == _NO_FATES:  # no room for them: the group's title has the line
        owners = [""] * len(owners)
    rows = "".join(
        _row(row, now if now != before else "", ink)
        for row, (before, now) in zip(group.rows, pairwise(owners), strict=True)
    )
    opened = " open" if group.open else ""
    return (
        f"<details{opened}><summary>{escaped(group.title)}</summary>"
        f'<pre class="rows diff-rows"{grid}>{rows}</pre></details>'
    )


def _row(row: DiffRow, owner: str, ink: Ink) -> str:
    """Left, mark, right. The note stands on the right, under the line it explains."""
    fate = mark(row.fate)
    tint = f" style=background:{fate.tint}" if fate.tint else ""
    middle = f"<i{tint}>{escaped(f'{fate.sign} {row.fate}'.strip())}</i>"
    if owner:
        middle = f"<span>{middle if row.fate else ''} <small>{escaped(owner)}</small></span>"
    remark = f"<em>{escaped(row.note)}</em>" if row.note else ""
    return f"{_cell(row.left, ink)}{middle}{_cell(row.right, ink, remark)}"


def _cell(line: Line | None, ink: Ink, remark: str = "") -> str:
    if line is None:
        return f"<div>{remark}</div>"
    below = f"<br>{remark}" if remark else ""
    return f"<div{node_id(line)}{ink.cell(line.line)}>{pieces(line)}{below}</div>"
