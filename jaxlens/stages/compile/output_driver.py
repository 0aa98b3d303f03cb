"""The facts of a compile as a driver: one made for comparison, or made elsewhere."""

from collections.abc import Mapping
from functools import cached_property

from jaxlens.ir.driver import Driver, Extra
from jaxlens.ir.facts import Kernel, Memory, PassStage, Source, Stage, Timing
from jaxlens.stages.compile.xla import CompileOutput
from jaxlens.stages.trace.sources import earliest_sources


class OutputDriver(Driver):
    """Serves what a compile gave; nothing is traced or run.

    Args:
        output: The result of the compile.
    """

    def __init__(self, output: CompileOutput) -> None:
        self._output = output

    def recorded(self) -> frozenset[Extra]:
        if self._output.dump.fusion_log:
            return frozenset({"passes", "fusion_log"})
        return super().recorded()

    def stage(self, name: str) -> Stage:
        if name in ("optimized", "llvm", "asm"):
            stage: Stage = getattr(self._output, name)
            return stage
        return super().stage(name)

    def passes(self) -> tuple[PassStage, ...]:
        return self._output.passes

    def kernels(self) -> tuple[Kernel, ...]:
        return self._output.kernels

    def buffers(self) -> str:
        return self._output.buffers

    def fusion_log(self) -> str:
        return self._output.fusion_log

    def memory(self) -> Memory:
        return self._output.memory

    def cost(self) -> Mapping[str, float]:
        return self._output.cost

    def sources(self) -> Mapping[str, Source]:
        return self._sources

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return earliest_sources(self)

    def times(self) -> tuple[Timing, ...]:
        return self._output.times
