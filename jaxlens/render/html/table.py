"""Tables and findings as HTML."""

from collections.abc import Iterator, Sequence
from itertools import repeat

from jaxlens.render.document import Findings
from jaxlens.render.html.marks import attr, escaped, note, prose, style
from jaxlens.render.html.payload import late_html, without_long
from jaxlens.render.text.document_text import badge
from jaxlens.report import Cell, Table

_BAR, _LONGEST = "#56b4e980", 6.5  # colour, and em of the longest: as in output.css
_WHOLE = 16
_AT_ONCE, _INLINE = 4, 10  # rows of a table in a pane that are not deflated, in the first one

Side = tuple[str, tuple[str, ...]]  # class and inline rules of a column


def table_html(
    table: Table, inline: bool = True, whole: bool = True, captioned: bool = True
) -> str:
    """A captioned table with its note; numbers are right-aligned, shares have a bar behind them.

    Args:
        table: What to write. One whose figures change from run to run has the class `volatile`.
        inline: Whether sides and bars are written inline too, for pages that drop our CSS.
        whole: Whether all rows are written; else those beyond the first are embedded deflated.
        captioned: Whether its title is written; the title line of a pane may have it already.
    """
    sides: list[Side] = []
    for i in range(len(table.columns)):
        kind, edge = (" class=num", "right") if i in table.right else ("", "left")
        sides.append((kind, (f"text-align:{edge}",) if inline else ()))
    caption = f"<caption>{escaped(table.title)}</caption>" if table.title and captioned else ""
    head = "".join(map(_head, table.columns, sides))
    # Cells of a column that are too short to wrap ("library call").
    lengths = [[len(row[i].text) for row in table.rows] for i in range(len(sides))]
    narrow = [0 < max(column, default=0) <= _WHOLE for column in lengths]
    rows = [_row(table, row, sides, narrow, inline) for row in table.rows]
    # JupyterLab opens notebooks by what it does to links when it inserts an output.
    whole = whole or any(cell.links for row in table.rows for cell in row)
    head_rows = len(rows) if whole else _INLINE if inline else _AT_ONCE
    shown = without_long("".join(rows[:head_rows]))
    late, remark = "".join(rows[head_rows:]), ""
    if late:
        late, remark = late_html(late, f"{len(rows) - head_rows:,} more rows")
    is_volatile = table.volatile or table.volatile_columns
    kind = attr("class", "volatile" if is_volatile else "") + attr("data-stage", table.stage)
    label = attr("aria-label", table.title or "table")
    return (
        f"<div class=table-box tabindex=0 role=group{label}><table{kind}>{caption}"
        f"<thead><tr>{head}</tr></thead><tbody>{shown}{late}</tbody></table>"
        f"</div>{remark}{note(table.note)}"
    )


def _head(name: str, side: Side) -> str:
    """A column's name; one without a name gets no header that a screen reader would announce."""
    kind, rules = side
    if not name:
        return "<td></td>"
    return f"<th scope=col{kind}{style(*rules)}>{escaped(name)}</th>"


def _row(
    table: Table, row: Sequence[Cell], sides: Sequence[Side], whole: Sequence[bool], inline: bool
) -> str:
    """A row; in a table of a stage it stands for its first node, in one of kernels for all."""
    ids = next((cell.ids for cell in row if cell.ids), ()) if table.stage else ()
    node = attr("data-id", " ".join(ids if table.stage.startswith("kernels") else ids[:1]))
    staged = repeat(bool(table.stage))
    return f"<tr{node}>{''.join(map(_cell, row, sides, whole, staged, repeat(inline)))}</tr>"


def _cell(cell: Cell, side: Side, whole: bool, staged: bool, inline: bool) -> str:
    kind, rules = side
    end = round(min(max(cell.bar or 0.0, 0.0), 1.0) * _LONGEST, 2)
    if end and not inline:
        rules = (*rules, f"--bar:{end:g}em")
    elif end:
        rules = (*rules, f"background:linear-gradient(90deg,{_BAR} {end:g}em,#0000 0)")
    ids = "" if staged else attr("data-id", " ".join(cell.ids))
    text = "".join(_parts(cell))
    if whole and not cell.links:
        text = text.replace(" ", "&nbsp;")
    return f"<td{kind}{style(*rules)}{ids}>{text}</td>"


def _parts(cell: Cell) -> Iterator[str]:
    """Yields the text of a cell, with its links as elements.

    `data-opens` keeps the address: a notebook writes another into `href`.
    """
    rest = cell.text
    for link in cell.links:
        before, _, rest = rest.partition(link.text)
        label = attr("title", link.label) + attr("aria-label", link.label)
        address = attr("href", link.address) + attr("data-opens", link.address)
        yield f"{escaped(before)}<a{address}{label}>{escaped(link.text)}</a>"
    yield escaped(rest)


def findings_html(block: Findings) -> str:
    """Sentences, each with the trust in its facts."""
    items = (
        f"<li{attr('data-id', ' '.join(finding.ids))}>{prose(finding.measured)}"
        f"{badge(finding, True, ' <small>{}</small>')}</li>"
        for finding in block.findings
    )
    return f"<ul class=findings>{without_long(''.join(items))}</ul>"
