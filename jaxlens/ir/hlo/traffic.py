"""Counts the bytes that an HLO instruction reads and writes: its operands and its result.

The conventions are those of XLA's cost analysis: an operand counts once, a slice or gather reads
only the elements of its result, and an update in place writes only the update. Caches are ignored.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo.instructions import CONTROL, ENDS, PLUMBING, users_of, written
from jaxlens.ir.hlo.memory_spaces import main_memory
from jaxlens.ir.trips import trips

_SILENT = PLUMBING | CONTROL | ENDS | {"after-all"}
_TAKING = frozenset({"dynamic-slice", "slice", "gather"})
_PLACING: Mapping[str, int] = {"dynamic-update-slice": 1, "scatter": 2}
"""Opcodes that update a part of their first operand in place, with the operand that is the part."""


class Traffic:
    """The bytes of every instruction of one program, each computed on demand.

    Args:
        module: The program.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.nodes = {node.id: node for node in module.nodes()}
        self._sizes = {id: written(node).bytes or 0 for id, node in self.nodes.items()}

    def main(self, id: str) -> int:
        """Returns the bytes of a value in the device's main memory; 0 where unknown."""
        return main_memory(written(self.nodes[id])).bytes or 0 if id in self.nodes else 0

    def size(self, id: str) -> int:
        """Returns the bytes of a value; 0 where unknown."""
        return self._sizes.get(id, 0)

    def alone(self, node: Node) -> int:
        """Returns the bytes that an instruction moves when it runs by itself; a fusion as one."""
        return sum(self.moved(node))

    def moved(self, node: Node) -> tuple[int, int]:
        """Returns the bytes that an instruction reads and writes by itself; a fusion as one."""
        if node.opcode in _SILENT:
            return 0, 0
        size = self.size(node.id)
        if node.opcode == "fusion":
            region = self.module.regions.get(node.regions[0]) if node.regions else None
            if region is not None:
                return sum(self._inputs(node, region)), sum(self._outputs(region))
        if node.opcode in _TAKING:
            return size + self._read(node.operands[1:]), size
        if node.opcode in _PLACING:
            index = _PLACING[node.opcode]
            part = self.size(node.operands[min(index, len(node.operands) - 1)])
            return part + self._read(node.operands[1:index]), part
        return self._read(node.operands), size

    def _read(self, names: tuple[str, ...]) -> int:
        return sum(self.size(name) for name in dict.fromkeys(names))

    def _inputs(self, node: Node, region: Region) -> Iterator[int]:
        """Yields the bytes that a fusion reads of each operand."""
        users = users_of(region)
        for operand, parameter in zip(node.operands, region.parameters, strict=False):
            whole = self.size(operand)
            parts = [self._part(parameter.name, user) for user in users.get(parameter.name, ())]
            yield min(whole, sum(parts)) if None not in parts else whole  # type: ignore[arg-type]

    def _part(self, name: str, user: Node) -> int | None:
        """Returns the bytes that an instruction reads of a value; None for all of it."""
        if user.operands[:1] == (name,) and name not in user.operands[1:]:
            if user.opcode in _TAKING:
                return self.size(user.id)
            if user.opcode in _PLACING:
                return 0  # updated in place
        return None

    def _outputs(self, region: Region) -> Iterator[int]:
        """Yields the bytes that a fusion writes of each result."""
        for name in region.results:
            root = self.nodes.get(name)
            while root is not None and root.opcode == "bitcast":
                root = self.nodes.get(root.operands[0])
            if root is not None and root.opcode == "tuple":
                yield from (self._written(part) for part in root.operands)
            else:
                yield self._written(root.id) if root is not None else self.size(name)

    def _written(self, name: str) -> int:
        node = self.nodes.get(name)
        if node is not None and node.opcode in _PLACING:
            index = _PLACING[node.opcode]
            return self.size(node.operands[index] if index < len(node.operands) else name)
        return self.size(name)

    @cached_property
    def times(self) -> Mapping[str, int]:
        """The number of runs of each computation that runs instruction by instruction.

        The body of a loop counts its known trips, or once where these are unknown; a branch once.
        """
        times: Counter[str] = Counter({self.module.entry: 1})
        for name, region in self.module.regions.items():  # callers come before callees
            for node in region.nodes if times[name] else ():
                if node.opcode in CONTROL:
                    repeats = trips(node, region, self.module) if node.opcode == "while" else 1
                    for inner in node.regions:
                        times[inner] += times[name] * (1 if repeats is None else repeats)
        return times
