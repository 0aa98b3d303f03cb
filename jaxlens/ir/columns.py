"""A program as columns of numbers: what counting, folding and drawing ask of every node.

A node costs some 30 bytes here where a `Node` costs some hundreds, and what a picture shows
of a large program is a few of them. Steps are a region's nodes in program order, without those that
only stand for parameters (HLO); values are numbered too, the region's parameters first, then
what each step makes.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from jaxlens.ir.graph import Module, Node, Region, Span, Type, owner
from jaxlens.ir.lazy import same_fields

K = TypeVar("K", bound=Hashable)
LITERAL = 0  # "made 0 values before": no step reads what it makes


class Pool(dict[K, int], Generic[K]):
    """Distinct things, each with its number in the order of first mention."""

    def number(self, item: K) -> int:
        """The number that equal items share."""
        return self.setdefault(item, len(self))


@dataclass(frozen=True, slots=True)
class Place:
    """Where nodes come from: name stack, and frames innermost first."""

    scope: str
    spans: tuple[Span, ...]

    @property
    def owner(self) -> Span | None:
        """As `Node.owner`."""
        return owner(self.spans)


@dataclass(frozen=True, slots=True)
class Columns:
    """One region.

    Attributes:
        name: The region's name.
        kind: Per step, a number that steps doing the same share over the whole program: opcode,
            attributes, literals, number of operands, types of results, bodies. Not where they
            stand or what they read.
        place: Per step, index into `Program.places`.
        made: Per step, the first value it makes, the first of all being the number of
            parameters; one more at the end.
        read: Per step, the first of its `back`; one more at the end.
        back: Per operand, how many values before the step's own first one the operand stands;
            `LITERAL` for what is no value of this region.
        types: Per value, index into `Program.types`.
        results: Values that go out; -1 for a literal.
        calls: Names of the regions that a step calls, for those that call any.
        ids: Per step, the node's id.
        steps: Per step, its index in `Region.nodes`.
    """

    name: str
    kind: "array[int]"
    place: "array[int]"
    made: "array[int]"
    read: "array[int]"
    back: "array[int]"
    types: "array[int]"
    results: "array[int]"
    calls: dict[int, tuple[str, ...]]
    ids: Sequence[str]
    steps: Sequence[int]

    def __len__(self) -> int:
        return len(self.kind)

    def reads(self, step: int) -> list[int]:
        """Values that a step reads, in order; literals are left out."""
        first = self.made[step]
        back = self.back[self.read[step] : self.read[step + 1]]
        return [first - n for n in back if n != LITERAL]

    @property
    def parameters(self) -> int:
        """How many values come in."""
        return self.made[0]

    @property
    def bytes(self) -> int:
        """Memory that the columns take."""
        columns = (self.kind, self.place, self.made, self.read, self.back, self.types)
        return sum(len(column) * column.itemsize for column in columns)


@dataclass(frozen=True, slots=True)
class Program:
    """A whole module.

    Attributes:
        regions: Columns by region name, callers before callees.
        opcodes: Per kind, its opcode.
        places: Scopes and stacks that steps come from.
        types: Types of values.
    """

    regions: Mapping[str, Columns]
    opcodes: Sequence[str]
    places: Sequence[Place]
    types: Sequence[Type]

    def __len__(self) -> int:
        return sum(map(len, self.regions.values()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ColumnsModule(Module):
    """A Module that its reader made from columns: its nodes are made when looked at.

    Attributes:
        columns: The columns.
        locate: Region and step of an id; raises KeyError where there is none.
        value_name: The name of a value, by its region and number.
        value_numbers: What the names of a region's values stand for: the place of their letters
            in the order a, b, ..., or a negative number for `_`.
    """

    columns: Program
    locate: Callable[[str], tuple[str, int]]
    value_name: Callable[[str, int], str]
    value_numbers: Callable[[str], "array[int]"]

    def node(self, ident: str) -> Node:
        """The node of an id; raises KeyError where there is none."""
        region, step = self.locate(ident)
        return self.regions[region].nodes[step]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and same_fields(Module, self, other)

    __hash__ = None  # type: ignore[assignment]


def columns(module: Module) -> Program:
    """The columns of a module; made anew unless its reader kept them."""
    return module.columns if isinstance(module, ColumnsModule) else _Reader(module).program()


def calls(module: Module) -> dict[str, Mapping[int, tuple[str, ...]]]:
    """The regions that nodes call, by region and by the node's place in it."""
    if isinstance(module, ColumnsModule):
        return {name: region.calls for name, region in module.columns.regions.items()}
    return {
        name: {n: node.regions for n, node in enumerate(region.nodes) if node.regions}
        for name, region in module.regions.items()
    }


