"""Shows what was made of a program: the sentences and tables of its report."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, TypeVar

from jaxlens.render.document import Document
from jaxlens.report import Cell, Report, Table, barred, cells, duration
from jaxlens.views.report_blocks import report_blocks
from jaxlens.views.view import View

T = TypeVar("T")


def answer(capture: Any, facts: T, report: Callable[[T], Report]) -> View[T]:
    """Returns the answer of a verb, whose title says what was run."""

    def document() -> Document:
        made = report(facts)
        return Document("in_hand", made.title, tuple(report_blocks(made)))

    return View(capture, document, know=lambda: facts, tell=lambda: report(facts))


def times_table(rows: Sequence[tuple[str, Sequence[float]]], note: str) -> Table:
    """Returns a table of measured seconds: what was run, and its runs."""

    def row(name: str, seconds: Sequence[float]) -> tuple[Cell, ...]:
        times = (median(seconds), min(seconds), max(seconds))
        return (*cells(name, len(seconds)), *(Cell(duration(t), t) for t in times))

    made = barred([row(*one) for one in rows], (2, 3, 4))
    columns = ("program", "runs", "median", "least", "most")
    return Table("Measured", columns, made, note, volatile=True, right=(1, 2, 3, 4))
