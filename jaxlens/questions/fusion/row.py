"""Rows of the table: what was fused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Option, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.questions.fusion.facts import Fusions


def _fusion() -> Lens[Fusions]:
    """What `jaxlens.fusion` returns.

    Returns:
        An answer with `.saved` (bytes of main memory not written and not read again, in one run),
        `.fusions` (each with `.id`, `.operations`, `.saved`, `.lines`), `.boundaries` (values still
        passed through memory, each with `.why`), `.left`, `.refused` (XLA's reasons, on GPUs) and
        `.change`.

    Raises:
        UnavailableError: There is no optimised HLO.
    """
    from jaxlens.program.fusion_change import GLANCE_LIMIT, TRACE_LIMIT
    from jaxlens.questions.fusion.facts import facts
    from jaxlens.questions.fusion.report import blocks, report, web

    def limited(capture: Capture, full: bool = False) -> Fusions:
        return facts(capture, TRACE_LIMIT if full else GLANCE_LIMIT)

    return Lens(limited, report, blocks, web)


FUSION = Question(
    "fusion",
    About(
        "What was fused, and why not the rest?",
        xla="its reasons to refuse, on GPUs alone",
        counted="bytes that the kernels move, and those that a fusion's operations would move one "
        "by one, less what it moves as one; what is computed again; who reads what",
    ),
    _fusion,
    Needs(compiled=True),
    "hlo",
    "the program before and after fusion, alone",
    options=(Option("full", False),),
    panel=3,
    python="jaxlens.fusion(f, x)",
    place=90,
)


ROWS = (FUSION,)
