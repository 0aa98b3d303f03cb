"""Who reads and writes a value of the optimised program, behind the copies of it."""

from collections.abc import Sequence

from jaxlens.ir.graph import Module, Node, Region, Type
from jaxlens.ir.hlo.instructions import users_of, written

MOVES = frozenset({"copy", "copy-start", "transpose"})
_SAME = frozenset({"copy", "copy-start", "copy-done", "bitcast", "opt-barrier"})
_VIEWS = frozenset({"parameter", "bitcast", "constant", "tuple", "get-tuple-element"})
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})


def moves(node: Node, module: Module) -> tuple[Node, ...]:
    """Returns the copies and transposes of an instruction that does nothing else; else ()."""
    if node.opcode != "fusion":
        return (node,) if node.opcode in MOVES else ()
    nodes = (inner for name in node.regions for inner in module.regions[name].nodes)
    parts = tuple(inner for inner in nodes if inner.opcode not in _VIEWS)
    return parts if all(part.opcode in MOVES for part in parts) else ()


class DataFlow:
    """Looks up the sources, readers and places of the values of one program.

    Attributes:
        nodes: The instructions by id.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        regions = module.regions.values()
        self.nodes = {node.id: node for region in regions for node in region.nodes}
        self._home = {node.id: region for region in regions for node in region.nodes}
        self._users = {name: u for region in regions for name, u in users_of(region).items()}
        self._callers = {name: node for node in self.nodes.values() for name in node.regions}

    def home(self, node: Node) -> Region:
        """Returns the computation that an instruction is in."""
        return self._home[node.id]

    def caller(self, node: Node) -> Node | None:
        """Returns the fusion, loop or call around an instruction; None in the entry."""
        return self._callers.get(self._home[node.id].name)

    def users(self, id: str) -> Sequence[Node]:
        """Returns the instructions whose operand a value is."""
        return self._users.get(id, ())

    def behind(self, id: str) -> list[Node]:
        """Returns a value and what it is a copy of, back to what computes it."""
        nodes = [self.nodes[id]]
        while nodes[-1].operands and (nodes[-1].opcode in _SAME or moves(nodes[-1], self._module)):
            nodes.append(self.nodes[nodes[-1].operands[0]])
        return nodes

    def axes(self, copy: Node) -> tuple[Node, Sequence[int]]:
        """Returns what moves in a row begin with, and the dimension of it that each now is.

        transpose dimensions={1,0}, then copy    of f32[2,3]: the dimensions (1, 0)

        These are () where it is reshaped on the way.
        """
        steps, node = list[Node](), copy
        while parts := moves(node, self._module):
            steps, node = [*parts, *steps], self.nodes[node.operands[0]]
        shape = written(node).shape
        axes = list(range(len(shape)))
        if any(len(written(step).shape) != len(shape) for step in steps):
            return node, ()
        for step in steps:
            if step.opcode == "transpose":
                axes = [axes[int(n)] for n in step.attrs["dimensions"].strip("{}").split(",")]
        is_same = written(copy).shape == tuple(shape[n] for n in axes)
        return node, axes if is_same else ()

    def readers(self, id: str) -> list[Node]:
        """Returns what reads a value, itself or behind copies; of a loop's tuple, the loop."""
        found: dict[str, Node] = {}
        pending = [id]
        for name in pending:
            for user in self._users.get(name, ()):
                if user.opcode in _SAME or moves(user, self._module):
                    pending.append(user.id)
                else:
                    is_tuple = user.opcode == "tuple"
                    users = self._users.get(user.id, [user]) if is_tuple else [user]
                    found |= {user.id: user for user in users}
        return list(found.values())

    def returned(self, region: Region) -> Sequence[str]:
        """Returns the values that a computation returns, those of a tuple one by one."""
        root = self.nodes[region.results[0]]
        return root.operands if root.opcode == "tuple" else (root.id,)

    def first(self, loop: Node) -> Sequence[str]:
        """Returns the values that a loop, or the call of one, begins with; () where unknown."""
        node = self.nodes[loop.operands[0]] if loop.operands else loop
        caller = self.caller(node)
        if node.opcode == "parameter" and caller is not None and caller.opcode == "call":
            node = self.nodes[caller.operands[int(node.attrs["index"])]]  # XLA:CPU: a small loop
        return node.operands if node.opcode == "tuple" else ()

    def over(self, node: Node) -> Sequence[str]:
        """Returns the operands that an instruction writes its result over."""
        if node.opcode in _UPDATES:
            return node.operands[:1]
        if node.opcode in ("while", "call"):
            return self.first(node)
        if node.opcode != "fusion" or node.regions[0] not in self._module.regions:
            return ()
        made = [self.behind(id)[-1] for id in self.returned(self._module.regions[node.regions[0]])]
        over = [self.behind(n.operands[0])[-1] for n in made if n.opcode in _UPDATES]
        return [node.operands[int(n.attrs["index"])] for n in over if n.opcode == "parameter"]

    def loop(self, node: Node) -> Node | None:
        """Returns the loop whose body, or test, an instruction is in."""
        caller = self.caller(node)
        return caller if caller is not None and caller.opcode == "while" else None

    def state(self, node: Node) -> int | None:
        """Returns the place of a loop's carry that a value is inside of the loop; else None."""
        if node.opcode != "get-tuple-element" or self.loop(node) is None:
            return None
        is_carry = self.nodes[node.operands[0]].opcode == "parameter"
        return int(node.attrs["index"]) if is_carry else None

    def begun(self, node: Node) -> Node:
        """Returns what a carry is before its loops; any other value itself."""
        while (place := self.state(node)) is not None:
            loop = self.loop(node)
            first = self.first(loop) if loop is not None else ()
            if not first:
                break
            node = self.behind(first[place])[-1]
        return node

    def late(self, old: Node, writer: Node, before: set[str]) -> tuple[Node, ...]:
        """Returns who reads a value that nothing makes run before what writes over it.

        Args:
            old: The value.
            writer: What writes over it.
            before: Ids of what comes before the write anyway.
        """
        before, pending = set(before), [writer.id]
        for name in pending:
            new = set(self.nodes[name].operands) - before
            before |= new
            pending += new
        late = [node for node in self.readers(old.id) if node.id not in before]
        late.sort(key=lambda node: (node is writer, node.opcode in ("while", "call", "tuple")))
        return tuple(late)

    def reading(self, node: Node, value: Node) -> Node:
        """Returns the instruction of a fusion that reads a value; any other itself."""
        region = self._module.regions.get(node.regions[0]) if node.opcode == "fusion" else None
        pairs = zip(node.operands, region.parameters if region else (), strict=False)
        own = [inner.name for id, inner in pairs if self.behind(id)[-1] is value]
        return next((user for name in own for user in self.readers(name)), node)


def major_first(type_: Type) -> tuple[int, ...]:
    """Returns dimensions from the slowest to the fastest; row-major where no layout is written."""
    digits = type_.layout.strip("{}").partition(":")[0]
    order = [int(digit) for digit in digits.split(",") if digit.strip().isdigit()]
    rank = len(type_.shape)
    return tuple(reversed(order)) if len(order) == rank else tuple(range(rank))
