"""A few sentences as HTML without style sheet and scripts, for an output that nobody asked for."""

from collections.abc import Sequence

from jaxlens.render.document import TableBlock
from jaxlens.render.html.marks import prose
from jaxlens.render.html.table import table_html
from jaxlens.report import Finding

_STYLE = "font:13px/1.6 system-ui,sans-serif"
_WARNING = "border-left:3px solid #d55e00;padding-left:8px"


def brief_html(
    line: Finding | None, warnings: Sequence[Finding], behind: Sequence[TableBlock]
) -> str:
    """Returns one line that opens, and warnings below it.

    Args:
        line: The line; None for none.
        warnings: One sentence each.
        behind: What a click on the line opens.
    """
    parts = []
    if line is not None:
        tables = "".join(table_html(block.table) for block in behind)
        parts.append(f"<details><summary>{prose(line.measured)}</summary>{tables}</details>")
    parts += [
        f'<div style="{_WARNING}"><b>Warning:</b> {prose(warning.measured)}</div>'
        for warning in warnings
    ]
    return f'<div role=note aria-label=jaxlens style="{_STYLE}">{"".join(parts)}</div>'
