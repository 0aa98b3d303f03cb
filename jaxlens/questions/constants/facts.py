"""Constants of a program: arrays that it closes over, and results of XLA's constant folding.

A captured array is part of the program: it is copied into StableHLO, HLO and the executable, XLA
may compute with it at compile time, and another value needs another trace.
"""

from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import Constant
from jaxlens.program.closed_over import largest_first
from jaxlens.program.compile_parts import FOLDING, compile_parts
from jaxlens.questions.constants.folds import Folded, folds

NOT_COMPILED = "not compiled"


@dataclass(frozen=True, slots=True)
class Captured:
    """The constants of a program.

    Attributes:
        constants: Arrays that it closes over, the largest first.
        folded: What constant folding computed, in order.
        folding: Seconds of constant folding if the compile was profiled; else None.
        missing: Why `folded` is not known; "" if it is.
    """

    constants: tuple[Constant, ...]
    folded: tuple[Folded, ...] = ()
    folding: float | None = None
    missing: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of all arrays that the program closes over."""
        return sum(constant.bytes for constant in self.constants)

    @property
    def folded_bytes(self) -> int:
        """Sum of the bytes of all folded constants."""
        return sum(fold.bytes or 0 for fold in self.folded)


def facts(capture: Capture, compiled: bool = True) -> Captured:
    """Returns the constants of a capture.

    Args:
        capture: Any capture.
        compiled: Whether to read the compile's constants too; needs the dumps of all passes.
    """
    constants = largest_first(capture)
    if not compiled:
        return Captured(constants, missing=NOT_COMPILED)
    folded: tuple[Folded, ...] = ()
    try:
        folded, missing = folds(capture.passes)
    except LensError as why:
        missing = str(why)
    seconds = None
    if "profile" in capture.driver.recorded():
        passes = compile_parts(capture.profile).passes
        seconds = next((p.seconds for p in passes if p.name == FOLDING), 0.0)
    return Captured(constants, folded, seconds, missing)
