"""Rows of the table: where digits are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.question import About, Lens, Question, jaxpr_web

if TYPE_CHECKING:
    from jaxlens.questions.numerics.facts import Numerics


def _numerics() -> Lens[Numerics]:
    """What `jaxlens.numerics` returns.

    Returns:
        An answer with `.found`, `.losses` (each with `.kind`, `.opcode`, `.span`), `.promotions`,
        `.equations` (each with `.own` and `.total`, in ulps), `.difference` (compiled against op
        by op), and `.run` (`.results`, `.dots`, `.differs`, and `.differences`: of each result of
        any type, with `.unequal` and `.ulps`).

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    from jaxlens.questions.numerics.facts import facts
    from jaxlens.questions.numerics.report import blocks, report

    return Lens(facts, report, blocks, jaxpr_web)


NUMERICS = Question(
    "numerics",
    About(
        "Where are digits lost, and why does jit differ from eager?",
        measured="the error of each equation, in a run op by op with float64 beside it; the "
        "results of every type, as compiled and op by op, bit by bit; products at "
        "precision=HIGHEST; donated arguments stay valid",
        counted="values that an operation silently converts to a wider type, from the jaxpr",
    ),
    _numerics,
    verb="check",
    help="runs it op by op, in float64 and compiled: which line loses digits",
    kind="numerics",
    python="jaxlens.numerics(f, x)",
    place=200,
)


ROWS = (NUMERICS,)
