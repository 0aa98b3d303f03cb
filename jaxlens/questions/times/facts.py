"""Compile time by stage, pass and kernel, and the source lines that cause it.

Seconds are measured once, on this machine: stages by wall clock, the parts of the compile by XLA's
profiler (`program/compile_parts.py`). Compile time grows with the size of the program, so equations
are counted by line (`equations.py`), and loops that tracing unrolled are detected (`unrolled.py`).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.facts import Constant
from jaxlens.links.links import NO_EQUATIONS
from jaxlens.program.closed_over import closed_over
from jaxlens.program.compile_parts import CompileParts, compile_parts
from jaxlens.program.subject import Given, ProgramFacts
from jaxlens.questions.times.equations import Equations, equations, written_out
from jaxlens.questions.times.unrolled import Unrolled


@dataclass(frozen=True, slots=True)
class Times(ProgramFacts):
    """The compile time of a program, and its causes.

    Attributes:
        stages: Seconds by step, in order of execution.
        compile: Seconds within the compile; None without a profile.
        missing: Why there is no profile, or a note on it; "" for neither.
        equations: Equations by line.
        loops: Outermost unrolled loops, those with most equations first.
        lacking: Why equations were not counted; "" if they were.
        closed_over: The arrays that the program closes over; None if they are not known.
    """

    stages: Mapping[str, float]
    compile: CompileParts | None
    missing: str
    equations: Equations
    loops: tuple[Unrolled, ...]
    lacking: str = ""
    closed_over: tuple[Constant, ...] | None = None

    @property
    def by_line(self) -> Mapping[str, int]:
        """Number of equations by source line."""
        return self.equations.own


def facts(capture: Capture) -> Times:
    """Returns the compile time of a capture and its causes.

    Args:
        capture: Any capture. It is compiled again if its compile was not profiled.
    """
    known = Given(lambda: capture.profile)
    profile = known.or_else(None)
    written = Given(lambda: written_out(capture))  # missing where opened from a later stage
    counted, loops = written.or_else((equations(NO_EQUATIONS), ()))
    seconds: defaultdict[str, float] = defaultdict(float)
    for step in Given(lambda: capture.times).or_else(()):
        seconds[step.step] += step.seconds
    return Times(
        dict(seconds),
        compile_parts(profile) if profile and profile.parts else None,
        profile.note if profile else known.lacking,
        counted,
        loops,
        written.lacking,
        closed_over(capture),
        _subject=capture,
    )
