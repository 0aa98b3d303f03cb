"""Which instruction made the value in a buffer: loops, tuples, copies and updates followed back.

A loop's state is made by the loop's body, or given in where the body hands it on unchanged. What
a scan stacks step by step is an update of a large array by a small one: the small one's maker is
who owns it, and a row that a scan takes belongs to who made the whole.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from jaxlens.ir.graph import Module, Node, Region

Place = tuple[str, tuple[int, ...]]
"""An instruction and the part of its tuple that is meant."""

_MOVING = frozenset({"copy", "bitcast", "copy-done", "copy-start", "opt-barrier"})
# How JAX names the slice with which a scan takes its next row.
_ROW = re.compile(r"while/body/(jit\(dynamic_index_in_dim\)/)?dynamic_slice$")
_STEPS = 1_000  # of one value's way back


@dataclass(frozen=True, slots=True)
class Maker:
    """Who made a value.

    Attributes:
        node: The instruction; inside a fusion the one that makes this result of it.
        fusion: The instruction of the program's own that holds it; "" where it is `node`.
        stacked: Whether a loop stacks such values, one a trip.
    """

    node: Node
    fusion: str = ""
    stacked: bool = False


@dataclass
class Makers:
    """Looks makers up in one program; few are asked for."""

    module: Module
    _nodes: dict[str, Node] = field(init=False)
    _region: dict[str, str] = field(init=False)
    _caller: dict[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        regions = self.module.regions.values()
        self._nodes = {node.id: node for node in self.module.nodes()}
        self._region = {node.id: region.name for region in regions for node in region.nodes}
        self._caller = {name: node for node in self._nodes.values() for name in node.regions}

    def node(self, id: str) -> Node | None:
        """The instruction of that name."""
        return self._nodes.get(id)

    def of(self, instruction: str, index: str = "") -> Maker | None:
        """Who made what a buffer holds; None for an instruction that the program does not have.

        Args:
            instruction: The instruction that XLA names.
            index: The part of its tuple, "5" or "1,0".
        """
        place: Place = instruction, tuple(int(n) for n in index.split(",") if n)
        if instruction not in self._nodes:
            return None
        seen: set[Place] = set()
        stacked, last = False, None
        for _ in range(_STEPS):
            node, part = self._nodes[place[0]], place[1]
            before = self._before(node, part, seen)
            seen.add(place)
            if before is None or before[0] not in self._nodes:
                break
            stacked |= node.opcode == "dynamic-update-slice"
            last = node if node.owner else last
            place = before
        node = self._nodes[place[0]]
        if node.owner is None and last is not None:
            node = last  # what the compiler or the caller gave belongs to the line that takes it
        holder = self._caller.get(self._region[node.id])
        fusion = holder.id if holder is not None and holder.opcode == "fusion" else ""
        return Maker(node, fusion, stacked)

    def _before(self, node: Node, part: tuple[int, ...], seen: set[Place]) -> Place | None:
        """Where the value was before, if this instruction only hands it on."""
        match node.opcode:
            case "tuple" if part and part[0] < len(node.operands):
                return node.operands[part[0]], part[1:]
            case "get-tuple-element":
                return node.operands[0], (int(node.attrs["index"]), *part)
            case "while":
                body = self._root(node.regions[-1])
                entered = body is None or (node.id, part) in seen
                return (node.operands[0], part) if entered else (str(body), part)
            case "call":
                root = self._root(node.regions[0])
                return None if root is None else (root, part)
            case "fusion":
                return self._inside(node, part)
            case "parameter":
                return self._given(node, part, seen)
            case "dynamic-update-slice" if len(node.operands) > 1:
                return node.operands[1], ()
            case "dynamic-slice" if _ROW.search(node.scope):
                return node.operands[0], ()
            case opcode if opcode in _MOVING:
                return node.operands[0], part
        return None

    def _inside(self, node: Node, part: tuple[int, ...]) -> Place | None:
        """Into a fusion: its root always says more than the fusion itself."""
        root = self._root(node.regions[0]) if node.regions else None
        return None if root is None else (root, part)

    def _given(self, node: Node, part: tuple[int, ...], seen: set[Place]) -> Place | None:
        """What a body's parameter stands for."""
        caller = self._caller.get(self._region[node.id])
        number = int(node.attrs.get("index", "0"))
        if caller is None:
            return None
        if caller.opcode == "while":
            return (caller.operands[0] if (caller.id, part) in seen else caller.id), part
        if caller.opcode in ("fusion", "call") and number < len(caller.operands):
            return caller.operands[number], part
        return None

    def _root(self, name: str) -> str | None:
        region: Region | None = self.module.regions.get(name)
        return region.results[0] if region is not None and region.results else None

    def inside(self, fusion: str) -> Iterator[Node]:
        """What a fusion computes."""
        node = self._nodes.get(fusion)
        for name in node.regions if node else ():
            yield from self.module.regions[name].nodes
