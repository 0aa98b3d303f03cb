"""A report as blocks of a document."""

from collections.abc import Mapping, Sequence
from statistics import median

from jaxlens.ir.driver import Run
from jaxlens.render.document import Block, Findings, Fold, TableBlock
from jaxlens.report import Finding, NumberColumn, Report, Table, duration, ranked, table

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


def run_blocks(run: Run | None, of_run: Sequence[Finding] = ()) -> list[Block]:
    """Returns what is said of a run, and a table of its times; nothing without a run."""
    if run is None:
        return []
    said: list[Block] = [Findings(tuple(of_run))] if of_run else []
    return [*said, TableBlock(run_table({"": run.seconds}, run.how), asked=True)]


def run_table(runs: Mapping[str, Sequence[float]], how: str) -> Table:
    """Returns a table of the seconds of executions by program; "" is the one that is shown."""
    rows = [(name, len(s), median(s), min(s), max(s)) for name, s in runs.items()]
    times = (NumberColumn(name, duration, "s") for name in ("median", "least", "most"))
    columns: list[str | NumberColumn] = ["", NumberColumn("runs"), *times]
    start = int([*runs] == [""])
    shown = (row[start:] for row in rows)
    return table("Measured", columns[start:], shown, how, volatile=True)
