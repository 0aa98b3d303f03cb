"""Counts the bytes that an HLO instruction reads and writes, in each memory of the device.

The conventions are those of XLA's cost analysis: an operand counts once, a slice or gather reads
only the elements of its result, and an update in place writes only the update. A fusion counts as
one instruction, and reads the slices alone of an operand that it only slices. Caches are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jaxlens.ir.graph import Module, Node, Region, Type, Value
from jaxlens.ir.hlo.async_fusions import AsyncFusion, async_fusion
from jaxlens.ir.hlo.instructions import ENDS, PLUMBING, users_of, written
from jaxlens.ir.hlo.memory_spaces import by_space, space_of
from jaxlens.ir.trips import CONTROL

Sizes = Mapping[int, int] | None
"""Bytes by the number of the memory space, 0 for main memory; None where a size is unknown."""
_SILENT = PLUMBING | CONTROL | ENDS | {"after-all"}
_TAKING = frozenset({"dynamic-slice", "slice", "gather"})
_VIEWS = frozenset({"bitcast", "reshape", "convert"})
_MOVING = _VIEWS | {"copy", "transpose", "reverse"}  # inside a fusion they only rename elements


@dataclass(frozen=True, slots=True)
class Moved:
    """The bytes that one execution of an instruction reads and writes, by memory space."""

    read: Sizes
    written: Sizes

    @property
    def bytes(self) -> int:
        """Bytes in all memories; an unknown part counts nothing."""
        return sum(sum(sizes.values()) for sizes in (self.read, self.written) if sizes)


class Traffic:
    """The bytes of every instruction of one program, each computed on demand.

    Args:
        module: The program.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.nodes = {node.id: node for node in module.nodes()}
        self._users = cache(lambda name: users_of(module.regions[name]))

    def main(self, id: str) -> int:
        """Returns the bytes of a value in the device's main memory; 0 where unknown."""
        sizes = by_space(written(self.nodes[id])) if id in self.nodes else None
        return (sizes or {}).get(0, 0)

    def alone(self, node: Node) -> int:
        """Returns the bytes that an instruction moves when it runs by itself; a fusion as one."""
        return self.moved(node).bytes

    def moved(self, node: Node) -> Moved:
        """Returns the bytes that an instruction reads and writes by itself; a fusion as one."""
        if node.opcode in _SILENT or node.opcode.endswith("-done"):
            return Moved({}, {})
        region = self.module.regions.get(node.regions[0]) if node.opcode == "fusion" else None
        sent = async_fusion(node, self.module)
        if sent and sent.part == "done":
            return Moved({}, {})
        if sent and sent.part == "start":
            return Moved(by_space(self._type(node.operands[0])), by_space(node.type.parts[1]))
        if region is not None:
            return Moved(
                _sum(self._inputs(node, region, sent)), _sum(self._outputs(node, region, sent))
            )
        placed, result = self._placed(node), written(node)
        taken = self._taken(node)
        read: dict[str, Sizes] = {}
        for name in node.operands:
            whole = self._type(name)
            part = taken.get(name, placed.get(name))
            read[name] = by_space(whole) if part is None else _part(whole, part)
            if node.opcode == "dynamic-update-slice" and name in placed:
                read[name] = {}
        if node.opcode in ("iota", "constant"):
            read = {}
        wrote = _part(result, sum(placed.values())) if placed else by_space(result)
        return Moved(_sum(read.values()), wrote)

    def _type(self, name: str) -> Type:
        return written(self.nodes[name]) if name in self.nodes else Type("")

    def _taken(self, node: Node) -> Mapping[str, int]:
        """Returns the operand of which an instruction reads a part alone, and the bytes of it."""
        size = written(node).bytes
        is_part = node.opcode.removesuffix("-start") in _TAKING and size is not None
        if not is_part or node.operands[0] in node.operands[1:]:
            return {}
        return {node.operands[0]: size or 0}

    def _placed(self, node: Node) -> Mapping[str, int]:
        """Returns the operands of which an instruction updates a part, and the bytes of it."""
        names = node.operands
        match node.opcode:
            case "dynamic-update-slice":
                pairs = [(names[0], names[1])]
            case "scatter":  # of n arrays: these, the indices, and n updates
                pairs = list(zip(names, names[len(names) // 2 + 1 :], strict=False))
            case _:
                return {}
        sizes = {name: self._type(update).bytes for name, update in pairs}
        return {name: size for name, size in sizes.items() if size is not None}

    def _inputs(self, node: Node, region: Region, sent: AsyncFusion | None) -> Iterator[Sizes]:
        """Yields the bytes that a fusion reads of each operand."""
        pairs = [*zip(node.operands, region.parameters, strict=False)]
        passed = sent.passed if sent else ()
        read = (name for n, name in enumerate(node.operands) if n not in passed)
        for operand in dict.fromkeys(read):
            own = [parameter for name, parameter in pairs if name == operand]
            needed = self._needed(own, region)
            whole = self._type(operand) if operand in self.nodes or not own else own[0].type
            yield by_space(whole) if needed is None else _part(whole, needed)

    def _needed(self, parameters: Sequence[Value], region: Region) -> int | None:
        """Returns the bytes that a fusion reads of an operand; None for all of it.

        Follows its parameters through what only renames elements, and into fusions inside. If all
        of their users slice them or update them in place, the slices are what is read:

            p = f32[100,8] parameter(0)
            slice(bitcast(p)) -> f32[1,8]    32 bytes; with a further add(p, ...) all 3200
        """
        pending, total = [(parameter.name, region) for parameter in parameters], 0
        whole = parameters[0].type.bytes if parameters else 0
        for name, home in pending:
            roots = [root.id for root in self._roots(home)]
            size = self._type(name).bytes
            if name in roots or whole is None or size is None:
                return None
            for user in self._users(home.name).get(name, ()):
                inner = self.module.regions.get(user.regions[0]) if user.regions else None
                taken, placed = self._taken(user), self._placed(user)
                if user.opcode in _MOVING:
                    pending.append((user.id, home))
                elif name in taken:
                    total += taken[name] * whole // max(size, 1)  # in the type before conversions
                elif name in placed and user.operands.count(name) == 1:
                    total += placed[name] * whole // max(size, 1) * (user.opcode == "scatter")
                    pending += [(user.id, home)] if user.id not in roots else []
                elif user.opcode == "fusion" and inner is not None:
                    pairs = zip(user.operands, inner.parameters, strict=False)
                    pending += [(value.name, inner) for operand, value in pairs if operand == name]
                else:
                    return None
        return total if whole is None else min(whole, total)

    def _roots(self, region: Region) -> list[Node]:
        """Returns what makes each result of a fusion: an update in place, where there is one."""
        roots = []
        for name in region.results:
            whole = self._behind(self.nodes[name], {"bitcast"})
            parts = (
                map(self.nodes.__getitem__, whole.operands) if whole.opcode == "tuple" else [whole]
            )
            for part in parts:
                made = self._behind(part, _VIEWS)
                roots.append(made if self._placed(made) else self._behind(part, {"bitcast"}))
        return roots

    def _behind(self, node: Node, views: Iterable[str]) -> Node:
        while node.opcode in views and node.operands and node.operands[0] in self.nodes:
            node = self.nodes[node.operands[0]]
        return node

    def _outputs(self, node: Node, region: Region, sent: AsyncFusion | None) -> Iterator[Sizes]:
        """Yields the bytes that a fusion writes of each result."""
        roots = self._roots(region)
        types = node.type.parts or (node.type,)
        if len(types) != len(roots):
            types = tuple(root.type for root in roots)
        handed = sent.handed if sent else ()
        for n, (root, type_) in enumerate(zip(roots, types, strict=True)):
            placed = self._placed(root)
            if n not in handed:
                yield _part(type_, sum(placed.values())) if placed else by_space(type_)


def _part(whole: Type, size: int) -> Sizes:
    """Returns a part of a value, which lies where the value does."""
    sizes = by_space(whole)
    if sizes is None:
        return {space_of(whole): size}
    return {space: min(size, most) for space, most in sizes.items()}


def _sum(parts: Iterable[Sizes]) -> Sizes:
    """Returns the sum by memory space; None where one is unknown."""
    total: dict[int, int] = {}
    for sizes in parts:
        if sizes is None:
            return None
        for space, size in sizes.items():
            total[space] = total.get(space, 0) + size
    return total
