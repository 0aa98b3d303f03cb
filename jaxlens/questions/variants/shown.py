"""Shows what was made of a program: the sentences and tables of its report."""

from collections.abc import Callable
from typing import Any, TypeVar

from jaxlens.render.document import Document
from jaxlens.report import Report
from jaxlens.views.report_blocks import report_blocks
from jaxlens.views.view import View

T = TypeVar("T")


def answer(capture: Any, facts: T, report: Callable[[T], Report]) -> View[T]:
    """Returns the answer of a verb, whose title says what was run."""

    def document() -> Document:
        made = report(facts)
        return Document("in_hand", made.title, tuple(report_blocks(made)))

    return View(capture, document, know=lambda: facts, tell=lambda: report(facts))
