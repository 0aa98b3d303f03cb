"""A driver that holds some of a program: what it lacks is an UnavailableError with its reason.

The base class of drivers for things that are no call: a compiled program, text, a folder of dumps.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import (
    Constant,
    Input,
    Kernel,
    Memory,
    PassStage,
    Profile,
    Source,
    Stage,
    Timing,
    Verdict,
)
from jaxlens.ir.tape import Tape


def no_call(holder: str) -> Verdict:
    """The verdict on what is no call."""
    return Verdict(None, reasons=(f"{holder} is looked at, and no call that they could hold",))


class PartialDriver:
    """Answers nothing; a subclass overrides what its thing holds. See `ir.facts.Driver`.

    Attributes:
        holder: What the program was read from, as a noun: "a compiled program", "HLO text".
        cure: How to get what it lacks, as the end of a message.
        has_all_passes: Whether `passes` is at hand: asking does not compile.
        has_profile: Whether a profile is at hand.
        has_tape: Whether a tape is at hand.
        has_fusion_log: Whether XLA's reasons for fusing are at hand.
    """

    has_all_passes = True
    has_profile = False
    has_tape = False
    has_fusion_log = False

    def __init__(self, holder: str, cure: str) -> None:
        self.holder = holder
        self.cure = cure

    def lacks(self, what: str) -> NoReturn:
        """Says that the thing holds no such stage or fact, and what to do.

        Raises:
            UnavailableError: Always.
        """
        raise UnavailableError(f"{self.holder} holds no {what}; {self.cure}")

    def stage(self, name: str) -> Stage:
        titles = {"stablehlo": "StableHLO", "hlo": "HLO before optimisation"}
        titles |= {"optimized": "optimised HLO", "llvm": "LLVM IR", "asm": "machine code"}
        self.lacks(titles.get(name, name))

    def passes(self) -> tuple[PassStage, ...]:
        self.lacks("dumps of passes")

    def fusing(self) -> tuple[PassStage, ...]:
        """Dumps of the passes that fuse at least."""
        return self.passes()

    def kernels(self) -> tuple[Kernel, ...]:
        self.lacks("kernels")

    def buffers(self) -> str:
        self.lacks("buffer assignment")

    def fusion_log(self) -> str:
        self.lacks("reasons for what XLA fused")

    def memory(self) -> Memory:
        self.lacks("sizes of memory")

    def cost(self) -> Mapping[str, float]:
        self.lacks("cost analysis of XLA's")

    def times(self) -> tuple[Timing, ...]:
        return ()  # of what was done here, which is nothing

    def tape(self) -> Tape:
        self.lacks("tape of its tracing")

    def profile(self) -> Profile:
        self.lacks("profile of its compile")

    def verdict(self) -> Verdict:
        return no_call(self.holder)

    def deviations(self) -> tuple[str, ...]:
        return ()  # what is shown is what is there

    def outputs(self) -> tuple[Input, ...]:
        self.lacks("names of results")

    def constants(self) -> tuple[Constant, ...]:
        self.lacks("list of captured arrays")

    def sources(self) -> Mapping[str, Source]:
        self.lacks("source text")

    def rungs(self) -> tuple[Any, ...]:
        """Captures of the function with ever more of its transforms."""
        self.lacks("function, of whose transforms a ladder could be made")

    def run(self, n: int) -> Any:
        """Executes the program."""
        self.lacks("program that could run with arguments")

    def run_watched(self, n: int) -> Any:
        """Executes the program under the profiler."""
        return self.run(n)

    def rolled(self, region: str, loops: Sequence[Any], run: bool) -> Any:
        """The program with scans in the place of unrolled loops."""
        self.lacks("function that could be traced with a scan")

    def checkpointed(self) -> Iterator[Any]:
        """The program under `jax.checkpoint`."""
        self.lacks("function that could be traced under jax.checkpoint")

    def limits(self, dtypes: Sequence[str]) -> Any:
        """What a device of this kind does at most."""
        self.lacks("device that could be measured: name one, as in --roofline h100")
