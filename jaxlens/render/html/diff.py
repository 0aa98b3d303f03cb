"""Two programs as HTML: a group behind its title, a row per instruction.

A row is a mark, the line before, and the line after, which stands beside it where both fit and else
below it. Where no row has a mark (bytecode beside equations), the sides are two columns.
"""

from dataclasses import replace
from itertools import accumulate, pairwise

from jaxlens.render.document import Diff, DiffGroup, DiffRow, Line
from jaxlens.render.fate_marks import mark
from jaxlens.render.html.listing import FOLDS
from jaxlens.render.html.marks import (
    Ink,
    attr,
    diff_sides,
    escaped,
    has_folds,
    node_id,
    note,
    pieces,
    style,
)
from jaxlens.render.html.payload import late_html

# Rows of a diff after which further groups are deflated, fewer in a pane; and the rest of a group.
_AT_ONCE, _IN_PANE = 60, 8
_MARK = 12  # characters of a mark
# Inline rules for pages that drop our CSS: JupyterLab keeps them.
_COLUMNS = style("display:grid", "grid-template-columns:minmax(0,1fr) minmax(0,1fr)", "gap:0 8px")
# Shown by the CSS that makes it work, where scripts run.
_CLUSTERS = "<label class=cluster-switch hidden=1><input type=checkbox>as clusters</label>"
_BESIDE, _BELOW = "display:inline-block", "padding-left:8em"


def diff_html(diff: Diff, ink: Ink) -> str:
    """The names of both programs, then each group behind its title."""
    toggle = FOLDS if has_folds(diff_sides(diff)) else ""
    marked = any(row.fate for group in diff.groups for row in group.rows)
    left, right = f"<b>{escaped(diff.left)}</b>", f"<b>{escaped(diff.right)}</b>"
    head = f"<div class=remark>{left} → {right}</div>{_CLUSTERS}"
    if not marked:
        head = f"<div class=diff-sides{_COLUMNS}>{left}{right}</div>"
    groups, remark = _groups(diff, ink, marked)
    return (
        f'<div class="listing program-diff">{toggle}{head}{groups}{remark}{note(diff.note)}</div>'
    )


def _groups(diff: Diff, ink: Ink, marked: bool) -> tuple[str, str]:
    """The groups and a remark; those beyond the first rows are embedded deflated."""
    before = [0, *accumulate(len(group.rows) for group in diff.groups)]
    most = sum(rows < (_IN_PANE if ink.tab else _AT_ONCE) for rows in before[:-1])
    shown = "".join(
        _group(group, ink, marked, diff.stages, _AT_ONCE) for group in diff.groups[:most]
    )
    hidden = sum(max(len(group.rows) - _AT_ONCE, 0) for group in diff.groups[:most])
    hidden += before[-1] - before[most]
    if not hidden:
        return shown, ""
    plain = replace(ink, inline=False)
    rest = "".join(_group(group, plain, marked, diff.stages) for group in diff.groups[most:])
    late, remark = late_html(rest, f"{hidden:,} more rows")
    return shown + late, remark


def _group(
    group: DiffGroup, ink: Ink, marked: bool, stages: tuple[str, str], most: int | None = None
) -> str:
    """A group; its rows beyond the most are embedded deflated."""
    if marked:
        # The source line of each row; both where its sides come from two.
        lines = ((side.line for side in (row.left, row.right) if side) for row in group.rows)
        owners = ["", *(" > ".join(dict.fromkeys(filter(None, names))) for names in lines)]
        if len(set(owners)) == 2 and owners[-1] in group.title:
            owners = [""] * len(owners)
        rows = [
            _row(row, now if now != before else "", ink, stages[1])
            for row, (before, now) in zip(group.rows, pairwise(owners), strict=True)
        ]
    else:
        columns = _COLUMNS if ink.inline else ""
        rows = [
            f"<div{columns}>{_cell(row.left, ink)}{_cell(row.right, ink, stage=stages[1])}</div>"
            for row in group.rows
        ]
    shown = "".join(rows[:most])
    if most is not None:
        shown += late_html("".join(rows[most:]), "")[0]
    opened = " open" if group.open else ""
    kind = "diff-rows" if marked else "diff-rows diff-sides"
    return (
        f"<details{opened}><summary>{escaped(group.title)}</summary>"
        f'<pre class="rows {kind}"{attr("data-stage", stages[0])}>{shown}</pre></details>'
    )


def _row(row: DiffRow, owner: str, ink: Ink, stage: str) -> str:
    """The mark, the line before, the source line, and the line after with the note."""
    fate = mark(row.fate)
    tint = f" style=background:{fate.tint}" if fate.tint else ""
    sign = f"{fate.sign} {row.fate}".strip()
    head = f"<i{tint}>{escaped(sign)}</i>" if sign else ""
    blanks = " " * (_MARK - len(sign)) if ink.inline else ""
    place = f"<small>{' ' * ink.inline}{escaped(owner)}</small>" if owner else ""
    remark = f"<em>{escaped(row.note)}</em>" if row.note else ""
    if row.left is None:
        first, last = _cell(row.right, ink, remark, _BESIDE, stage=stage), ""
    else:
        first = _cell(row.left, ink, "", _BESIDE)
        after = replace(row.right, line="") if row.right else None  # its hue is that of the left
        rule = _BELOW if after else _BESIDE
        last = _cell(after, ink, remark, rule, stage=stage) if after or remark else ""
    return f"<div><span>{head}{blanks}</span>{first}{place}{last}</div>"


def _cell(line: Line | None, ink: Ink, remark: str = "", *rules: str, stage: str = "") -> str:
    if line is None:
        return f"<div{style(*rules) if ink.inline else ''}>{remark}</div>"
    behind = f"  {remark}" if remark else ""
    node = node_id(line) + attr("data-stage", stage)
    return f"<div{node}{ink.cell(line.line, *rules)}>{pieces(line)}{behind}</div>"
