"""A Capture: every stage of one program for one target, each computed on first access.

It can be saved to one file, and loaded where JAX has no device or is not installed.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from jaxlens.errors import CaptureFileError, LensError, UnavailableError, nearest
from jaxlens.ir import fact
from jaxlens.ir.driver import Driver
from jaxlens.ir.facts import (
    Constant,
    Input,
    Kernel,
    LineTrace,
    Memory,
    PassStage,
    Profile,
    Program,
    Source,
    Stage,
    Timing,
    Verdict,
)
from jaxlens.ir.hlo.buffers import Buffers, read
from jaxlens.ir.needs import Needs
from jaxlens.ir.saved import file as saved_file
from jaxlens.ir.saved.driver import SavedDriver
from jaxlens.ir.saved.save import save
from jaxlens.ir.stage import BY_NAME, STAGES
from jaxlens.links.links import Links


@dataclass(frozen=True, slots=True)
class Capture:
    """A program at every stage, for one target; each stage is computed on first access.

    `jaxlens.capture` makes one and `jaxlens.load` reads a saved one. A property for a stage or
    fact that this backend or this program does not have raises `UnavailableError`, whose message
    says how to get it. Reading a stage traces, lowers or compiles as far as it must; nothing is
    executed.

    Attributes:
        program: Function name, inputs, static arguments, target and versions.
        driver: The source of stages and facts: a live call, or a saved file.
        links: Links between the nodes of any two stages, computed on first use.
    """

    program: Program
    driver: Driver = field(repr=False)
    links: Links = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", Links(self.driver))

    def __repr__(self) -> str:
        """The call, the stages made so far, and the steps that the others need; computes none."""
        steps: dict[str | None, list[str]] = {}
        for row in STAGES[1:]:
            steps.setdefault(self.driver.waits_for(row.name), []).append(row.title)
        there, none = steps.pop("", ["nothing yet"]), steps.pop(None, [])
        parts = [f"{step} gives {', '.join(titles)}" for step, titles in steps.items()]
        parts += [f"{self.driver.holder} has no {', '.join(none)}"] if none else []
        program, n = self.program, len(self.program.inputs)
        arrays = f"{n} array{'s' * (n != 1)}"
        place = f"on {program.target.platform}" if program.target.platform else "for any device"
        return (
            f"Capture of {program.call} with {arrays}, {place}\n"
            f"  there: {', '.join(there)}\n"
            f"  when asked: {'; '.join(parts) or 'nothing more'}"
        )

    def gather(self, needs: Needs) -> "Capture":
        """Records what questions need, with at most one compile, and returns itself.

        It does not raise if this backend cannot give something; reading that property does.
        """
        with self.gathering(needs):
            return self

    @contextmanager
    def gathering(self, needs: Needs) -> Iterator["Capture"]:
        """Gathers like `gather`, but waits for the compile at the end of the block.

        An interrupt in the block leaves the compile to end in the background.
        """
        with suppress(UnavailableError):
            self.driver.gather(needs)
        try:
            yield self
        except Exception:
            raise
        except BaseException:
            self.driver.abandon()
            raise
        finally:
            if needs.compiled or needs.passes or needs.profile:
                with suppress(UnavailableError):
                    self.driver.finish()

    def stage(self, name: str) -> Stage:
        """Returns a stage by name: jaxpr, stablehlo, hlo, optimized, llvm or asm.

        Raises:
            UnavailableError: There is no stage of that name, or this backend does not give it.
        """
        names = [stage for stage in BY_NAME if stage not in ("source", "passes")]
        if name not in names:
            raise UnavailableError(f"no stage {name!r}; {nearest(name, names)}")
        return self.driver.stage(name)

    @property
    def jaxpr(self) -> Stage:
        """The traced program: `.text`, and its equations as `.module`."""
        return self.driver.stage("jaxpr")

    @property
    def stablehlo(self) -> Stage:
        """The lowered program: `.text`, and its ops as `.module`."""
        return self.driver.stage("stablehlo")

    @property
    def hlo(self) -> Stage:
        """HLO before optimisation: `.text`, and its instructions as `.module`."""
        return self.driver.stage("hlo")

    @property
    def passes(self) -> tuple[PassStage, ...]:
        """HLO after each pass that changed it, in order; the first is HLO before optimisation.

        Of a large program, a compile dumps the passes that fuse alone. XLA's passes run again then,
        for a CPU without the machine code, which is most of a compile.
        """
        return self.driver.passes()

    @property
    def fusing(self) -> tuple[PassStage, ...]:
        """HLO after each pass that fuses, and perhaps after others; in order.

        Takes less time and memory than `passes` for a large program.
        """
        return self.driver.fusing()

    @property
    def has_all_passes(self) -> bool:
        """Whether `passes` takes no further compile."""
        return "passes" in self.driver.recorded()

    @property
    def optimized(self) -> Stage:
        """HLO after all passes: `.text`, and its instructions as `.module`."""
        return self.driver.stage("optimized")

    @property
    def llvm(self) -> Stage:
        """LLVM IR of each kernel, before and after LLVM's optimisations."""
        return self.driver.stage("llvm")

    @property
    def asm(self) -> Stage:
        """Machine instructions of each kernel (PTX on NVIDIA GPUs)."""
        return self.driver.stage("asm")

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, library calls and thunks of the executable, in program order if known."""
        return self.driver.fact(fact.KERNELS)

    @property
    def buffers(self) -> str:
        """XLA's buffer assignment, as XLA prints it."""
        return self.driver.fact(fact.BUFFERS)

    @property
    def assignment(self) -> Buffers | None:
        """The same, read; None where there is none."""
        try:
            return read(self.buffers)
        except LensError:
            return None

    @property
    def fusion_log(self) -> str:
        """XLA's log of what its fusion pass decided, and why; on GPUs."""
        return self.driver.fact(fact.FUSION_LOG)

    @property
    def memory(self) -> Memory:
        """Sizes in bytes on one device: arguments, outputs, temporaries, aliases, code."""
        return self.driver.fact(fact.MEMORY)

    @property
    def cost(self) -> Mapping[str, float]:
        """XLA's cost analysis by XLA's names ("flops", "bytes accessed"), each loop body once."""
        return self.driver.fact(fact.COST)

    @property
    def times(self) -> tuple[Timing, ...]:
        """Wall-clock seconds of the steps done so far: trace, lowering, compile."""
        return self.driver.fact(fact.TIMES)

    @property
    def tape(self) -> LineTrace:
        """What each Python line did while the function was traced; may trace once more."""
        return self.driver.fact(fact.TAPE)

    @property
    def profile(self) -> Profile:
        """Where the compile spent its time, in seconds; compiles again if it was not profiled."""
        return self.driver.fact(fact.PROFILE)

    @property
    def verdict(self) -> Verdict:
        """Whether this call, before it was captured, would have hit JAX's caches; if not, why."""
        return self.driver.fact(fact.VERDICT)

    @property
    def deviations(self) -> tuple[str, ...]:
        """Sentences on how the program shown differs from the one that runs.

        It may trace, and neither lowers nor compiles.
        """
        return (*self.program.deviations, *self.driver.deviations())

    @property
    def outputs(self) -> tuple[Input, ...]:
        """Results with their pytree paths, dtypes and shapes."""
        return self.driver.fact(fact.OUTPUTS)

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Arrays that the function closes over, with bytes and the code that holds them."""
        return self.driver.fact(fact.CONSTANTS)

    @property
    def sources(self) -> Mapping[str, Source]:
        """Text of the files and cells that the jaxpr's source locations name, by `Span.key`."""
        return self.driver.fact(fact.SOURCES)

    def save(self, path: str | os.PathLike[str], *, stages: Collection[str] | None = None) -> None:
        """Writes the capture to one file, which `jaxlens.load` reads without JAX.

        Args:
            path: Path of the file; an existing file is replaced.
            stages: Names of the stages to save; by default all that this backend gives. Stages that
                have not been computed are computed first.

        Raises:
            UnavailableError: There is no stage of one of these names.
            CaptureFileError: The file cannot be written.
        """
        save(self.program, self.driver, path, stages=stages)


def load(path: str | os.PathLike[str]) -> Capture:
    """Reads a capture that `Capture.save` wrote. It needs neither JAX nor a device.

    Args:
        path: Path of the file.

    Returns:
        A capture with the stages and facts that were saved; the others raise `UnavailableError`.

    Raises:
        CaptureFileError: The file is no saved capture, is damaged, or has a later version's format.
    """
    return load_with(path, SavedDriver)


def load_with(
    path: str | os.PathLike[str],
    make: Callable[[saved_file.Archive, dict[str, Any]], SavedDriver],
) -> Capture:
    """Reads a saved capture with a driver that can do more than read; see `load`."""
    return capture_of(saved_file.read(path), make)


def capture_of(
    archive: saved_file.Archive,
    make: Callable[[saved_file.Archive, dict[str, Any]], SavedDriver],
) -> Capture:
    """Returns the capture of an archive; see `load_with`."""
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
        driver = make(archive, manifest)
    return Capture(driver.program, driver)
