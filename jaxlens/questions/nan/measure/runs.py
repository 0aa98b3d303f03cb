"""Runs a program with measurements of NaN and infinities, or with guards.

None donates. Each raises OptionError where an argument is a shape without data, and
UnavailableError where the program is for a device that this process lacks, was traced by
`jaxlens.core`, or its arrays have been freed.
"""

from collections.abc import Collection

from jaxlens.questions.nan.measure.guards import measure_guarded
from jaxlens.questions.nan.measure.nonfinite import measure_equation, measure_nonfinite
from jaxlens.questions.nan.records import EquationValues, NonFiniteExecution, NonFiniteRun
from jaxlens.stages.session.running import Running
from jaxlens.taps.execute import CompiledPieces
from jaxlens.taps.primitives import Path


def nonfinite(live: Running) -> NonFiniteRun:
    """Runs the program once, and returns which equations had NaN and infinities."""
    with live.measuring("looks for NaN") as (closed, leaves):
        return measure_nonfinite(closed, leaves, live.devices, _pieces(live))


def equation_values(live: Running, path: Path, at: NonFiniteExecution) -> EquationValues:
    """Runs the program once, and returns what one execution of an equation read and made."""
    with live.measuring("looks at what made it") as (closed, leaves):
        return measure_equation(closed, leaves, path, at, _pieces(live))


def guarded(live: Running, paths: Collection[Path]) -> tuple[NonFiniteRun, float | None]:
    """Runs the program with equations guarded; if no NaN remains, once more without guards.

    Returns:
        Which equations have NaN then, and the largest change of results that are finite without
        guards; None if a NaN remains.
    """
    with live.measuring("tries a cure") as (closed, leaves):
        return measure_guarded(closed, leaves, live.devices, paths, _pieces(live))


def _pieces(live: Running) -> CompiledPieces:
    """Returns the compiled pieces that the runs of one program share."""
    pieces: CompiledPieces = live.kept.setdefault("nan", CompiledPieces())
    return pieces
