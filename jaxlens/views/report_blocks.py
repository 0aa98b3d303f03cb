"""A report as blocks of a document."""

from collections.abc import Sequence
from statistics import median

from jaxlens.ir.driver import Run
from jaxlens.render.document import Block, Findings, Fold, TableBlock
from jaxlens.report import Cell, Finding, Report, Table, barred, cells, duration, ranked

MOST = 3  # sentences above the panes of a verb


def report_blocks(report: Report) -> list[Block]:
    """Returns the report's findings, then its tables."""
    sentences: list[Block] = [Findings(report.findings)] if report.findings else []
    return [*sentences, *(TableBlock(table) for table in report.tables)]


def leading_blocks(findings: Sequence[Finding], full: bool = False) -> list[Block]:
    """Returns the findings of most weight, and the others in their order in a fold.

    Args:
        findings: Those of several lenses, which may give the same reason; it is shown once.
        full: Whether the fold is open.
    """
    first = tuple(ranked(findings)[:MOST])
    told = {finding.measured for finding in first}
    rest = tuple(finding for finding in dict.fromkeys(findings) if finding.measured not in told)
    more = Fold(f"and {len(rest):,} more", (Findings(rest),), open=full)
    return [Findings(first), *([more] if rest else [])]


def run_blocks(run: Run | None) -> list[Block]:
    """Returns a table of the measured execution times; nothing without a run."""
    if run is None:
        return []
    times = (median(run.seconds), min(run.seconds), max(run.seconds))
    row = (*cells(len(run.seconds)), *(Cell(duration(time), time) for time in times))
    columns = ("runs", "median", "least", "most")
    rows = barred([row], (1, 2, 3))
    table = Table("Measured", columns, rows, run.how, volatile=True, right=(0, 1, 2, 3))
    return [TableBlock(table, asked=True)]
