"""Traces the value in a buffer back to the instruction that computes it.

The search goes back through loops, tuples, copies and fusions. The state of a loop comes from its
body, or from the loop's operand where the body returns it unchanged. A scan stacks its outputs by
updating a large array with one row per trip: the origin is the instruction that computes the row.
An update outside of loops is itself the origin.
The origin of a row that a scan slices from its input is the origin of the whole input.
"""

import re
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.data_flow import DataFlow

Place = tuple[str, tuple[int, ...]]
"""An instruction and an index into its tuple; () for the whole value."""

_MOVING = frozenset({"copy", "bitcast", "copy-done", "copy-start", "opt-barrier"})
# The scope that JAX gives to the slice of a scan's input for one trip.
_ROW = re.compile(r"while/body/(jit\(dynamic_index_in_dim\)/)?dynamic_slice$")
_STEPS = 1_000  # instructions that one value is traced back through


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value.

    Attributes:
        node: The instruction that computes it; for a fusion, the instruction inside it that
            computes this result.
        fusion: The fusion that `node` is in; None for none.
        stacked: Whether a loop stacks such values, one per trip.
    """

    node: Node
    fusion: Node | None = None
    stacked: bool = False


class Origins:
    """Looks up the origins of values in one program."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._flow = DataFlow(module)
        self._nodes = self._flow.nodes

    def origin(self, instruction: str, index: str = "") -> Origin | None:
        """Returns the origin of a buffer's value; None for an unknown instruction.

        A value passes through a loop's body at most once: the second time it reaches the same loop
        with the same index, the body has returned its own parameter, and the search goes on with
        the loop's operand.

            w = while(t), body root tuple(p.0, add): w.1 comes from add, w.0 from t.0

        Args:
            instruction: The instruction that XLA's buffer assignment names.
            index: The index into its tuple, "5" or "1,0".
        """
        place: Place = instruction, tuple(int(n) for n in index.split(",") if n)
        if instruction not in self._nodes:
            return None
        visited: set[Place] = set()
        stacked, last = False, None
        for _ in range(_STEPS):
            node, part = self._nodes[place[0]], place[1]
            before = self._before(node, part, visited)
            visited.add(place)
            if before is None or before[0] not in self._nodes:
                break
            stacked |= node.opcode == "dynamic-update-slice"
            last = node if node.owner else last
            place = before
        node = self._nodes[place[0]]
        if node.owner is None and last is not None:
            node = last  # a value without a line counts for the first line that uses it
        holder = self._flow.caller(node)
        fusion = holder if holder is not None and holder.opcode == "fusion" else None
        return Origin(node, fusion, stacked)

    def _before(self, node: Node, part: tuple[int, ...], visited: set[Place]) -> Place | None:
        """Returns where the value comes from, if this instruction only forwards it, else None."""
        match node.opcode:
            case "tuple" if part and part[0] < len(node.operands):
                return node.operands[part[0]], part[1:]
            case "get-tuple-element":
                return node.operands[0], (int(node.attrs["index"]), *part)
            case "while":
                body = self._root(node.regions[-1])
                entered = body is None or (node.id, part) in visited
                return (node.operands[0], part) if entered else (str(body), part)
            case "call" | "fusion":  # the root's source position is more exact than the fusion's
                root = self._root(node.regions[0]) if node.regions else None
                return None if root is None else (root, part)
            case "parameter":
                return self._argument(node, part, visited)
            case "dynamic-update-slice" if self._is_in_loop(node):
                return node.operands[1], ()
            case "dynamic-slice" if _ROW.search(node.scope):
                return node.operands[0], ()
            case opcode if opcode in _MOVING:
                return node.operands[0], part
        return None

    def _argument(self, node: Node, part: tuple[int, ...], visited: set[Place]) -> Place | None:
        """Returns the operand of the caller that a parameter of its body is bound to."""
        caller = self._flow.caller(node)
        number = int(node.attrs.get("index", "0"))
        if caller is None:
            return None
        if caller.opcode == "while":
            return (caller.operands[0] if (caller.id, part) in visited else caller.id), part
        if caller.opcode in ("fusion", "call") and number < len(caller.operands):
            return caller.operands[number], part
        return None

    def _is_in_loop(self, node: Node) -> bool:
        caller = self._flow.caller(node)
        while caller is not None and caller.opcode != "while":
            caller = self._flow.caller(caller)
        return caller is not None

    def _root(self, name: str) -> str | None:
        region = self._module.regions.get(name)
        return region.results[0] if region is not None and region.results else None
