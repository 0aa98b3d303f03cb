"""HLO programs that are compared with each other: each is numbered once, all by one table."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from jaxlens.ir.graph import Module, Node, Span
from jaxlens.ir.hlo.value_numbering import Numbers, Occurrence, number


class NumberedModules:
    """Programs of one compile. Who holds it keeps all that was worked out of them."""

    def __init__(self) -> None:
        self._known: dict[int, NumberedModule] = {}
        self._numbers = Numbers()
        self._spots = Spots()

    def numbered(self, module: Module) -> "NumberedModule":
        """The program of a module, always the same one."""
        program = self._known.get(id(module))  # its Program keeps the module, and so its id
        if program is None:
            program = self._known[id(module)] = NumberedModule(module, self._numbers, self._spots)
        return program

    def forget(self, module: Module) -> None:
        """Drops what is known of a module."""
        self._known.pop(id(module), None)


class Spots:
    """Numbers for positions in the user's program: scope and frames."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {("", 0): 0}
        self._stacks: dict[tuple[Span, ...], int] = {(): 0}
        self._seen: dict[int, tuple[tuple[Span, ...], int]] = {}

    def number(self, node: Node) -> int:
        """The number of a node's position; 0 for one that has none."""
        return self._numbers.setdefault((node.scope, self._stack(node.spans)), len(self._numbers))

    def _stack(self, spans: tuple[Span, ...]) -> int:
        """Readers share stacks, and hashing one takes long: each is hashed once."""
        entry = self._seen.get(id(spans))
        if entry is None:
            entry = spans, self._stacks.setdefault(spans, len(self._stacks))
            self._seen[id(spans)] = entry  # which keeps the stack, and so its id
        return entry[1]


class NumberedModule:
    """A module with its nodes by id and by value, each worked out once.

    Attributes:
        module: The module.
        nodes: Every instruction by id.
    """

    def __init__(self, module: Module, numbers: Numbers, spots: Spots) -> None:
        self.module = module
        self.nodes = {node.id: node for node in module.nodes()}
        self.spot = spots.number
        self._numbers = numbers

    @cached_property
    def bodies(self) -> Mapping[str, dict[int, list[Node]]]:
        """For each region that stands for itself, its instructions by value."""
        numbering = number(self.module, self._numbers)
        return {name: _classes(body) for name, body in numbering.bodies.items()}

    @cached_property
    def applied(self) -> frozenset[str]:
        """Instructions of reducers, comparators and the like."""
        return frozenset(_applied(self.module))

    @cached_property
    def loops(self) -> Mapping[str, Node]:
        """Loops and branches by id."""
        return {id: n for id, n in self.nodes.items() if n.opcode in ("while", "conditional")}

    @cached_property
    def fusion_of(self) -> Mapping[str, str]:
        """The outermost fusion around each instruction; those outside all are left out."""
        return enclosing_fusions(self.module)


_CONTROL = frozenset({"fusion", "call", "while", "conditional", "async-start", "async-done"})


def _applied(module: Module) -> Iterator[str]:
    """Instructions of computations that an instruction applies to elements: reducers and such."""
    names = {
        name
        for node in module.nodes()
        if node.regions and node.opcode not in _CONTROL
        for name in node.regions
    }
    for name in names & module.regions.keys():
        for node in module.regions[name].nodes:
            yield node.id


def _classes(occurrences: Iterable[Occurrence]) -> dict[int, list[Node]]:
    """The instructions of each value, each once."""
    classes: dict[int, list[Node]] = {}
    members: set[tuple[str, int]] = set()  # a body that is called twice stands there twice
    for node, value in occurrences:
        if (node.id, value) in members:
            continue
        members.add((node.id, value))
        if value in classes:
            classes[value].append(node)
        else:
            classes[value] = [node]
    return classes


def enclosing_fusions(module: Module) -> dict[str, str]:
    """The outermost fusion that holds each instruction; those outside all fusions are left out."""
    caller: dict[str, str] = {}
    place: dict[str, str] = {}
    for name, region in module.regions.items():  # callers come before callees
        home = caller.get(name)
        for node in region.nodes:
            if home is not None:
                place[node.id] = home
            if node.opcode == "fusion":
                for inner in node.regions:
                    caller.setdefault(inner, home or node.id)
    return place
