"""A report as blocks of a document."""

from statistics import median

from jaxlens.ir.driver import Run
from jaxlens.render.document import Block, Findings, TableBlock
from jaxlens.report import Report, Table, cells, duration


def report_blocks(report: Report) -> list[Block]:
    """Returns the report's findings, then its tables."""
    sentences: list[Block] = [Findings(report.findings)] if report.findings else []
    return [*sentences, *(TableBlock(table) for table in report.tables)]


def run_blocks(run: Run | None) -> list[Block]:
    """Returns a table of the measured execution times; nothing without a run."""
    if run is None:
        return []
    times = (median(run.seconds), min(run.seconds), max(run.seconds))
    row = cells(len(run.seconds), *map(duration, times))
    columns = ("runs", "median", "least", "most")
    table = Table("Measured", columns, (row,), run.how, volatile=True, right=(0, 1, 2, 3))
    return [TableBlock(table, asked=True)]
