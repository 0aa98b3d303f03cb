"""Rows of the table: what a call costs before the device works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxlens.question import About, Lens, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.ir.driver import Run
    from jaxlens.questions.dispatch.call_cost import CallCost
    from jaxlens.report import Finding


def _dispatch() -> Lens[CallCost]:
    """What `jaxlens.dispatch` returns.

    Returns:
        An answer with `.parts` and `.tried` (each with `.name` and `.seconds`), `.before` and
        `.device` (seconds), `.arguments` (each with `.name`, `.leaves`, `.seconds`), `.results`,
        `.python_calls` (functions of Python that a call runs), `.is_fast` and `.limit`.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The call cannot be repeated here.
    """
    from jaxlens.questions.dispatch.facts import facts
    from jaxlens.questions.dispatch.report import report

    return Lens(facts, report)


def _of_run(capture: Capture) -> Callable[[Run], tuple[Finding, ...]]:
    from jaxlens.questions.dispatch.facts import beside
    from jaxlens.questions.dispatch.report import of_run

    measured = beside(capture)
    return lambda run: of_run(measured(run))


DISPATCH = Question(
    "dispatch",
    About(
        "What does a call cost before the device works?",
        measured="the call, the jitted function inside a library's jit, and a program with the "
        "same arguments and results that computes nothing, in turns, each until its results are "
        "ready; functions of Python that a call runs; it is called some 30 times, on copies of "
        "what it donates or writes",
        counted="leaves of each argument and of the results",
    ),
    _dispatch,
    verb="compile",
    help="calls it, and says what Python, jit and a library's wrapper cost beside the device",
    python="jaxlens.dispatch(f, x)",
    place=90,
    of_run=_of_run,
)


ROWS = (DISPATCH,)