def counts(module: Module) -> Counter[str]:
    """How many nodes have each opcode; equally many in the order of first mention."""
    if not isinstance(module, ColumnsModule):
        return Counter(node.opcode for node in module.nodes())
    kinds: Counter[int] = Counter()
    for region in module.columns.regions.values():
        kinds.update(region.kind)
    found: Counter[str] = Counter()
    for kind, n in kinds.items():
        found[module.columns.opcodes[kind]] += n
    return found


def mentioned(module: Module) -> Iterator[tuple[Span, ...]]:
    """The stacks of nodes in program order; large programs mention each of their places once."""
    if not isinstance(module, ColumnsModule):
        yield from (node.spans for node in module.nodes())
        return
    for region in module.columns.regions.values():
        yield from (module.columns.places[n].spans for n in dict.fromkeys(region.place))


def namer(module: Module, region: Columns) -> Callable[[int], str]:
    """A function from a value's number to its name."""
    if isinstance(module, ColumnsModule):
        return partial(module.value_name, region.name)
    whole = module.regions[region.name]

    def name(value: int) -> str:
        step = bisect_right(region.made, value) - 1
        if step < 0:
            return whole.parameters[value].name
        return whole.nodes[region.steps[step]].results[value - region.made[step]].name

    return name


def finder(module: Module) -> Callable[[str], Node]:
    """A function from an id to its node; raises KeyError where there is none."""
    if isinstance(module, ColumnsModule):
        return module.node
    return {node.id: node for node in module.nodes()}.__getitem__


def blank(name: str, ids: Sequence[str], steps: Sequence[int]) -> Columns:
    """Columns of no steps yet, for a reader to fill."""
    kind, place, back, types, results = (array("i") for _ in range(5))
    made, read = array("i", [0]), array("i", [0])
    return Columns(name, kind, place, made, read, back, types, results, {}, ids, steps)


def shape(region: Columns) -> Hashable:
    """What regions that compute the same have in common, whatever they are called."""
    columns = (region.kind, region.back, region.read, region.made, region.types, region.results)
    return tuple(column.tobytes() for column in columns)


@dataclass(slots=True)
class _Reader:
    """Columns of a module of nodes, whoever read it."""

    module: Module
    kinds: Pool[Hashable] = field(default_factory=Pool)
    shapes: Pool[Hashable] = field(default_factory=Pool)
    places: Pool[Place] = field(default_factory=Pool)
    types: Pool[Type] = field(default_factory=Pool)
    shape_of: dict[str, int] = field(default_factory=dict)
    opcodes: list[str] = field(default_factory=list)

    def program(self) -> Program:
        made = {}
        for name in reversed(list(self.module.regions)):  # callees first: kinds know their bodies
            made[name] = self._region(self.module.regions[name])
            self.shape_of[name] = self.shapes.number(shape(made[name]))
        regions = {name: made[name] for name in self.module.regions}
        return Program(regions, self.opcodes, tuple(self.places), tuple(self.types))

    def _region(self, region: Region) -> Columns:
        number = {value.name: n for n, value in enumerate(region.parameters)}
        steps, ids = array("i"), list[str]()
        made = blank(region.name, ids, steps)
        made.types.extend(self.types.number(value.type) for value in region.parameters)
        made.made[0] = len(made.types)
        for index, node in enumerate(region.nodes):
            if node.opcode == "parameter" and number.get(node.name, len(number)) < made.made[0]:
                continue  # it only stands for a parameter
            if node.regions:
                made.calls[len(made)] = node.regions
            first = made.made[-1]
            made.back.extend(first - number.get(name, first) for name in node.operands)
            made.read.append(len(made.back))
            made.place.append(self.places.number(Place(node.scope, node.spans)))
            made.kind.append(self._kind(node, number))
            steps.append(index)
            ids.append(node.id)
            for value in node.results:
                number[value.name] = len(made.types)
                made.types.append(self.types.number(value.type))
            made.made.append(len(made.types))
        made.results.extend(number.get(name, -1) for name in region.results)
        return made

    def _kind(self, node: Node, number: Mapping[str, int]) -> int:
        literals = tuple(name for name in node.operands if name not in number)
        attrs = tuple(
            pair for pair in node.attrs.items() if not any(name in pair[1] for name in node.regions)
        )
        bodies = tuple(self.shape_of.get(name, -1) for name in node.regions)
        types = tuple([value.type for value in node.results])
        count = len(node.operands)
        kind = self.kinds.number((node.opcode, attrs, count, literals, bodies, types))
        if kind == len(self.opcodes):
            self.opcodes.append(node.opcode)
        return kind
