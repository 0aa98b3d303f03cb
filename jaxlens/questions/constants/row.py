"""Rows of the table: arrays that a function closes over."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Question

if TYPE_CHECKING:
    from jaxlens.questions.constants.facts import Captured


def _captured(compiled: bool = True) -> Lens[Captured]:
    """What `jaxlens.captured` returns.

    Returns:
        An answer with `.constants` (each with `.name`, `.bytes`, `.held`, `.holder`, `.span`,
        `.reads`), `.bytes` and `.folded`. It takes a compile that dumps all passes;
        `%jaxpr --captured` takes none.
    """
    from jaxlens.questions.constants.facts import facts
    from jaxlens.questions.constants.report import report

    return Lens(partial(facts, compiled=compiled), report)


CAPTURED = Question(
    "captured",
    About(
        "What is captured?",
        counted="arrays that the function closes over, their bytes, and who holds them, by "
        "identity; what became a constant between the dumps before and after constant folding; "
        "of arrays of over 256 MB that is not known",
    ),
    _captured,
    Needs(passes=True),
    "compile",
    "arrays that it closes over, and what XLA folded",
    panel=9,
    python="jaxlens.captured(f, x)",
    place=70,
)


CAPTURED_BY_TRACE = replace(
    CAPTURED,
    lens=partial(_captured, compiled=False),
    needs=Needs(),
    verb="jaxpr",
    help="arrays that it closes over, with bytes and the line",
    panel=0,
    python="",
    place=140,
)


ROWS = (
    CAPTURED,
    CAPTURED_BY_TRACE,
)
