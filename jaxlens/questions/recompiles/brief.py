"""A few sentences as HTML without style sheet and scripts, for an output that nobody asked for."""

from collections.abc import Sequence

from jaxlens.render.document import TableBlock
from jaxlens.render.html.marks import prose
from jaxlens.render.html.table import table_html
from jaxlens.report import Finding

_STYLE = "font:13px/1.6 system-ui,sans-serif"
_WARNING = "border-left:3px solid #d55e00;padding-left:8px"
_CAPTION = '<caption style="font-weight:600;text-align:left">'


def brief_html(
    line: Finding | None,
    warnings: Sequence[Finding],
    behind: Sequence[TableBlock],
    cures: Sequence[Finding] = (),
) -> str:
    """Returns one line that opens, and warnings below it, above what it opens.

    Args:
        line: The line; None for none.
        warnings: One sentence each.
        behind: What a click on the line opens.
        cures: Sentences above that, which the click opens too.
    """
    html = "".join(
        f'<div style="{_WARNING}"><b>Warning:</b> {prose(warning.measured)}</div>'
        for warning in warnings
    )
    if line is not None:
        tables = "".join(table_html(block.table) for block in behind)
        sentences = "".join(f"<div>{prose(cure.measured)}</div>" for cure in cures)
        tables = sentences + tables.replace("<caption>", _CAPTION)
        summary = f"<summary>{prose(line.measured)}{html}</summary>"
        html = f"<details>{summary}{tables}</details>"
    return f'<div role=note aria-label=jaxlens style="{_STYLE}">{html}</div>'
