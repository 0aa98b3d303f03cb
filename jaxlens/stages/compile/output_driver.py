"""The facts of a compile that was made for comparison, as a driver."""

from collections.abc import Mapping

from jaxlens.ir.driver import Extra, RecordedDriver
from jaxlens.ir.facts import Kernel, Memory, PassStage, Stage, Timing
from jaxlens.stages.compile.xla import CompileOutput


class OutputDriver(RecordedDriver):
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
        return tuple(self._output.kernels)

    def buffers(self) -> str:
        return self._output.buffers

    def fusion_log(self) -> str:
        return self._output.fusion_log

    def memory(self) -> Memory:
        return self._output.memory

    def cost(self) -> Mapping[str, float]:
        return self._output.cost

    def times(self) -> tuple[Timing, ...]:
        return self._output.times
