"""Rows of the table: whether the compiled program is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.question import About, Lens, Option, Question, jaxpr_web

if TYPE_CHECKING:
    from jaxlens.questions.disagree.disagreement import Disagreement

USES = ("numerics", "variants")


def _disagree() -> Lens[Disagreement]:
    """What `jaxlens.disagree` returns.

    Returns:
        An answer with `.found`, `.results` (each with `.wrong`, `.unequal`, and `.error`, `.own`
        and `.allowed` in ulps), `.span`, `.reduced` (`.equations`, `.opcodes`, `.types`,
        `.compiles`), `.trials` (what was left out, and whether that is right), `.fusions`, `.code`
        (a file that needs jax alone), and `.issue` (text to report it).

    Raises:
        OptionError: An argument is a shape without data, or the file cannot be written.
        UnavailableError: The program cannot run here.
    """
    from jaxlens.questions.disagree.facts import facts
    from jaxlens.questions.disagree.report import blocks, report

    return Lens(facts, report, blocks, jaxpr_web)


_ABOUT = About(
    "Jit gives another result than no jit: is it wrong, and where?",
    measured="every result as compiled, op by op and in float64; where rounding does not explain "
    "the difference, parts of the program are compiled until a small one is left that is still "
    "wrong, and that one without each pass; donated arguments stay valid",
)
_FILE = "--miscompile, and the file for the report"
MISCOMPILE = Question(
    "miscompile",
    _ABOUT,
    _disagree,
    verb="check",
    help="whether jit is wrong: which pass, which line, and a small program to report",
    options=(Option("write", "", "write", _FILE, "FILE", about=_ABOUT),),
    kind="miscompile",
    python="jaxlens.disagree(f, x)",
    place=205,
    alone=True,
)


ROWS = (MISCOMPILE,)
