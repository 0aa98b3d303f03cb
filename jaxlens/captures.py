"""A Capture: every stage of one program for one target, each computed on first access.

It can be saved to one file, and loaded where JAX has no device or is not installed.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from jaxlens.errors import CaptureFileError, UnavailableError, nearest
from jaxlens.ir.driver import Attempt, Driver, Loop, Needs, Variant
from jaxlens.ir.facts import (
    Constant,
    Input,
    Kernel,
    Memory,
    PassStage,
    Profile,
    Program,
    Source,
    Stage,
    Timing,
    Verdict,
)
from jaxlens.ir.graph import Module
from jaxlens.ir.line_trace import LineTrace
from jaxlens.ir.saved import file as saved_file
from jaxlens.ir.saved.driver import SavedDriver
from jaxlens.ir.saved.save import save
from jaxlens.ir.stage import BY_NAME
from jaxlens.links.links import Links


@dataclass(frozen=True, slots=True)
class Capture:
    """One program at every stage. See `Driver` for what each property holds and may raise.

    Attributes:
        program: What was taken.
        driver: Where its stages and facts come from.
        links: Who came from whom among its stages; worked out when asked.
    """

    program: Program
    driver: Driver = field(repr=False)
    links: Links = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", Links(self.driver))

    def gather(self, needs: Needs) -> "Capture":
        """Records what questions need, with at most one compile, and returns itself.

        What this backend does not give raises no sooner than it is read.
        """
        with suppress(UnavailableError):
            self.driver.gather(needs)
        return self

    def stage(self, name: str) -> Stage:
        """The stage of that name.

        Raises:
            UnavailableError: There is no such stage, or this backend does not give it.
        """
        names = [stage for stage in BY_NAME if stage not in ("source", "passes")]
        if name not in names:
            raise UnavailableError(f"no stage {name!r}; {nearest(name, names)}")
        return self.driver.stage(name)

    @property
    def jaxpr(self) -> Stage:
        return self.driver.stage("jaxpr")

    @property
    def stablehlo(self) -> Stage:
        return self.driver.stage("stablehlo")

    @property
    def hlo(self) -> Stage:
        return self.driver.stage("hlo")

    @property
    def passes(self) -> tuple[PassStage, ...]:
        return self.driver.passes()

    @property
    def fusing(self) -> tuple[PassStage, ...]:
        """Dumps of the passes that fuse at least; the cheaper question for a large program."""
        return self.driver.fusing()

    @property
    def has_all_passes(self) -> bool:
        """Whether `passes` is at hand without another compile."""
        return "passes" in self.driver.recorded()

    @property
    def optimized(self) -> Stage:
        return self.driver.stage("optimized")

    @property
    def llvm(self) -> Stage:
        return self.driver.stage("llvm")

    @property
    def asm(self) -> Stage:
        return self.driver.stage("asm")

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self.driver.kernels()

    @property
    def buffers(self) -> str:
        return self.driver.buffers()

    @property
    def fusion_log(self) -> str:
        return self.driver.fusion_log()

    @property
    def memory(self) -> Memory:
        return self.driver.memory()

    @property
    def cost(self) -> Mapping[str, float]:
        return self.driver.cost()

    @property
    def times(self) -> tuple[Timing, ...]:
        return self.driver.times()

    @property
    def tape(self) -> LineTrace:
        """What the function's lines did while it was traced; a trace made before is made again."""
        return self.driver.line_trace()

    @property
    def profile(self) -> Profile:
        """What the compile spent its time on; a compile without a profiler is made again."""
        return self.driver.profile()

    @property
    def verdict(self) -> Verdict:
        return self.driver.verdict()

    @property
    def deviations(self) -> tuple[str, ...]:
        """Where the program shown is not the one that runs; `program`'s first, then the driver's.

        It may trace, and neither lowers nor compiles.
        """
        return (*self.program.deviations, *self.driver.deviations())

    @property
    def outputs(self) -> tuple[Input, ...]:
        return self.driver.outputs()

    @property
    def constants(self) -> tuple[Constant, ...]:
        return self.driver.constants()

    @property
    def sources(self) -> Mapping[str, Source]:
        return self.driver.sources()

    def rungs(self) -> tuple["Capture", ...]:
        """The same function with ever more of its transforms, itself first.

        Raises:
            UnavailableError: It has no transform, or this is no live call.
        """
        return tuple(Capture(*rung) for rung in self.driver.rungs())

    def checkpointed(self) -> Iterator[Attempt["Capture"]]:
        """The ways to put `jax.checkpoint` round what it differentiates.

        Raises:
            UnavailableError: This is no live call; also from what traces one of the ways.
        """
        return (_attempt(way) for way in self.driver.checkpointed())

    def scan_checkpointed(self, loops: Callable[[Module], Sequence[Loop]]) -> Attempt["Capture"]:
        """Scans with checkpointed bodies in the place of the loops that `loops` gives."""
        return _attempt(self.driver.scan_checkpointed(loops))

    def save(self, path: str | os.PathLike[str], *, stages: Collection[str] | None = None) -> None:
        """Writes it to one file, which `jaxlens.load` reads on a machine with no JAX device.

        Args:
            path: Where to; a file that is there is replaced.
            stages: What to keep, by name; by default all that there is, computed if need be.

        Raises:
            UnavailableError: There is no stage of such a name.
            CaptureFileError: The file cannot be written.
        """
        save(self.program, self.driver, path, stages=stages)


def _attempt(way: Attempt[Variant]) -> Attempt[Capture]:
    name, code, make = way
    return name, code, lambda: Capture(*make())


def load(path: str | os.PathLike[str]) -> Capture:
    """Reads a capture that `save` wrote. JAX is not imported.

    Raises:
        CaptureFileError: The file is no saved capture, is damaged, or is of a later version.
    """
    archive = saved_file.read(path)
    with archive.json("manifest.json") as manifest:
        version = manifest.get("version") if isinstance(manifest, dict) else None
        if not isinstance(version, int) or manifest.get("format") != saved_file.FORMAT:
            raise archive.wrong("its manifest is not a capture's")
        if version != saved_file.VERSION:
            raise CaptureFileError(
                f"expected version {saved_file.VERSION} of the file format, got "
                f"{str(version)[:40]} in {archive.where}; "
                "use the jaxlens that wrote it"
            )
        driver = SavedDriver(archive, manifest)
    return Capture(driver.program, driver)
