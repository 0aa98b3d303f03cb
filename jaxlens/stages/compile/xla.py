"""Compiles a lowered program once, outside the user's caches, and keeps XLA's dumps.

Uses only `jax.stages.Lowered` and compile options: no environment variable and no change of
`jax.config`. The fresh dump folder is one of those options, so JAX's in-memory caches never hit
an earlier compile, which would dump nothing; the persistent cache is disabled meanwhile.

XLA cannot be interrupted. On KeyboardInterrupt the user gets control at once: the dump folder is
removed, and the compile finishes in its own thread, which then removes the files written since.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn

import jax

from jaxlens import compat, progress
from jaxlens.errors import UnavailableError
from jaxlens.interrupts import deferred, uninterrupted
from jaxlens.ir.facts import Kernel, Memory, PassStage, Profile, Stage, Timing
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import Origins
from jaxlens.ir.hlo.passes import pass_stages
from jaxlens.ir.machine.disassemble import missing, readable
from jaxlens.ir.stage import BY_NAME
from jaxlens.ir.stamps import bare
from jaxlens.stages.compile import profile
from jaxlens.stages.compile.analyses import cost, memory
from jaxlens.stages.compile.dump_files import (
    Dump,
    doing,
    folder,
    full,
    has_module,
    is_optimized,
    read,
    read_hlo,
    remove,
    same_passes,
    stems,
)
from jaxlens.stages.compile.interruptible import Abandon, Background
from jaxlens.stages.compile.kernels import asm_text, kernels, llvm_parts, llvm_text, without_code
from jaxlens.stages.compile.xla_options import dump_options

Flags = Mapping[str, bool | int | str]
_WHOLE = "XLA, writing its dumps too"
_PASSES_ALONE = "XLA's passes, writing their dumps, without machine code"
_OF_NO_PASS = ("optimized", "kernels", "llvm", "asm", "memory", "cost")  # what no pass's dump tells


@dataclass(frozen=True)
class CompileOutput:
    """The result of one compile; properties are computed on first access.

    A property whose text XLA did not write raises UnavailableError.

    Attributes:
        name: The program's name, for messages.
        platform: "cpu", "gpu" or "tpu".
        executable: The `jax.stages.Compiled`; it can run unless the target is absent.
        dump: The contents of the dump files.
        times: Seconds of the compile and of reading the files.
        passes_asked: Whether passes were dumped; a string is the regular expression of their names.
        origins: Returns the frames of the ops that the program's stamps name; see `hlo.read`.
        profile: XLA's profile of the compile; None if the profiler was off.
        lacking: The message for a text that XLA did not write.
    """

    name: str
    platform: str
    executable: Any = field(repr=False)
    dump: Dump = field(repr=False)
    times: tuple[Timing, ...] = ()
    passes_asked: bool | str = False
    origins: Origins | None = field(default=None, repr=False)
    profile: Profile | None = field(default=None, repr=False)
    lacking: str = "XLA gave no {noun} for {name} on {platform}"

    @cached_property
    def optimized(self) -> Stage:
        """The stage of optimised HLO, the module that runs."""
        made = "" if self.executable is None else self.executable.as_text()
        text = self.dump.optimized or made or self._lacks("optimised HLO")
        return Stage(
            BY_NAME["optimized"],
            lambda: text,
            lambda: hlo.read(text, stage="optimized", origins=self.origins),
        )

    @cached_property
    def passes(self) -> tuple[PassStage, ...]:
        """The HLO before optimisation and after each dumped pass that changed it, in order."""
        if not self.dump.pass_names:
            self._lacks("dump of a pass" if self.passes_asked else "passes: none were asked for")
        return pass_stages(self.dump.pass_names, self.dump.pass_texts, self.origins)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, library calls and thunks in program order; parses the optimised HLO."""
        rows = kernels(self.optimized.module, self.dump, self.platform)
        return without_code(rows, self.dump.lost) if self.dump.lost else rows

    @cached_property
    def llvm(self) -> Stage:
        """The stage of every kernel's optimised LLVM IR; `kernels` also have the unoptimised."""
        if not (self.dump.llvm_after or self.dump.llvm_before):
            self._lacks("LLVM IR")
        return Stage(BY_NAME["llvm"], lambda: llvm_text(self.dump))

    @cached_property
    def asm(self) -> Stage:
        """The stage of every kernel's disassembly, or PTX."""
        if self.dump.objects and not self.dump.ptx and missing():
            raise UnavailableError(missing())
        if not (any(map(readable, self.dump.objects.values())) or self.dump.ptx):
            self._lacks("object code that can be read")
        return Stage(BY_NAME["asm"], lambda: asm_text(self.kernels, self.dump))

    @property
    def buffers(self) -> str:
        """The buffer assignment as text, followed by the live ranges if XLA dumped them."""
        text = self.dump.buffers or self._lacks("buffer assignment")
        return bare(f"{text}\n{self.dump.live}" if self.dump.live else text)

    @property
    def fusion_log(self) -> str:
        """The decisions of the priority fusion pass (GPU)."""
        return self.dump.fusion_log or self._lacks("reasons for what it fused")

    @cached_property
    def memory(self) -> Memory:
        """Sizes of arguments, outputs and temporaries in bytes."""
        return memory(self.executable or self._lacks("sizes of memory"))

    @cached_property
    def cost(self) -> Mapping[str, float]:
        """XLA's cost analysis, sorted by XLA's property names; a loop's body counts once."""
        return cost(self.executable or self._lacks("cost analysis"), self.platform)

    def with_passes(self, dump: Dump) -> "CompileOutput | None":
        """Returns this output with the dumps of all passes; what was read of it stays the same.

        Returns None if the passes that both dumped did not give the same programs.
        """
        if not self.dump.pass_names or not same_passes(self.dump, dump):
            return None
        names, texts = dump.pass_names, dump.pass_texts
        dump = replace(self.dump, pass_names=names, pass_texts=texts)
        return replace(self, dump=dump, passes_asked=True)._sharing(self, *_OF_NO_PASS)

    def with_profile(self, profile: Profile | None) -> "CompileOutput":
        """Returns this output with another profile; what was read of it stays the same."""
        return replace(self, profile=profile)._sharing(self, *_OF_NO_PASS, "passes")

    def _sharing(self, other: "CompileOutput", *names: str) -> "CompileOutput":
        """Returns itself, with what was read of another output of the same program."""
        read = vars(other)
        vars(self).update({name: read[name] for name in names if name in read})
        return self

    def _lacks(self, noun: str) -> NoReturn:
        if self.dump.lost:
            raise UnavailableError(self.dump.lost)
        is_code = noun in ("LLVM IR", "object code that can be read")
        why = "; it shows no machine code for TPUs" if is_code and self.platform == "tpu" else ""
        text = self.lacking.format(noun=noun, name=self.name, platform=self.platform)
        raise UnavailableError(f"{text}{why}")


