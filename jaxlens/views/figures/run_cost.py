"""Estimates the flops of a run of equations from the shapes of its values."""

from itertools import accumulate

from jaxlens.ir.columns import LITERAL, Columns, ProgramColumns, columns
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr.equation_flops import (
    APPLIED,
    devices_of_body,
    flops,
    reads_operands,
)


class RunCosts:
    """The flops of runs of a jaxpr's equations, those of the bodies that they call included.

    Args:
        module: A jaxpr.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._program: ProgramColumns = columns(module)
        self._of_step: dict[tuple[int, tuple[int, ...]], int | None] = {}
        # By region: the flops, and the number of uncounted steps, before each step and at the end.
        self._before: dict[str, tuple[list[int], list[int]]] = {}

    def flops(self, region: str, low: int, high: int) -> int | None:
        """Returns the flops of the steps `low` to before `high`; None where some are unknown."""
        waiting = [region]
        while waiting:  # callees first; calls form no cycle
            name = waiting[-1]
            calls = self._program.regions[name].calls.values()
            missing = [inner for called in calls for inner in called if inner not in self._before]
            if missing:
                waiting += missing
            else:
                waiting.pop()
                if name not in self._before:
                    self._before[name] = self._counted(name)
        known, unknown = self._before[region]
        return known[high] - known[low] if unknown[high] == unknown[low] else None

    def _counted(self, region: str) -> tuple[list[int], list[int]]:
        """Counts the steps of a region; most kinds cost the same wherever they stand."""
        rows, opcodes = self._program.regions[region], self._program.opcodes
        one = dict(zip(rows.kind, range(len(rows)), strict=True))  # a step of each kind
        of_kind = {kind: self._step(region, rows, step) for kind, step in one.items()}
        costs = [of_kind[kind] for kind in rows.kind]
        by_operands = {kind for kind in of_kind if reads_operands(opcodes[kind])}
        if by_operands:
            for step, kind in enumerate(rows.kind):
                if kind in by_operands:
                    costs[step] = self._step(region, rows, step)
        for step, called in rows.calls.items():
            if not opcodes[rows.kind[step]].startswith(APPLIED):
                costs[step] = self._call(region, step, called)
        known = accumulate((cost or 0 for cost in costs), initial=0)
        return list(known), list(accumulate((cost is None for cost in costs), initial=0))

    def _step(self, region: str, rows: Columns, step: int) -> int | None:
        """Returns the flops of a step without its bodies, counted once for equal shapes."""
        first = rows.first_result[step]
        types = tuple(rows.types[first - d] if d != LITERAL else -1 for d in rows.distances(step))
        key = rows.kind[step], types
        if key not in self._of_step:
            node = self._module.regions[region].nodes[rows.steps[step]]
            operands = zip(node.operands, types, strict=True)
            of_name = {name: self._program.types[n] for name, n in operands if n >= 0}
            self._of_step[key] = flops(node, of_name).arithmetic
        return self._of_step[key]

    def _call(self, region: str, step: int, called: tuple[str, ...]) -> int | None:
        """Returns the flops of the body that a step calls once, or a known number of times.

        None for a `while`, for branches and for a Pallas kernel.
        """
        rows = self._program.regions[region]
        opcode = self._program.opcodes[rows.kind[step]]
        if len(called) != 1 or opcode == "pallas_call":
            return None
        inner = self.flops(called[0], 0, len(self._program.regions[called[0]]))
        if opcode not in ("scan", "shard_map") or inner is None:
            return inner
        node = self._module.regions[region].nodes[rows.steps[step]]
        length = node.attrs.get("length", "")
        times = int(length) if length.isdecimal() else devices_of_body(node)
        return None if times is None else inner * times
