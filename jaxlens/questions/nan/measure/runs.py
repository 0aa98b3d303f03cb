"""Runs the program of a capture with measurements of NaN and infinities, or with a change.

None donates. Each raises OptionError where an argument is a shape without data, and
UnavailableError where the program is for a device that this process lacks, was traced by
`jaxlens.core`, or its arrays have been freed.
"""

from collections.abc import Collection

from jaxlens.captures import Capture
from jaxlens.questions.nan.measure import cures
from jaxlens.questions.nan.measure import nonfinite as measured
from jaxlens.stages.session.running import Running
from jaxlens.taps.execute import CompiledPieces
from jaxlens.taps.executions import EquationValues, NonFiniteExecution, NonFiniteRun, Path


def nonfinite(capture: Capture) -> NonFiniteRun:
    """Runs the program once, and returns which equations had NaN and infinities."""
    runs: Running = capture.driver.live()
    with runs.measuring("looks for NaN") as (closed, leaves):
        return measured.run(closed, leaves, runs.devices, _pieces(runs))


def equation_values(capture: Capture, path: Path, at: NonFiniteExecution) -> EquationValues:
    """Runs the program once, and returns what one execution of an equation read and made."""
    runs: Running = capture.driver.live()
    with runs.measuring("looks at what made it") as (closed, leaves):
        return measured.equation_values(closed, leaves, path, at, _pieces(runs))


def guarded(capture: Capture, paths: Collection[Path]) -> tuple[NonFiniteRun, float]:
    """Runs the program twice, once with equations changed as `GUARDS` says.

    Returns which have NaN then, and the largest change of results that are finite as it is.
    """
    runs: Running = capture.driver.live()
    with runs.measuring("tries a cure") as (closed, leaves):
        return cures.guarded(closed, leaves, runs.devices, paths, _pieces(runs))


def widened(capture: Capture) -> tuple[NonFiniteRun, float] | None:
    """Runs the program op by op in float64, and returns what `guarded` does.

    None if an equation cannot be.
    """
    runs: Running = capture.driver.live()
    with runs.measuring("tries it in float64") as (closed, leaves):
        return cures.widened(closed, leaves)


def _pieces(runs: Running) -> CompiledPieces:
    """Returns what was compiled for these runs: of a program, most runs share it."""
    pieces: CompiledPieces = runs.kept.setdefault("nan", CompiledPieces())
    return pieces
