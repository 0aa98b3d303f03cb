"""XLA's buffer assignment of a captured program, and what the program allocates."""

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import Memory
from jaxlens.ir.hlo import buffers
from jaxlens.ir.hlo.live_ranges import Live
from jaxlens.report import total


def read(capture: Capture) -> buffers.Buffers | None:
    """Returns XLA's buffer assignment; None where there is none."""
    try:
        return buffers.read(capture.buffers)
    except LensError:
        return None


def reserved(sizes: Memory, assignment: buffers.Buffers | None, ranges: Live | None) -> int | None:
    """Returns the bytes that a program allocates from start to end; None where unknown."""
    whole = total((sizes.arguments, sizes.outputs, sizes.temporaries))
    if whole is None:
        return None
    whole += (assignment.bytes("constant") if assignment else 0) - (sizes.aliases or 0)
    # On some devices XLA's sizes omit tables of pointers.
    return max(whole, ranges.bytes if ranges else 0)
