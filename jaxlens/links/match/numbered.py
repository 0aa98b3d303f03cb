"""HLO modules with value numbers from one table, so that they can be compared with each other."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from jaxlens.ir.graph import Module, Node, Span
from jaxlens.ir.hlo.value_numbering import Numbers, Occurrence, number


class NumberedModules:
    """The modules of one compile, each numbered once and kept with its numbers."""

    def __init__(self) -> None:
        self._modules: dict[int, NumberedModule] = {}
        self._numbers = Numbers()
        self._spots = Spots()

    def numbered(self, module: Module) -> "NumberedModule":
        """Returns the numbered form of a module, the same object each time."""
        program = self._modules.get(id(module))  # kept alive, so ids are unique
        if program is None:
            program = NumberedModule(module, self._numbers, self._spots)
            self._modules[id(module)] = program
        return program

    def forget(self, module: Module) -> None:
        """Drops the numbers of a module."""
        self._modules.pop(id(module), None)


class Spots:
    """Numbers of source positions: name stack and frames."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {("", 0): 0}
        self._stacks: dict[tuple[Span, ...], int] = {(): 0}
        self._by_id: dict[int, tuple[tuple[Span, ...], int]] = {}

    def number(self, node: Node) -> int:
        """Returns the number of a node's position; 0 for a node without one."""
        spans = node.spans
        entry = self._by_id.get(id(spans))
        if entry is None:  # hashing a stack is slow, and nodes share stacks
            entry = spans, self._stacks.setdefault(spans, len(self._stacks))
            self._by_id[id(spans)] = entry  # keeps the stack alive, so its id is not reused
        return self._numbers.setdefault((node.scope, entry[1]), len(self._numbers))


class NumberedModule:
    """A module with its instructions by id and by value number.

    Attributes:
        module: The module.
        nodes: The instructions by id.
    """

    def __init__(self, module: Module, numbers: Numbers, spots: Spots) -> None:
        self.module = module
        self.nodes = {node.id: node for node in module.nodes()}
        self.spot = spots.number
        self._numbers = numbers

    @cached_property
    def bodies(self) -> Mapping[str, dict[int, list[Node]]]:
        """The instructions of each computation that is not inlined, by value number."""
        bodies = number(self.module, self._numbers)
        return {name: _classes(body) for name, body in bodies.items()}

    @cached_property
    def home(self) -> Mapping[str, str]:
        """The computation of each instruction."""
        regions = self.module.regions.items()
        return {node.id: name for name, region in regions for node in region.nodes}

    @cached_property
    def value_of(self) -> Mapping[str, int]:
        """The value number of each instruction."""
        classes = (item for body in self.bodies.values() for item in body.items())
        return {node.id: value for value, nodes in classes for node in nodes}

    @cached_property
    def applied(self) -> frozenset[str]:
        """Instructions of computations that are applied to elements: reducers, comparators."""
        nodes = (node for node in self.nodes.values() if node.opcode not in _CONTROL)
        names = {name for node in nodes for name in node.regions} & self.module.regions.keys()
        return frozenset(node.id for name in names for node in self.module.regions[name].nodes)

    @cached_property
    def loops(self) -> Mapping[str, Node]:
        """Loops and branches by id."""
        return {id: n for id, n in self.nodes.items() if n.opcode in ("while", "conditional")}

    @cached_property
    def fusion_of(self) -> Mapping[str, str]:
        """The outermost fusion around each instruction; those outside fusions are left out."""
        return enclosing_fusions(self.module)


_CONTROL = frozenset({"fusion", "call", "while", "conditional", "async-start", "async-done"})


def _classes(occurrences: Iterable[Occurrence]) -> dict[int, list[Node]]:
    """Returns the instructions of each value number, each instruction once."""
    classes: dict[int, dict[str, Node]] = {}  # a computation with two callers occurs twice
    for node, value in occurrences:
        classes.setdefault(value, {}).setdefault(node.id, node)
    return {value: list(nodes.values()) for value, nodes in classes.items()}


def fusion_contents(module: Module, homes: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Returns the instructions in each fusion, in order, without parameters.

    Args:
        module: The program.
        homes: Its `enclosing_fusions`.
    """
    contents: defaultdict[str, list[str]] = defaultdict(list)
    for node in module.nodes():
        if node.id in homes and node.opcode not in ("parameter", "fusion"):
            contents[homes[node.id]].append(node.id)
    return contents


def enclosing_fusions(module: Module) -> dict[str, str]:
    """Returns the outermost fusion around each instruction; those outside fusions are left out."""
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
