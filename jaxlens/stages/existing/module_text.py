"""Reads HLO and StableHLO text, and compiles it when a later stage is needed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call.target import resolve, target_of
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, first_line
from jaxlens.ir.driver import Driver
from jaxlens.ir.facts import Input, Kernel, Program, Stage, Target
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.entry_inputs import entry_inputs, entry_outputs
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.child.first_in_child import tried
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.kernels import without_code
from jaxlens.stages.compile.loaded_executable import LoadedExecutable
from jaxlens.stages.compile.output_driver import OutputDriver
from jaxlens.stages.compile.program_text import stablehlo_of
from jaxlens.stages.compile.xla import CompileOutput
from jaxlens.stages.driver import ExistingDriver
from jaxlens.stages.session.existing_trace import ExistingTrace

_Leaves = tuple[Input, ...]
CURE = "look at the call itself: jaxlens.capture(f, x)"
_HLO = re.compile(r"\s*HloModule\b")
_MLIR = re.compile(
    r"\s*(?:(?:#[^\n]*|//[^\n]*)\n\s*)*(?:module\b|func\.func\b|\"builtin\.module\")"
)


def is_program_text(value: Any) -> bool:
    """Whether a value is the text of an HLO or StableHLO module."""
    return isinstance(value, str) and bool(_HLO.match(value) or _MLIR.match(value))


def of_text(text: str, target: str | None = None, name: str = "") -> Capture:
    """Returns the capture of a program from its text.

    Args:
        text: HLO before or after optimisation, or StableHLO.
        target: The platform of this process to compile for.
        name: Name of the program; by default the module's name.

    Raises:
        ReadError: The text is neither HLO nor StableHLO.
        OptionError: There is a target, but the text is optimised HLO.
        TargetError: The target does not exist.
    """
    if not _HLO.match(text):
        tried(text)
        return stablehlo_capture(stablehlo.parse(text), target or "", name, "StableHLO text")
    output = CompileOutput("the program", "", None, Dump(optimized=text))
    if output.optimized.module.attrs.get("is_scheduled") == "true":
        return _optimized(output, target, name)
    stage = Stage(BY_NAME["hlo"], lambda: text, lambda: hlo.read(text, stage="hlo"))
    sizes = [stage.module.attrs.get(n, "1") for n in ("num_partitions", "replica_count")]
    lowered = _ModuleOnly(None, text, *_devices(target, *sizes))
    missing = {"jaxpr": "jaxpr", "stablehlo": "StableHLO"}
    return _staged(stage.module, lowered, name, "HLO text", {"hlo": stage}, missing)


def stablehlo_capture(
    module: Any,
    platform: str,
    name: str,
    holder: str,
    *,
    unsized: str = "",
    inputs: Callable[[_Leaves], _Leaves] = tuple,
    outputs: Callable[[_Leaves], _Leaves] = tuple,
) -> Capture:
    """Returns the capture of an MLIR StableHLO module, compiled when a later stage is needed.

    Args:
        module: The module.
        platform: The platform of this process to compile for; "" for the default one.
        name: The program's name; "" for the module's.
        holder: What it was read from, as a noun.
        unsized: Why it is not compiled: which sizes are no numbers, and what gives them.
        inputs: Completes the inputs that the module shows.
        outputs: Completes the outputs.
    """
    read = stablehlo.read(module)
    sizes = [read.attrs.get(f"mhlo.num_{n}", "1") for n in ("partitions", "replicas")]
    dynamic = [f"{leaf.name} {leaf.type}" for leaf in entry_inputs(read) if "?" in leaf.type.shape]
    if dynamic and not unsized:
        unsized = (
            f"sizes of {', '.join(dynamic)} are not in the text, and XLA compiles numbers: look at "
            "jaxlens.capture(exported.call, x) of the jax.export.Exported that it is from"
        )
    lowered = _ModuleOnly(module, None, *_devices(platform or None, *sizes), unsized)
    missing = {"jaxpr": "jaxpr"}
    return _staged(read, lowered, name, holder, {}, missing, inputs, outputs)


def _staged(
    module: Module,
    lowered: "_ModuleOnly",
    name: str,
    holder: str,
    stages: Mapping[str, Stage],
    missing: Mapping[str, str],
    inputs: Callable[[_Leaves], _Leaves] = tuple,
    outputs: Callable[[_Leaves], _Leaves] = tuple,
) -> Capture:
    staging = ExistingTrace(
        name or module.name.removeprefix("jit_"),
        inputs(entry_inputs(module)),
        target_of(lowered.devices),
        holder,
        CURE,
        make=lambda: lowered,
        outputs=lambda: outputs(entry_outputs(module)),
    )
    return captured(staging, stages, missing)


def captured(
    staging: ExistingTrace,
    stages: Mapping[str, Stage] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Capture:
    """Returns the capture of an existing trace or lowering; see `ExistingDriver`."""
    driver = ExistingDriver(staging, stages or {}, missing or {})
    return read_capture(driver, staging.call.name, staging.call.inputs, staging.place.target)


def read_capture(
    driver: Driver, name: str, inputs: tuple[Input, ...], target: Target, origin: str = ""
) -> Capture:
    """Returns the capture of a program that a driver reads.

    Args:
        driver: The driver.
        name: The program's name.
        inputs: The array leaves of its arguments.
        target: The target.
        origin: What it was read from, by default the driver's `holder`.
    """
    origin = f"read from {origin or driver.holder}"
    return Capture(Program(name, inputs, (), target, origin=origin), driver)


def _devices(
    platform: str | None, partition_text: str, replica_text: str
) -> tuple[tuple[Any, ...], int]:
    """Returns the devices that a module is compiled for, and its number of partitions.

    If this process has too few devices, returns all of them: reading the text needs none.

    Args:
        platform: The platform to compile for; None for the process's default.
        partition_text: The number of partitions as the module has it, such as "2 : i32".
        replica_text: The number of replicas, likewise.
    """
    sizes = [re.match(r"\d+", text) for text in (partition_text, replica_text)]
    partitions, replicas = (max(int(match[0]), 1) if match else 1 for match in sizes)
    place = resolve(platform)
    first, *_ = place.devices or jax.devices()
    if place.target.absent:
        raise OptionError(
            "text is compiled for a device of this process: name one, as in target='cpu', or look "
            "at the call itself with that target"
        )
    count = partitions * replicas
    return tuple(jax.devices(first.platform))[:count] if count > 1 else (first,), partitions


class _ModuleOnly:
    """A module with those methods of `jax.stages.Lowered` that jaxlens uses.

    Args:
        module: The StableHLO as an MLIR module; None for HLO text.
        text: The HLO text; None for StableHLO.
        devices: The devices to compile for.
        partitions: Number of partitions (`num_partitions`).
        unsized: Why the module is not compiled; "" if it is.
    """

    def __init__(
        self,
        module: Any,
        text: str | None,
        devices: tuple[Any, ...],
        partitions: int,
        unsized: str = "",
    ) -> None:
        self._unsized = unsized
        self._module = module
        self._text = text
        self.devices = devices
        self._partitions = partitions

    def compiler_ir(self, dialect: str) -> Any:
        """Returns the module as StableHLO or as an XLA computation."""
        if dialect == "stablehlo":
            if self._module is None:
                assert self._text is not None
                tried(self._text)
                self._module = stablehlo.parse(stablehlo_of(self._text))
            return self._module
        computation = compat.to_hlo(self._module)
        if computation is None:
            raise UnavailableError("this jaxlib does not convert StableHLO to HLO")
        return computation

    def compile(self, compiler_options: Mapping[str, Any]) -> "LoadedExecutable":
        """Compiles the module with XLA's client, without JAX's caches."""
        if self._unsized:
            raise UnavailableError(self._unsized)
        count = self._partitions
        if len(self.devices) % count:
            raise UnavailableError(
                f"the program is for {count} devices and this process has {len(self.devices)}: "
                f"jax.config.update('jax_num_cpu_devices', {count}) before JAX's first use"
            )
        operation = self.compiler_ir("stablehlo").operation
        code = operation.get_asm(enable_debug_info=True)
        tried(
            code,
            target_of(self.devices),
            options=compiler_options,
            devices=len(self.devices),
            partitions=count,
        )
        try:
            loaded = compat.compiled(code.encode(), self.devices, count, compiler_options)
        except Exception as error:  # any error of XLA; the program may not come from JAX
            raise UnavailableError(
                f"XLA does not compile this program: {first_line(error, 200)}"
            ) from None
        if loaded is None:
            raise UnavailableError("this jaxlib compiles no module without its function")
        return LoadedExecutable(loaded)


def _optimized(output: CompileOutput, target: str | None, name: str) -> Capture:
    """Returns the capture of optimised HLO text, which is not compiled again."""
    if target:
        raise OptionError(
            f"this HLO is optimised already, for one kind of device: target={target!r} is for "
            "programs that are still to be compiled"
        )
    module = output.optimized.module
    name = name or module.name.removeprefix("jit_")
    return read_capture(OptimizedDriver(output), name, entry_inputs(module), Target("", ""))


class OptimizedDriver(OutputDriver):
    """Reads the stages and facts of a program from optimised HLO text.

    Args:
        output: The text, as a compile gives it.
    """

    holder = "optimised HLO text"
    cure = CURE

    def __init__(self, output: CompileOutput) -> None:
        super().__init__(replace(output, lacking=f"{self.holder} holds no {{noun}}; {self.cure}"))

    def outputs(self) -> tuple[Input, ...]:
        return entry_outputs(self.stage("optimized").module)

    def kernels(self) -> tuple[Kernel, ...]:
        return self._kernels

    @cached_property
    def _kernels(self) -> tuple[Kernel, ...]:
        return without_code(self._output.kernels, f"{self.holder} does not hold its code")
