"""The driver of a program that a child process compiled again."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Extra, RecordedDriver
from jaxlens.ir.facts import (
    Constant,
    Input,
    Kernel,
    Memory,
    PassStage,
    Source,
    Stage,
    Timing,
    Verdict,
)
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import origins
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.compile.xla import CompileOutput


class Recompiled(RecordedDriver):
    """Serves compiled stages from the child's answer, and earlier ones from the first capture."""

    def __init__(self, first: Capture, answer: Mapping[str, Any]) -> None:
        self._first = first.driver
        self._memory: Memory = answer["memory"]
        self._cost: Mapping[str, float] = answer["cost"]
        self._compiled = CompileOutput(
            first.program.name,
            first.program.target.platform,
            None,
            answer["dump"],
            answer["times"],
            True,
            origins(lambda: first.stablehlo.module),
        )

    def recorded(self) -> frozenset[Extra]:
        if self._compiled.dump.fusion_log:
            return frozenset({"passes", "fusion_log"})
        return super().recorded()

    @cached_property
    def _stages(self) -> dict[str, Stage]:
        stages = {"optimized": self._compiled.optimized}
        if text := self._compiled.dump.before:
            stages["hlo"] = Stage(
                BY_NAME["hlo"],
                lambda: text,
                lambda: hlo.read(text, stage="hlo", origins=self._compiled.origins),
            )
        return stages

    def stage(self, name: str) -> Stage:
        if name in self._stages:
            return self._stages[name]
        if name in ("llvm", "asm"):
            self._stages[name] = getattr(self._compiled, name)
            return self._stages[name]
        return self._first.stage(name)

    def passes(self) -> tuple[PassStage, ...]:
        return self._compiled.passes

    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(self._compiled.kernels)

    def buffers(self) -> str:
        return self._compiled.buffers

    def fusion_log(self) -> str:
        return self._compiled.fusion_log

    def memory(self) -> Memory:
        return self._memory

    def cost(self) -> Mapping[str, float]:
        if not self._cost:
            raise UnavailableError("XLA has no cost analysis of it")
        return self._cost

    def times(self) -> tuple[Timing, ...]:
        return self._compiled.times

    # The facts below do not depend on the compile.

    def verdict(self) -> Verdict:
        return self._first.verdict()

    def deviations(self) -> tuple[str, ...]:
        return self._first.deviations()

    def outputs(self) -> tuple[Input, ...]:
        return self._first.outputs()

    def constants(self) -> tuple[Constant, ...]:
        return self._first.constants()

    def sources(self) -> Mapping[str, Source]:
        return self._first.sources()
