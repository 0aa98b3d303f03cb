"""A report as blocks of a document."""

from jaxlens.render.document import Block, Findings, TableBlock
from jaxlens.report import Report


def report_blocks(report: Report) -> list[Block]:
    """The report's sentences, then its tables."""
    sentences: list[Block] = [Findings(report.findings)] if report.findings else []
    return [*sentences, *(TableBlock(table) for table in report.tables)]
