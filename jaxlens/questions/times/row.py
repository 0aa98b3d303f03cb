"""Rows of the table: where compile time goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Pane, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.program.counted import Counted
    from jaxlens.program.subject import Given
    from jaxlens.questions.times.facts import Times
    from jaxlens.report import Report


def _times() -> Lens[Times]:
    """What `jaxlens.times` returns.

    Returns:
        An answer with `.stages` (seconds), `.compile` (`.groups`, `.passes`, `.kernels` in
        seconds; None without a profile), `.equations` (`.total`), `.by_line`, `.loops`
        (each with `.line`, `.count`, `.block`, `.equations`, `.rolled`).
    """
    from jaxlens.questions.times.facts import facts
    from jaxlens.questions.times.report import report

    return Lens(facts, report)


def _pane(capture: Capture, counted: Given[Counted]) -> Pane:
    from jaxlens.program.subject import Given
    from jaxlens.questions.times.report import alarm, stages

    loops = Given(lambda: alarm(capture))

    def report() -> Report:
        """Adds to the seconds, if any step was timed, what a loop in Python costs."""
        timed = stages(capture)
        return replace(timed, findings=(*loops.get(), *timed.findings))

    help = "Seconds of each step, measured once."
    return Pane("time", "Time", help, Given(report), lambda: bool(loops.get()), lambda: loops.get())


TIMES = Question(
    "times",
    About(
        "Where does compile time go?",
        measured="seconds of each step, once, on this machine; within the compile by XLA's own "
        "profiler, for which it is compiled again if it was before; of LLVM over each kernel by "
        "the times of its dumps",
        counted="equations by line, every call written out; a loop is called "
        "unrolled where four or more blocks of equations do the same and each reads the one "
        "before alike",
    ),
    _times,
    Needs(profile=True),
    "compile",
    "seconds by stage, pass and kernel; equations by line; loops",
    panel=2,
    python="jaxlens.times(f, x)",
    place=80,
    pane=_pane,
)


ROWS = (TIMES,)
