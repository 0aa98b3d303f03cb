"""Estimates the flops of a run of equations from the shapes of its values.

Equations of one kind cost the same, so that each kind is counted once, however long the run.
"""

from collections import Counter
from collections.abc import Mapping

from jaxlens.ir.columns import ProgramColumns, columns
from jaxlens.ir.graph import Module
from jaxlens.lenses.program.equation_flops import flops


class RunCosts:
    """The flops of runs of a jaxpr's equations, those of the bodies that they call included.

    Args:
        module: A jaxpr.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._program: ProgramColumns = columns(module)
        self._of_kind: dict[int, int | None] = {}
        self._of_region: dict[str, int | None] = {}

    def flops(self, region: str, low: int, high: int) -> int | None:
        """Returns the flops of the steps `low` to before `high`; None where some are unknown."""
        regions = self._program.regions
        steps = [step for step in regions[region].calls if low <= step < high]
        waiting = [name for step in steps for name in self._called(region, step)]
        while waiting:  # callees first; calls form no cycle
            name = waiting[-1]
            inner = [c for n in regions[name].calls for c in self._called(name, n)]
            missing = [c for c in inner if c not in self._of_region]
            if missing:
                waiting += missing
            else:
                waiting.pop()
                if name not in self._of_region:
                    self._of_region[name] = self._sum(name, 0, len(regions[name]))
        return self._sum(region, low, high)

    def _called(self, region: str, step: int) -> tuple[str, ...]:
        return self._program.regions[region].calls[step]

    def _sum(self, region: str, low: int, high: int) -> int | None:
        rows = self._program.regions[region]
        total = 0
        for step, called in rows.calls.items():
            if low <= step < high:
                inner = self._call(region, step, called)
                if inner is None:
                    return None
                total += inner
        first: Mapping[int, int] = dict(
            zip(reversed(rows.kind[low:high]), range(high - 1, low - 1, -1), strict=True)
        )
        for kind, count in Counter(rows.kind[low:high]).items():
            one = self._kind(region, kind, first[kind])
            if one is None:
                return None
            total += count * one
        return total

    def _call(self, region: str, step: int, called: tuple[str, ...]) -> int | None:
        """Returns the flops of the body that a step calls; None for a `while` and for branches."""
        rows = self._program.regions[region]
        opcode = self._program.opcodes[rows.kind[step]]
        inner = self._of_region.get(called[0])
        if len(called) != 1 or inner is None:
            return None
        if opcode != "scan":
            return inner
        length = self._module.regions[region].nodes[rows.steps[step]].attrs.get("length", "")
        return inner * int(length) if length.isdecimal() else None

    def _kind(self, region: str, kind: int, step: int) -> int | None:
        if kind not in self._of_kind:
            rows = self._program.regions[region]
            node = self._module.regions[region].nodes[rows.steps[step]]
            first, types = rows.first_result[step], {}
            for name, distance in zip(node.operands, rows.distances(step), strict=True):
                if distance:
                    types[name] = self._program.types[rows.types[first - distance]]
            counted = flops(node, types)
            # A call is counted with its bodies.
            arithmetic = 0 if step in rows.calls else counted.arithmetic
            self._of_kind[kind] = arithmetic
        return self._of_kind[kind]
