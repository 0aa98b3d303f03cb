"""Rows of the table: copies of the optimised program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Question

if TYPE_CHECKING:
    from jaxlens.questions.copies.facts import Copies


def _copies() -> Lens[Copies]:
    """What `jaxlens.copies` returns.

    Returns:
        An answer with `.bytes` (copied in a run), `.copies` (each with `.id`, `.type`, `.bytes`,
        `.times`, `.total`, `.cause`) and `.mends` (each with `.name`, `.code`, `.copies`,
        `.bytes`).

    Raises:
        UnavailableError: There is no optimised HLO.
    """
    from jaxlens.questions.copies.facts import facts
    from jaxlens.questions.copies.report import report

    return Lens(facts, report)


ROWS = (
    Question(
        "copies",
        About(
            "Why this copy?",
            measured="the program with each change that may help, compiled anew and not run",
            counted="copies, transposes and changes of layout that are instructions of their own, "
            "their bytes in a run, and who reads and writes each value",
        ),
        _copies,
        Needs(compiled=True),
        "compile",
        "each copy and transpose, why it is made, and, by trying, what removes it",
        panel=11,
        python="jaxlens.copies(f, x)",
        place=45,
    ),
)
