"""Shows a result as text and as HTML."""

from collections.abc import Sequence
from statistics import median

from jaxlens.render.document import Document, Findings, TableBlock
from jaxlens.render.html.document_html import html
from jaxlens.render.text.document_text import text
from jaxlens.report import Cell, Report, Table, barred, cells, duration


class Shown:
    """A result with a report: its text is the same from run to run apart from times."""

    @property
    def report(self) -> Report:
        """The sentences and tables; the title says what was run."""
        raise NotImplementedError

    @property
    def document(self) -> Document:
        """The result as the blocks of an output."""
        report = self.report
        tables = map(TableBlock, report.tables)
        return Document("in_hand", report.title, (Findings(report.findings), *tables))

    def text(self, *, times: bool = False) -> str:
        """Returns the text form, with what changes from run to run if `times`."""
        return text(self.document, times=times)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return html(self.document)


def times_table(title: str, rows: Sequence[tuple[str, Sequence[float]]], note: str) -> Table:
    """Returns a table of measured seconds: what was run, and its runs."""

    def row(name: str, seconds: Sequence[float]) -> tuple[Cell, ...]:
        times = (median(seconds), min(seconds), max(seconds))
        return (*cells(name, len(seconds)), *(Cell(duration(t), t) for t in times))

    made = barred([row(*one) for one in rows], (2, 3, 4))
    columns = ("program", "runs", "median", "least", "most")
    return Table(title, columns, made, note, volatile=True, right=(1, 2, 3, 4))
