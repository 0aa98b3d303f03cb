"""THE TABLE: the stages from Python text to machine code, in order.

The chain of stages, `--stage` choices, hover help and the diagram in the documentation are made
from it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageInfo:
    """One row.

    Attributes:
        name: What options and attributes call it.
        title: What a heading says.
        short: What the chain of stages says.
        meaning: What it is, in one sentence.
        step: What the next step does to it.
    """

    name: str
    title: str
    short: str
    meaning: str
    step: str


STAGES: tuple[StageInfo, ...] = (
    StageInfo(
        "source",
        "Python",
        "Your code",
        "The lines you wrote.",
        "Tracing runs them once on tracers, which know shapes and dtypes and hold no data.",
    ),
    StageInfo(
        "jaxpr",
        "jaxpr",
        "jaxpr",
        "The equations that tracing recorded, one per primitive.",
        "Lowering replaces each equation by the ops that compute it.",
    ),
    StageInfo(
        "stablehlo",
        "StableHLO",
        "StableHLO",
        "The portable program that JAX hands to a compiler.",
        "XLA converts it to its own HLO, instruction by instruction.",
    ),
    StageInfo(
        "hlo",
        "HLO before optimisation",
        "HLO",
        "XLA's program before it changed anything.",
        "Passes rewrite it: simplify, merge, remove, choose layouts, fuse.",
    ),
    StageInfo(
        "passes",
        "HLO passes",
        "passes",
        "The HLO after each pass that changed it.",
        "The last pass leaves the program that is compiled.",
    ),
    StageInfo(
        "optimized",
        "Optimised HLO",
        "optimised HLO",
        "What runs: one line of the entry computation is about one kernel or call.",
        "A code generator emits a kernel for each fusion and calls libraries for the rest.",
    ),
    StageInfo(
        "llvm",
        "LLVM IR",
        "LLVM",
        "Each kernel in LLVM's language, before and after LLVM's own optimisations.",
        "LLVM selects instructions and registers for this machine.",
    ),
    StageInfo(
        "asm",
        "Assembly",
        "assembly",
        "The machine's instructions, kernel by kernel (PTX on NVIDIA GPUs).",
        "The runtime calls the kernels in the order of its thunks.",
    ),
)

BY_NAME = {stage.name: stage for stage in STAGES}
