"""Rows of the table: what the values hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.question import About, Lens, Question, jaxpr_web

if TYPE_CHECKING:
    from jaxlens.questions.values.facts import Values


def _values() -> Lens[Values]:
    """What `jaxlens.values` returns.

    Returns:
        An answer with `.values` (each with `.id`, `.opcode`, `.span`, `.type`, `.exponents` and
        `.statistics`: `.least`, `.most`, `.zeros`, `.nan`, `.inf`, `.subnormals`,
        `.iterations`), `.of("e12")`, `.nonfinite`, `.finite` (of the results), and `.integers` (of
        integers and booleans, with `.least`, `.most` and `.zeros`).

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    from jaxlens.questions.values.facts import facts
    from jaxlens.questions.values.report import blocks, report

    return Lens(facts, report, blocks, jaxpr_web)


VALUES = Question(
    "values",
    About(
        "What do the values hold: how large, how many zeros, NaN, subnormals?",
        measured="range, zeros, NaN, infinities and subnormals of each float, range and zeros of "
        "integers, and how many booleans are True, in one run of "
        "the program, compiled in pieces with these measurements in it, in loops over all "
        "iterations; donated arguments stay valid",
    ),
    _values,
    verb="check",
    help="runs it, and says what the floats of each line and equation hold",
    kind="values",
    python="jaxlens.values(f, x)",
    place=220,
)


ROWS = (VALUES,)
