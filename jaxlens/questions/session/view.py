"""What `%jaxlens on` says below a cell, unasked, and what `%explain` answers about one.

The HTML of an output that nobody asked for has no style sheet and no scripts.
"""

from dataclasses import replace

from jaxlens.program.recompile_causes import cures, tables
from jaxlens.questions.session.report import AfterCell, report, warnings
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Document, Findings
from jaxlens.render.html.marks import prose
from jaxlens.render.html.table import table_html

_STYLE = "font:13px/1.6 system-ui,sans-serif"
_WARNING = "border-left:3px solid #d55e00;padding-left:8px"
_CAPTION = '<caption style="font-weight:600;text-align:left">'


def cell_text(after: AfterCell, times: bool) -> str:
    """Returns what is said unasked after a cell: a line if it compiled, then warnings.

    Args:
        after: What the cell compiled.
        times: Whether figures that change from run to run are written.
    """
    lines = [visible(one.measured if times else one.text) for one in report(after).findings]
    start = int(bool(after.compiles))
    return "\n".join([*lines[:start], *(f"Warning: {text}" for text in lines[start:])])


def cell_html(after: AfterCell) -> str:
    """Returns the same as HTML: a line that opens, if it compiled, with the warnings below it.

    A click on the line opens the cures and the tables of its calls.
    """
    findings = report(after).findings
    start = int(bool(after.compiles))
    html = "".join(
        f'<div style="{_WARNING}"><b>Warning:</b> {prose(warning.measured)}</div>'
        for warning in findings[start:]
    )
    for line in findings[:start]:
        inside = "".join(f"<div>{prose(cure.measured)}</div>" for cure in cures(after.compiles))
        inside += "".join(map(table_html, tables(after.log))).replace("<caption>", _CAPTION)
        summary = f"<summary>{prose(line.measured)}{html}</summary>"
        html = f"<details>{summary}{inside}</details>"
    return f'<div role=note aria-label=jaxlens style="{_STYLE}">{html}</div>'


def explained(answer: Document, after: AfterCell) -> Document:
    """Returns the full answer about a cell, below the warnings.

    Args:
        answer: The document of the cell's compile log.
        after: What the cell compiled.
    """
    found = warnings(after, explained=True)
    first = (Findings(found),) if found else ()
    return replace(answer, blocks=(*first, *answer.blocks))