class RunningCompile:
    """A compile that goes on in a thread of its own.

    Attributes:
        passes_asked: See `CompileOutput`.

    XLA writes optimised HLO after a fifth of the time of a compile for a CPU, and generates machine
    code in the rest. `hlo` returns what is written, so that it can be read meanwhile.
    """

    def __init__(
        self,
        lowered: Any,
        *,
        name: str,
        passes: bool | str = False,
        origins: Origins | None = None,
        profiled: bool = False,
        flags: Flags | None = None,
        code: bool = True,
        again: str = "",
    ) -> None:
        """Starts a compile, with XLA's dumps on.

        LLVM IR, objects, buffer assignment and live ranges are always dumped; they cost 5-10 % of a
        compile.

        Args:
            lowered: A `jax.stages.Lowered`, for any backend or described device.
            name: The program's name, for messages.
            passes: Whether to dump the HLO after each pass that changed it (costs a large
                program 10 % more time and 50 MB); a string is a regular expression on pass names.
            origins: Returns the frames of the program's ops, if it is stamped.
            profiled: Whether JAX's profiler records the compile (costs a few percent).
            flags: XLA options in addition to the dump options; some crash the process.
            code: Whether to generate machine code. Without it a compile for a CPU takes a quarter
                of the time and has no executable; where XLA cannot be stopped there is one.
            again: Why the program is compiled once more, shown while it runs.
        """
        self._lowered, self._name, self._origins = lowered, name, origins
        self.passes_asked, self._profiled = passes, profiled
        self._flags, self._code = flags or {}, code
        self._path: Path | None = None
        self._hlo: CompileOutput | None = None

        # Acquired while the dumps are read: they are removed when the compile has ended.
        self._reading = threading.Lock()

        def work(abandon: Abandon) -> CompileOutput:
            done = False
            try:
                made = self._compile(abandon)
                done = True
                return made
            finally:
                self._end(done)

        with deferred(self.abandon):
            doing = f"XLA compiles {self._name} {again}".rstrip()
            self._end = progress.begin(doing, self._detail)
            try:
                self._work = Background(work)
            except BaseException:  # no thread could be started
                self._end(False)
                raise

    def _compile(self, abandon: Abandon) -> CompileOutput:
        """Compiles, and reads all dumps but those that `hlo` has read."""
        session = profile.Session() if self._profiled else None
        with folder() as path, compat.persistent_cache_off():

            def cleanup() -> None:
                if session is not None:
                    session.stop()
                remove(path)

            abandon.cleanup, recorded = cleanup, None
            with self._announced(path), session or nullcontext():
                start = time.perf_counter()
                options = {**dump_options(str(path), self.passes_asked), **self._flags}
                executable = _executable(self._lowered, options, None if self._code else path)
                seconds = time.perf_counter() - start
                if session is not None:
                    name = _name(self._lowered)
                    recorded = profile.read(session.stop(), name, seconds, session.note)
            start = time.perf_counter()
            lost = full(path)
            is_read = not abandon.asked and not lost
            early = self._hlo.dump if self._hlo is not None else None
            files = read(path, session is not None, hlo=early) if is_read else Dump(lost=lost)
            times = (
                Timing("compile", seconds, _WHOLE if executable is not None else _PASSES_ALONE),
                Timing("read dumps", time.perf_counter() - start),
            )
        if recorded is not None and recorded.parts:
            recorded = replace(recorded, parts=(*recorded.parts, *llvm_parts(files)))
        return CompileOutput(
            self._name,
            "cpu" if executable is None else _platform(executable),
            executable,
            files,
            times,
            self.passes_asked,
            self._origins,
            recorded,
        )

    @uninterrupted
    def _announced(self, path: Path) -> Iterator[None]:
        """Makes the dump folder known while XLA writes to it."""
        with self._reading:
            self._path = path
        try:
            yield
        finally:
            with self._reading:
                self._path = None

    def _detail(self) -> str:
        path = self._path
        return doing(path) if path else ""

    def converted(self) -> None:
        """Waits until XLA has read the StableHLO module, which no other thread may read before."""
        self._work.wait_for(self._is_converted)

    def _is_converted(self) -> bool:
        path = self._path
        return path is not None and bool(stems(path))

    def hlo(self) -> CompileOutput | None:
        """Returns the HLO of a CPU's compile once it is written, without executable and code.

        Returns None if the compile ended before, or failed.
        """
        if self._hlo is None and self._work.wait_for(self._is_optimized):
            with self._reading, suppress(OSError):  # the disk is full
                if self._path is not None:  # else the compile has ended meanwhile
                    dump, passes = read_hlo(self._path), self.passes_asked
                    self._hlo = CompileOutput(
                        self._name, "cpu", None, dump, (), passes, self._origins
                    )
        return self._hlo

    def _is_optimized(self) -> bool:
        path = self._path
        return path is not None and is_optimized(path)

    def done(self) -> bool:
        """Whether the compile has ended, or failed."""
        return self._work.done()

    def result(self) -> CompileOutput:
        """Waits for the end of the compile."""
        try:
            done = self._work.result()
        except BaseException:
            self._end(False)
            raise
        return done if self._hlo is None else done._sharing(self._hlo, "optimized", "passes")

    def abandon(self) -> None:
        """Stops waiting: XLA ends in the background, and its files are removed."""
        self._end(False)
        self._work.abandon()


