"""Reads HLO and StableHLO text, and compiles it when a later stage is needed."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, ReadError, UnavailableError
from jaxlens.ir.driver import Driver
from jaxlens.ir.facts import Input, Kernel, Program, Source, Stage, Target
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.entry_inputs import entry_inputs, entry_outputs
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages import compat
from jaxlens.stages.call.target import ResolvedTarget, resolve, target_of
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.kernels import kernels, without_code
from jaxlens.stages.existing.kept_driver import KeptDriver
from jaxlens.stages.existing.kept_staging import ExistingTrace, named_call
from jaxlens.stages.trace import sources

CURE = "look at the call itself: jaxlens.capture(f, x)"
_HLO = re.compile(r"\s*HloModule\b")
_MLIR = re.compile(
    r"\s*(?:(?:#[^\n]*|//[^\n]*)\n\s*)*(?:module\b|func\.func\b|\"builtin\.module\")"
)
_NO_TARGET = Target("", "")


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
    if _HLO.match(text):
        module = hlo.read(text, stage="optimized")
        if module.attrs.get("is_scheduled") == "true":
            return _optimized(text, module, target, name)
        return _hlo(text, target, name)
    return stablehlo_capture(stablehlo.parse(text), target or "", name, "StableHLO text")


def stablehlo_capture(module: Any, platform: str, name: str, holder: str) -> Capture:
    """Returns the capture of an MLIR StableHLO module, compiled when a later stage is needed."""
    read = stablehlo.read(module)
    devices, partitions = _devices(platform or None, read.attrs)
    lowered = _ModuleOnly(module, None, devices, partitions)
    return _staged(read, lowered, devices, name, holder, {}, {"jaxpr": "jaxpr"})


def _hlo(text: str, platform: str | None, name: str) -> Capture:
    """Returns the capture of HLO text before optimisation."""
    stage = Stage(BY_NAME["hlo"], lambda: text, lambda: hlo.read(text, stage="hlo"))
    holder = "HLO text"
    counts = stage.module.attrs
    sizes = {
        "mhlo.num_partitions": counts.get("num_partitions", "1"),
        "mhlo.num_replicas": counts.get("replica_count", "1"),
    }
    devices, partitions = _devices(platform, sizes)
    lowered = _ModuleOnly(None, text, devices, partitions)
    missing = {"jaxpr": "jaxpr", "stablehlo": "StableHLO"}
    return _staged(stage.module, lowered, devices, name, holder, {"hlo": stage}, missing)


def _staged(
    module: Module,
    lowered: "_ModuleOnly",
    devices: tuple[Any, ...],
    name: str,
    holder: str,
    given: Mapping[str, Stage],
    missing: Mapping[str, str],
) -> Capture:
    target = target_of(devices)
    inputs = entry_inputs(module)
    call = named_call(name or module.name.removeprefix("jit_"), inputs)
    staging = ExistingTrace(
        call,
        ResolvedTarget(target),
        holder,
        CURE,
        make=lambda: lowered,
        names=lambda: entry_outputs(module),
    )
    program = Program(call.name, inputs, (), target, origin=f"read from {holder}")
    return Capture(program, KeptDriver(staging, given, missing))


def _devices(platform: str | None, attrs: Mapping[str, str]) -> tuple[tuple[Any, ...], int]:
    """Returns the devices that a module is compiled for, and its number of partitions.

    If this process has too few devices, returns all of them: reading the text needs none.
    """
    counts = [re.match(r"\d+", attrs.get(f"mhlo.num_{n}", "1")) for n in ("partitions", "replicas")]
    partitions, replicas = (int(match[0]) if match else 1 for match in counts)
    place = resolve(platform)
    first = place.device or jax.devices()[0]
    if place.target.absent:
        raise OptionError(
            "text is compiled for a device of this process: name one, as in target='cpu', or look "
            "at the call itself with that target"
        )
    here = tuple(jax.devices(first.platform))
    wanted = max(partitions, 1) * max(replicas, 1)
    return here[:wanted] if wanted > 1 else (first,), max(partitions, 1)


class _ModuleOnly:
    """A module with those methods of `jax.stages.Lowered` that jaxlens uses.

    Args:
        module: The StableHLO as an MLIR module; None for HLO text.
        text: The HLO text; None for StableHLO.
        devices: The devices to compile for.
        partitions: Number of partitions (`num_partitions`).
    """

    def __init__(
        self, module: Any, text: str | None, devices: tuple[Any, ...], partitions: int
    ) -> None:
        self._module = module
        self._text = text
        self._devices = devices
        self._partitions = partitions

    def compiler_ir(self, dialect: str) -> Any:
        """Returns the module as StableHLO or as an XLA computation."""
        if dialect == "stablehlo":
            if self._module is None:
                self._module = stablehlo.parse(self._converted())
            return self._module
        found = compat.to_hlo(self._module)
        if found is None:
            raise UnavailableError("this jaxlib does not convert StableHLO to HLO")
        return found

    def _converted(self) -> Any:
        """Converts the HLO text to StableHLO bytecode."""
        assert self._text is not None
        try:
            read = compat.from_hlo(self._text)
            made = compat.to_stablehlo(read) if read is not None else None
        except ValueError as error:
            raise ReadError(f"XLA cannot read this HLO text: {_line(error)}") from None
        if made is None:
            raise UnavailableError("this jaxlib does not compile HLO text; StableHLO it does")
        return made

    def compile(self, compiler_options: Mapping[str, Any]) -> "_Executable":
        """Compiles the module with XLA's client, without JAX's caches."""
        wanted = self._partitions
        if len(self._devices) % wanted:
            raise UnavailableError(
                f"the program is for {wanted} devices and this process has {len(self._devices)}: "
                f"jax.config.update('jax_num_cpu_devices', {wanted}) before JAX's first use"
            )
        operation = self.compiler_ir("stablehlo").operation
        code = operation.get_asm(enable_debug_info=True).encode()
        try:
            loaded = compat.compiled(code, self._devices, wanted, compiler_options)
        except Exception as error:  # any error of XLA; the program may not come from JAX
            raise UnavailableError(f"XLA does not compile this program: {_line(error)}") from None
        if loaded is None:
            raise UnavailableError("this jaxlib compiles no module without its function")
        return _Executable(loaded)


class _Executable:
    """A loaded executable with those methods of `jax.stages.Compiled` that jaxlens uses."""

    output_shardings = ()

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def runtime_executable(self) -> Any:
        """Returns the loaded executable of XLA."""
        return self._loaded

    def as_text(self) -> str:
        """Returns the text of the optimised HLO."""
        return "\n\n".join(module.to_string() for module in self._loaded.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """Returns XLA's cost analysis."""
        return dict(self._loaded.cost_analysis())

    def memory_analysis(self) -> Any:
        """Returns XLA's memory statistics, in bytes."""
        return self._loaded.get_compiled_memory_stats()


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _optimized(text: str, module: Module, target: str | None, name: str) -> Capture:
    """Returns the capture of optimised HLO text, which is not compiled again."""
    if target:
        raise OptionError(
            f"this HLO is optimised already, for one kind of device: target={target!r} is for "
            "programs that are still to be compiled"
        )
    name = name or module.name.removeprefix("jit_")
    inputs = entry_inputs(module)
    program = Program(name, inputs, (), _NO_TARGET, origin="read from optimised HLO text")
    return Capture(program, OptimizedText(text, module))


class OptimizedText(Driver):
    """Reads the stages and facts of a program from optimised HLO text."""

    holder = "optimised HLO text"
    cure = CURE

    def __init__(self, text: str, module: Module) -> None:
        self._stage = Stage(BY_NAME["optimized"], lambda: text, lambda: module)

    def stage(self, name: str) -> Stage:
        return self._stage if name == "optimized" else super().stage(name)

    def outputs(self) -> tuple[Input, ...]:
        return entry_outputs(self._stage.module)

    def kernels(self) -> tuple[Kernel, ...]:
        return self._kernels

    @cached_property
    def _kernels(self) -> tuple[Kernel, ...]:
        return without_code(
            kernels(self._stage.module, Dump(), ""), f"{self.holder} does not hold its code"
        )

    def sources(self) -> Mapping[str, Source]:
        return self._sources

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return sources.sources(self._stage.module)
