"""The facts of a compiled program that `%%compile` and `%%explore` show without options."""

from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.facts import Verdict
from jaxlens.lenses.constants.facts import Captured, closed_over
from jaxlens.lenses.cost.facts import Counted, counted
from jaxlens.lenses.memory import report as memory
from jaxlens.lenses.program.kernels import Work, works
from jaxlens.lenses.subject import Given, Subject, subject_of


@dataclass(frozen=True, slots=True)
class Overview:
    """The facts of a compiled program; each is a value or the error why it is unavailable.

    Attributes:
        verdict: Whether the call would have hit JAX's caches.
        works: The kernels, each with its HLO instructions.
        counted: Flops and bytes.
        memory: The peak and its owners.
        closed_over: Arrays in the function's closure.
        subject: The program.
    """

    verdict: Given[Verdict]
    works: Given[list[Work]]
    counted: Given[Counted]
    memory: Given[memory.MemoryFacts]
    closed_over: Given[Captured | None]
    subject: Subject


def facts(capture: Capture) -> Overview:
    """Returns the facts of a capture, each computed on first use."""
    return Overview(
        Given(lambda: capture.verdict),
        Given(lambda: works(capture)),
        Given(lambda: counted(capture)),
        Given(lambda: memory.facts(capture)),
        Given(lambda: closed_over(capture)),
        subject_of(
            capture,
            "jaxpr",
            "stablehlo",
            "hlo",
            "optimized",
            "llvm",
            "asm",
            "passes",
            "fusing",
            "has_all_passes",
            "kernels",
            "times",
        ),
    )
