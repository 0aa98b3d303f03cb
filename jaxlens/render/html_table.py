"""Tables and findings as HTML."""

from jaxlens.lenses.report import Cell, Finding, Table
from jaxlens.render.document import Findings
from jaxlens.render.html_marks import attr, escaped, note
from jaxlens.render.text import TRUST

_BAR = "#56b4e966"


def table_html(table: Table) -> str:
    """A captioned table with its note; numbers stand right, shares have a bar behind them.

    A table whose figures change from run to run has the class `v`.
    """
    caption = f"<caption>{escaped(table.title)}</caption>" if table.title else ""
    head = "".join(_heading(name, i in table.right) for i, name in enumerate(table.columns))
    rows = "".join(_row(row, table) for row in table.rows)
    kind = '"t v"' if table.volatile else "t"
    label = attr("aria-label", table.title or "table")
    return (
        f"<div class=W tabindex=0 role=group{label}><table class={kind}>{caption}"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note(table.note)}"
    )


def _heading(name: str, right: bool) -> str:
    side = "right" if right else "left"
    return f"<th scope=col style=text-align:{side}>{escaped(name)}</th>"


def _row(row: tuple[Cell, ...], table: Table) -> str:
    cells = "".join(_cell(cell, i in table.right) for i, cell in enumerate(row))
    return f"<tr>{cells}</tr>"


def _cell(cell: Cell, right: bool) -> str:
    rules = [f"text-align:{'right' if right else 'left'}"]
    if cell.bar is not None:
        end = round(min(max(cell.bar, 0.0), 1.0) * 100)
        rules.append(f"background:linear-gradient(90deg,{_BAR} {end}%,#0000 {end}%)")
    style = ";".join(rules)
    quoted = f'"{style}"' if len(rules) > 1 else style
    number = " class=r" if right else ""
    ids = attr("data-id", " ".join(cell.ids))
    return f"<td{number} style={quoted}{ids}>{escaped(cell.text)}</td>"


def findings_html(block: Findings) -> str:
    """Sentences, each with how its facts are known."""
    return f"<ul class=F>{''.join(map(_finding, block.findings))}</ul>"


def _finding(finding: Finding) -> str:
    ids = attr("data-id", " ".join(finding.ids))
    return f"<li{ids}>{escaped(finding.text)} <small>{TRUST[finding.trust]}</small></li>"
