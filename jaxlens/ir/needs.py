"""What a question needs of a program, as data that `Capture.gather` meets with one compile.

Apart from `driver.py`, since `%load_ext jaxlens` reads the table of questions and no driver.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Needs:
    """What a question needs of a program that costs a compile or a trace of its own.

    `a | b` is what both need: `Capture.gather` meets it with at most one compile, where asking
    for one thing after another may compile again for what the first compile did not record.

    Attributes:
        compiled: The optimised program with its kernels, sizes and costs, and HLO after the
            passes that fuse.
        passes: HLO after all passes.
        profile: What the compile spends its time on.
        verdict: Whether JAX's caches would have served the call.
        line_trace: What the function's lines do while it is traced.
    """

    compiled: bool = False
    passes: bool = False
    profile: bool = False
    verdict: bool = False
    line_trace: bool = False

    def __or__(self, other: "Needs") -> "Needs":
        return Needs(
            self.compiled or other.compiled,
            self.passes or other.passes,
            self.profile or other.profile,
            self.verdict or other.verdict,
            self.line_trace or other.line_trace,
        )
