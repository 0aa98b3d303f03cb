"""A program that another process compiled anew, as a driver of a capture."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir import hlo
from jaxlens.ir.facts import Kernel, Memory, PassStage, Stage, Timing
from jaxlens.ir.hlo_frames import origins
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.compile import Compiled
from jaxlens.stages.dump import Dump


class Recompiled:
    """Answers about a program compiled anew: early stages of the first capture, the rest its own.

    See `ir.facts.Driver` for what each method gives.
    """

    def __init__(self, first: Capture, answer: Mapping[str, Any]) -> None:
        self._first = first.driver
        self._memory: Memory = answer["memory"]
        self._cost: Mapping[str, float] = answer["cost"]
        self._compiled = Compiled(
            first.program.name,
            first.program.target.platform,
            None,
            answer["dump"],
            answer["times"],
            True,
            origins(lambda: first.stablehlo.module),
        )

    has_all_passes = True

    @cached_property
    def _stages(self) -> dict[str, Stage]:
        dump: Dump = self._compiled.dump
        found = {"optimized": self._compiled.optimized}
        if dump.before:
            found["hlo"] = Stage(
                BY_NAME["hlo"],
                lambda: dump.before,
                lambda: hlo.read(dump.before, stage="hlo", origins=self._compiled.origins),
            )
        return found

    def stage(self, name: str) -> Stage:
        if name in self._stages:
            return self._stages[name]
        if name in ("llvm", "asm"):
            made: Stage = getattr(self._compiled, name)
            return self._stages.setdefault(name, made)
        return self._first.stage(name)

    def passes(self) -> tuple[PassStage, ...]:
        return self._compiled.passes

    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(self._compiled.kernels)

    def buffers(self) -> str:
        return self._compiled.buffers

    def fusion_log(self) -> str:
        return self._compiled.fusion_log

    @property
    def has_fusion_log(self) -> bool:
        """Whether XLA wrote one."""
        return bool(self._compiled.dump.fusion_log)

    def memory(self) -> Memory:
        return self._memory

    def cost(self) -> Mapping[str, float]:
        if not self._cost:
            raise UnavailableError("XLA has no cost analysis of it")
        return self._cost

    def times(self) -> tuple[Timing, ...]:
        return self._compiled.times

    def __getattr__(self, name: str) -> Any:
        """What no compile changes: verdict, deviations, outputs, constants, sources."""
        if name in ("verdict", "deviations", "outputs", "constants", "sources"):
            return getattr(self._first, name)
        raise AttributeError(name)
