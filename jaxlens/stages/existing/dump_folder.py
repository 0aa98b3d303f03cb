"""Reads a program from a folder that XLA dumped into (`XLA_FLAGS=--xla_dump_to=...`)."""

import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, nearest
from jaxlens.ir.facts import Input, Kernel, Memory, Stage, Target
from jaxlens.ir.hlo import buffers
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.entry_inputs import entry_inputs, entry_outputs
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.compile import dump_files
from jaxlens.stages.compile.xla import CompileOutput
from jaxlens.stages.existing.module_text import OptimizedDriver, read_capture

_CURE = (
    "dump it too, with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*' (and from jax 0.11 "
    "on '--xla_dump_emitter_re=^(llvm|ptx)$' for LLVM IR), or look at the call itself: "
    "jaxlens.capture(f, x)"
)
_PLATFORM = re.compile(
    r"\.(?:sm_[\d.]+\w*_)?(?P<platform>cpu|gpu|tpu)\w*_after_optimizations\.txt$"
)


def of_folder(path: Path, module: str = "") -> Capture:
    """Returns the capture of a program in a folder of dumps.

    Args:
        path: The folder.
        module: Name of the module ("jit_step") or prefix of its files ("module_0012.jit_step"); by
            default the largest module.

    Raises:
        OptionError: The folder has no dump, or none of that module.
    """
    stems = dump_files.stems(path)
    if not stems and any(path.glob("process-*/process.json")):
        raise OptionError(
            f"{path.name!r} is the record of a job: jaxlens show {path} -o page.html in a shell, "
            f"jaxlens.runs({str(path)!r}) in Python"
        )
    if not stems and any(path.glob("module_*.pb")):
        raise OptionError(
            f"{path.name!r} has XLA's dumps as protos only: add --xla_dump_hlo_as_text to XLA_FLAGS"
        )
    if not stems:
        raise OptionError(
            f"expected a folder that XLA dumped into, got {path.name!r} without any "
            "module_*.before_optimizations.txt: set XLA_FLAGS=--xla_dump_to=DIR before JAX starts"
        )
    try:
        stem = _stem(path, stems, module)
        driver = FolderDriver(dump_files.read(path, stem=stem), _platform(path, stem))
    except OSError as error:
        name, reason = Path(error.filename or path).name, error.strerror or type(error).__name__
        raise OptionError(f"cannot read {name} of that folder: {reason}; dump it again") from None
    text = driver.first.module
    name, target = text.name.removeprefix("jit_"), Target(driver.platform, "")
    origin = f"a folder of XLA's dumps{_other_module(stems, stem)}"
    return read_capture(driver, name, entry_inputs(text), target, origin)


def _stem(path: Path, stems: list[str], module: str) -> str:
    if not module:
        sizes = {s: os.stat(path / f"{s}.before_optimizations.txt").st_size for s in stems}
        return max(stems, key=lambda stem: sizes[stem])
    matches = [s for s in stems if module in (s, s.partition(".")[2])]
    if not matches:
        modules = list(dict.fromkeys(s.partition(".")[2] for s in stems))
        raise OptionError(f"no module {module!r} in this folder; {nearest(module, modules)}")
    return matches[-1]  # the latest compile of that name


def _other_module(stems: list[str], stem: str) -> str:
    """Returns a note that the folder has more modules, with the name of one; "" if it has not."""
    other = next((s for s in stems if s != stem), None)
    if other is None:
        return ""
    name = other.partition(".")[2]
    alone = sum(s.partition(".")[2] == name for s in stems) == 1
    return f", 1 of {len(stems)} modules in it (module={name if alone else other!r} is another)"


def _platform(path: Path, stem: str) -> str:
    """Returns "cpu", "gpu" or "tpu" from the name of the optimised HLO's file; "" without one."""
    for name in os.listdir(path):
        if name.startswith(f"{stem}.") and (match := _PLATFORM.search(name)):
            return match["platform"]
    return ""


class FolderDriver(OptimizedDriver):
    """Reads the stages and facts of one module from the files that XLA dumped.

    Attributes:
        platform: "cpu", "gpu" or "tpu"; "" where the files do not say.
    """

    holder = "this folder of dumps"
    cure = _CURE

    def __init__(self, files: dump_files.Dump, platform: str) -> None:
        self.platform = platform
        super().__init__(CompileOutput("the program", platform, None, files))

    @cached_property
    def first(self) -> Stage:
        """HLO before optimisation, which every dump has."""
        text = self._output.dump.before
        return Stage(BY_NAME["hlo"], lambda: text, lambda: hlo.read(text, stage="hlo"))

    def stage(self, name: str) -> Stage:
        return self.first if name == "hlo" else super().stage(name)

    def kernels(self) -> tuple[Kernel, ...]:
        return self._output.kernels

    def outputs(self) -> tuple[Input, ...]:
        return entry_outputs(self.first.module)

    def memory(self) -> Memory:
        """Sums the dumped buffer allocations in the way of XLA's `memory_analysis`; in bytes."""
        allocations = buffers.read(self.buffers()).allocations
        parameters = [a for a in allocations if a.kind == "parameter"]
        return Memory(
            arguments=sum(a.size for a in parameters),
            outputs=sum(a.size for a in allocations if a.live_out),
            temporaries=sum(a.size for a in allocations if a.kind == "temporary"),
            aliases=sum(a.size for a in parameters if a.live_out),
            note="summed over the buffer assignment in the folder",
        )


def is_path(value: Any) -> bool:
    """Whether a value can be a path: a program's text is too long, or has several lines."""
    if not isinstance(value, str | os.PathLike):
        return False
    path = os.fspath(value)
    return len(path) < 4096 and "\n" not in path and "\0" not in path


def is_folder(value: Any) -> bool:
    """Whether a value is the path of an existing folder."""
    return is_path(value) and os.path.isdir(value)