def compile_lowered(
    lowered: Any,
    *,
    name: str,
    passes: bool | str = False,
    profiled: bool = False,
    flags: Flags | None = None,
) -> CompileOutput:
    """Compiles exactly once; see `RunningCompile` for the arguments.

    Raises:
        Exception: The error that JAX raises if the program does not compile, unchanged.
    """
    return RunningCompile(
        lowered, name=name, passes=passes, profiled=profiled, flags=flags
    ).result()


def _executable(lowered: Any, options: Flags, path: Path | None) -> Any:
    """Compiles a lowered program; returns None if XLA was stopped before machine code.

    Args:
        lowered: The `jax.stages.Lowered`.
        options: Compiler options.
        path: The dump folder of the module to stop; None to compile it whole.
    """
    if path is None:
        return lowered.compile(compiler_options=options)
    with compat.stopped_when_scheduled(partial(has_module, path)) as stopped:
        try:
            return lowered.compile(compiler_options=options)
        except Exception:
            if stopped:
                return None
            raise


def _name(lowered: Any) -> str:
    """Returns the module's name; "" if it has none."""
    try:
        return str(lowered.compiler_ir("stablehlo").operation.attributes["sym_name"].value)
    except (AttributeError, KeyError, NotImplementedError):
        return ""


def _platform(executable: Any) -> str:
    """Returns "cpu", "gpu" or "tpu"; some clients report "cuda" or "rocm" for GPUs."""
    try:
        platform = executable.runtime_executable().local_devices()[0].platform
    except Exception:
        shardings = jax.tree.leaves(executable.output_shardings)
        devices = [d for s in shardings for d in getattr(s, "device_set", ())]
        platform = devices[0].platform if devices else "this backend"
    return "gpu" if platform in ("cuda", "rocm") else platform
