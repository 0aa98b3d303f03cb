"""Rows of the table: the first NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.question import About, Lens, Question, jaxpr_web

if TYPE_CHECKING:
    from jaxlens.questions.nan.facts import FirstNan


# The docstring is the public help of the verb.
def _nan() -> Lens[FirstNan]:
    """What `jaxlens.first_nan` returns.

    Returns:
        An answer with `.found`, `.kind` ("nan" or "inf"), `.opcode`, `.span` (file, line, columns),
        `.iteration`, `.sentence`, `.cure`, `.maker` (with `.values`, `.index`, `.device`),
        `.infinity_maker` (what made the infinity that the NaN came of), `.arguments`, `.trial`,
        `.makers` (all that reached a result), `.way` (from there to the results), `.unseen` and
        `.others` (what made NaN that no result has).

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    from jaxlens.questions.nan.facts import facts
    from jaxlens.questions.nan.report import blocks, report

    return Lens(facts, report, blocks, jaxpr_web)


NAN = Question(
    "nan",
    About(
        "Where does the first NaN come from?",
        measured="NaN and infinities in the results of each equation, in a run of the compiled "
        "program with these tests in it, in loops by iteration; the program runs again for the "
        "values of each equation that is described, up to 3 times to find an underflow, and up to "
        "10 times to try a cure; donated arguments stay valid",
        counted="the way back from a result through equations whose operands had it",
    ),
    _nan,
    verb="check",
    help="runs it, and says which equation made the first NaN or infinity of a result, and why",
    kind="nan",
    python="jaxlens.first_nan(f, x)",
    place=190,
)


ROWS = (NAN,)
