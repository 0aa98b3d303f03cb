"""Rows of the table: one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Option, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.questions.kernels.view import KernelFacts


def _kernel() -> Lens[KernelFacts]:
    from jaxlens.program.kernels import works
    from jaxlens.questions.kernels.view import KernelFacts, kernel_blocks

    def facts(capture: Capture, kernel: str = "", asm: bool = False) -> KernelFacts:
        return KernelFacts(capture, works(capture) if kernel else (), kernel, asm)

    return Lens(facts, blocks=kernel_blocks)


KERNEL = Question(
    "kernel",
    About("What does one kernel compute, and how?"),
    _kernel,
    Needs(compiled=True),
    "compile",
    "one kernel: what it fused, its LLVM IR",
    "NAME",
    "kernel",
    (
        Option(
            "asm",
            False,
            help="the machine's instructions, of every kernel or of --kernel NAME",
            about=About("Which instructions does the machine run?"),
        ),
    ),
    place=50,
)


ROWS = (KERNEL,)
