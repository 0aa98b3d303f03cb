"""Where the stages and facts of a capture come from.

`Driver` lists all that can be asked of a program. Every default raises an `UnavailableError` that
says what is missing and what to do; a driver overrides what its source has. The live driver
(`stages/driver.py`) runs JAX and XLA, the saved one (`ir/saved/driver.py`) reads a file, and those
of `stages/existing/` hold one compiled program, a module's text or a folder of dumps.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from jaxlens.errors import UnavailableError
from jaxlens.ir.fact import FactRow, T
from jaxlens.ir.facts import Limits, PassStage, Program, Stage
from jaxlens.ir.needs import Needs

Extra = Literal["passes", "profile", "tape", "fusion_log"]
"""Facts that take another compile or trace where the first one did not record them."""
REMAT = frozenset({"checkpoint", "remat", "remat2"})
"""The primitive of `jax.checkpoint` in versions of JAX."""
Variant = tuple[Program, "Driver"]
"""Another program made from the same call, with where its facts come from."""
RUNNING = "program that could run with arguments"

when_it_fails: list[Callable[[Exception, Any, Any], None]] = []
"""What is called with the exception of a trace or a lowering, before it is raised again.

It gets the exception, whose traceback has JAX's own frames, the call, and the target.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """Some executions of a program.

    Attributes:
        seconds: Wall-clock seconds of each run, in order.
        warmup: Runs before those, not counted.
        how: How it was measured, in words.
        outputs: Results of the last run, a pytree of arrays.
        instructions: Seconds of each HLO instruction in one run, where a profiler watched.
    """

    seconds: tuple[float, ...]
    warmup: int
    how: str
    outputs: Any = field(repr=False)
    instructions: Mapping[str, float] | None = None


class Driver:
    """Gives the stages and facts of one program; what it lacks is an UnavailableError.

    Each answer is computed once; asking again returns the same object. A fact (`ir/fact.py`) is
    answered by a method of its name.

    Attributes:
        holder: What the program was read from, as a noun: "a jax.stages.Compiled", "HLO text".
        cure: How to get what it lacks, as the end of a message.
        target: The target as the user wrote it; "" for where JAX would run the call.
    """

    holder: str = "this program"
    cure: str = "look at the call itself: jaxlens.capture(f, x)"
    target: str = ""

    def lacks(self, fact: str) -> NoReturn:
        """Says that there is no such stage or fact, and what to do.

        Raises:
            UnavailableError: Always.
        """
        raise UnavailableError(f"{self.holder} holds no {fact}; {self.cure}")

    def gather(self, needs: Needs) -> None:
        """Records what questions need, with at most one compile; by default there is nothing to do.

        The compile may go on when this returns; what reads its results waits for them.
        """

    def finish(self) -> None:
        """Waits for the compile that `gather` began."""

    def abandon(self) -> None:
        """Leaves the compile that `gather` began to end in the background, unused."""

    def recorded(self) -> frozenset[Extra]:
        """The extras that can be given without another compile or trace."""
        return frozenset({"passes"})

    def waits_for(self, name: str) -> str | None:
        """Returns the step that a stage, or "passes", still needs, such as "a compile".

        "" if it is made, None if it cannot be made. Nothing is computed for this.
        """
        try:
            _ = self.passes() if name == "passes" else self.stage(name)
        except UnavailableError:
            return None
        return ""

    def stage(self, name: str) -> Stage:
        """jaxpr, stablehlo, hlo, optimized, llvm or asm."""
        titles = {"stablehlo": "StableHLO", "hlo": "HLO before optimisation"}
        titles |= {"optimized": "optimised HLO", "llvm": "LLVM IR", "asm": "machine code"}
        self.lacks(titles.get(name, name))

    def passes(self) -> tuple[PassStage, ...]:
        """The dumps of all passes in order, the first being HLO before optimisation."""
        self.lacks("dumps of passes")

    def fusing(self) -> tuple[PassStage, ...]:
        """The dumps of the passes that fuse, at least."""
        return self.passes()

    def tracings(self) -> int:
        """How often the function was traced for this program and what was tried of it."""
        return 0

    def deviations(self) -> tuple[str, ...]:
        """Sentences like those of `Program.deviations`, known no earlier than the trace.

        It may trace, and neither lowers nor compiles. A saved capture's are in its program.
        """
        return ()

    def fact(self, row: FactRow[T]) -> T:
        """Returns a fact of the program, by the driver's method of its name.

        Raises:
            UnavailableError: The driver has none, or cannot know it of this program.
        """
        answer: Callable[[], T] | None = getattr(self, row.name, None)
        if answer is not None:
            return answer()
        return self.lacks(row.noun) if row.default is None else row.default(self.holder)

    @property
    def lowered(self) -> Any:
        """JAX's own lowered object, each op's location with a stamp of its own."""
        raise UnavailableError(
            "a capture loaded from a file holds no program that could be compiled again; "
            "look at the call itself"
        )

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments without static ones."""
        self.lacks("arguments to run it with")

    def run(self, n: int) -> Run:
        """Executes the program `n` times and measures it."""
        self.lacks("program that could run with arguments")

    def live(self, noun: str = RUNNING, traces: bool = False) -> Any:
        """The live driver of the program, which a question asks for what it measures.

        Args:
            noun: What is missing where there is none, for the message.
            traces: Whether its Python function is to be traced again.

        Raises:
            UnavailableError: The program is not live, or has no function.
        """
        self.lacks(noun)

    def run_watched(self, n: int) -> Run:
        """`run` with the seconds of each instruction, from the profiler, which slows it."""
        return self.run(n)

    def limits(self, dtypes: Iterable[str]) -> Limits | None:
        """What a device of this kind does at most; None where no device could be measured."""
        self.lacks("device that could be measured: name one, as in --roofline h100")


class RecordedDriver(Driver):
    """What was recorded of a program earlier: nothing of it can be run or traced here."""

    holder = "a capture loaded from a file"

    def run(self, n: int) -> Run:
        raise UnavailableError(f"{self.holder} holds no program that could run")

    def limits(self, dtypes: Iterable[str]) -> Limits | None:
        return None
