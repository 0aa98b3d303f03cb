"""Where compile time goes: seconds by stage, pass and kernel, and the lines that cause them.

Seconds are measured once, on this machine: stages by a clock, the parts of the compile by XLA's
own profile (`program/compile_parts.py`). Compile time grows with the size of the program, so the
equations are counted by line (`program/equations.py`), and loops that tracing unrolled are
looked for (`program/unrolled.py`). A trial measures what `lax.scan` in their place saves.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.facts import Timing, Trial
from jaxlens.lenses.constants.facts import Captured, closed_over
from jaxlens.lenses.program.compile_parts import CompileParts, compile_parts
from jaxlens.lenses.program.equations import Equations, equations
from jaxlens.lenses.program.python_loops import looped
from jaxlens.lenses.program.unrolled import Unrolled, unrolled
from jaxlens.lenses.subject import ProgramFacts, Seen, subject_of
from jaxlens.links.links import NO_EQUATIONS
from jaxlens.report import Cell, Finding, Report, Table, duration

_WORDS = 200  # characters of what JAX says of a program that we made


@dataclass(frozen=True, slots=True)
class Times(ProgramFacts):
    """What a program costs to compile, and what made it so.

    Attributes:
        stages: Seconds by step, as done.
        compile: Seconds within the compile; None where there is no profile.
        missing: Why there is none.
        equations: Equations with their lines.
        loops: Outermost loops that stand written out, those of most equations first.
        trial: The first one's body tried with scans; None where it was not asked for.
        untried: Why a trial that was asked for failed.
        lacking: Why no equations were counted, where that is so.
        instructions: Of XLA's optimised program, bodies of fusions and loops counted once each;
            None where there is none.
    """

    stages: Mapping[str, float]
    compile: CompileParts | None
    missing: str
    equations: Equations
    loops: tuple[Unrolled, ...]
    trial: Trial | None = None
    untried: str = ""
    lacking: str = ""
    instructions: int | None = None
    _closed_over: Captured | None = None

    def closed_over(self) -> Captured | None:
        """The arrays that the program closes over, where it is known."""
        return self._closed_over

    @property
    def by_line(self) -> Mapping[str, int]:
        """Equations by the line that made them."""
        return self.equations.own


def facts(capture: Capture, scan: bool = False, run: bool = False) -> Times:
    """The facts of a capture.

    Args:
        capture: Any capture. Where its compile was not profiled, it is compiled again.
        scan: Try scans in the place of unrolled loops: two more compiles.
        run: With that: run both programs on random inputs, and compare their results.
    """
    parts, missing = None, ""
    try:
        profile = capture.profile
        parts = compile_parts(profile) if profile.parts else None
        missing = profile.note
    except UnavailableError as why:
        missing = str(why)
    lacking = ""
    try:
        counted, loops = written_out(capture)
    except UnavailableError as why:  # opened from a later stage
        counted, loops, lacking = equations(NO_EQUATIONS), (), str(why)
    trial, untried = _tried(capture, loops, run) if scan else (None, "")
    seconds: Counter[str] = Counter()
    for step in _timings(capture):
        seconds[step.step] += step.seconds  # type: ignore[assignment]
    size = instructions(capture)
    return Times(
        dict(seconds),
        parts,
        missing,
        counted,
        loops,
        trial,
        untried,
        lacking,
        size,
        closed_over(capture),
        _subject=subject_of(capture, "jaxpr", "stablehlo", "optimized", "kernels", "times"),
    )


def written_out(capture: Seen) -> tuple[Equations, tuple[Unrolled, ...]]:
    """A capture's equations by line, and the loops among them; needs its jaxpr alone."""
    module = capture.jaxpr.module
    counted = equations(module)
    try:
        sources = capture.sources
    except UnavailableError:
        sources = {}
    return counted, unrolled(module, counted.written, counted.times, looped(sources))


def instructions(capture: Seen) -> int | None:
    """Instructions of XLA's optimised program, those in bodies of fusions and loops too."""
    try:
        module = capture.optimized.module
    except LensError:
        return None
    return sum(len(region.nodes) for region in module.regions.values())


def _timings(capture: Seen) -> tuple[Timing, ...]:
    try:
        return capture.times
    except UnavailableError:
        return ()


def _tried(capture: Capture, loops: tuple[Unrolled, ...], run: bool) -> tuple[Trial | None, str]:
    """What scans in the place of the loops of the first one's body change; or why that is open."""
    if not loops:
        return None, "there is no unrolled loop to try"
    region = loops[0].region
    spans = sorted((e.first, e.size, e.count) for e in loops if e.region == region)
    try:
        return capture.driver.rolled(region, spans, run), ""
    except Exception as why:  # whatever JAX says of a program that we made
        words = " ".join(str(why).split()) or type(why).__name__
        return None, words if len(words) <= _WORDS else f"{words[:_WORDS]}..."


def stages(capture: Seen) -> Report:
    """Wall-clock seconds of the steps done so far; the table is no part of the stable text."""
    steps = capture.times
    longest = max((step.seconds for step in steps), default=0.0) or 1.0
    total = sum(step.seconds for step in steps)
    row = [Cell(duration(step.seconds), step.seconds, bar=step.seconds / longest) for step in steps]
    notes = [f"{step.step}: {step.note}" for step in steps if step.note]
    table = Table(
        "Time per stage",
        (*(step.step for step in steps), "in all"),
        ((*row, Cell(duration(total), total)),),
        f"{'; '.join(('Wall clock on this machine, measured once', *notes))}.",
        volatile=True,
        right=tuple(range(len(steps) + 1)),
    )
    if not steps:
        return Report("Times", (Finding("Nothing was timed.", "unknown"),))
    return Report("Times", (), (table,))
