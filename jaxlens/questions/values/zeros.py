"""The share of zeros of the values that an equation reads.

A value that is zero because an operand is, or because it was given so, says nothing of its
equation. One that is zero although its operands are not does: a dead activation, an underflow.
"""

from collections.abc import Iterator, Mapping

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.questions.values.statistics import ValuesRun
from jaxlens.taps.executions import LOOPS, MOVES, Path

_FLOATS = ("f", "bf", "c")  # how the names of their types begin


class OperandZeros:
    """Follows operands to the equations that made them, through calls and what moves elements."""

    def __init__(self, module: Module, nodes: Mapping[str, Node], run: ValuesRun) -> None:
        self._module = module
        self._nodes = nodes
        self._run = run
        regions = module.regions.values()
        self._region = {node.id: region for region in regions for node in region.nodes}
        self._makers: dict[str, dict[str, tuple[Node, int]]] = {}

    def largest(self, path: Path) -> float | None:
        """Returns the largest share of zeros of the float operands of an equation.

        None if one is unknown, such as an input's or the carry's of a loop, or if there are none.
        Literals do not count.
        """
        region = self._region[path[-1]]
        operands = self._nodes[path[-1]].operands
        shares = [share for name in operands for share in self._shares(path[:-1], region, name)]
        known = [share for share in shares if share is not None]
        return max(known) if known and len(known) == len(shares) else None

    def _shares(self, calls: Path, region: Region, name: str) -> Iterator[float | None]:
        """Yields a value's share of zeros, None if unknown; nothing of literals and integers."""
        for n, parameter in enumerate(region.parameters):
            if parameter.name == name and parameter.type.dtype.startswith(_FLOATS):
                yield from self._passed(calls, region, n)
        if region.name not in self._makers:
            self._makers[region.name] = {
                value.name: (node, n)
                for node in region.nodes
                for n, value in enumerate(node.results)
            }
        node, n = self._makers[region.name].get(name, (None, 0))
        if node is not None and node.results[n].type.dtype.startswith(_FLOATS):
            yield from self._made(calls, region, node, n)

    def _passed(self, calls: Path, region: Region, n: int) -> Iterator[float | None]:
        call = self._nodes[calls[-1]] if calls else None
        if call is None or not self._is_call(call) or len(call.operands) != len(region.parameters):
            yield None
        else:
            yield from self._shares(calls[:-1], self._region[call.id], call.operands[n])

    def _made(self, calls: Path, region: Region, node: Node, n: int) -> Iterator[float | None]:
        path = (*calls, node.id)
        measured = {one.result: one for one in self._run.equations.get(path, ())}
        if n in measured:
            yield measured[n].zeros / measured[n].elements
        elif node.opcode in MOVES:
            yield from self._shares(calls, region, node.operands[0])
        elif self._is_call(node):
            body = self._module.regions[node.regions[0]]
            yield from self._shares(path, body, body.results[n])
        else:
            yield None

    def _is_call(self, node: Node) -> bool:
        return len(node.regions) == 1 and node.opcode not in LOOPS
