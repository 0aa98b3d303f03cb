"""A program as columns of numbers: what counting, folding and drawing need of every node.

A node takes some 30 bytes here and some hundreds as a `Node`; a picture of a large program shows
few of them. The steps of a region are its nodes in program order, without the `parameter`
instructions of HLO. Values are numbered: the region's parameters first, then the results of each
step. For `c = mul a b; d = add c a` with parameters `a b`, the values are a=0, b=1, c=2, d=3,
`first_result` is [2, 3, 4], `first_operand` is [0, 2, 4] and `distance` is [2, 1, 1, 3].
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, repeat
from operator import sub
from typing import Generic, TypeVar

from jaxlens.ir.graph import Module, Node, Region, Span, Type, owner
from jaxlens.ir.lazy import same_fields

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
LITERAL = 0  # a distance of 0: no step reads its own results
_STRETCH = 64  # elements that are compared at once at first


class Pool(dict[K, int], Generic[K]):
    """Distinct items, each with its number in the order of first use."""

    def number(self, item: K) -> int:
        """The number that equal items share."""
        return self.setdefault(item, len(self))


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of nodes: name stack, frames innermost first, and modules (`Node.modules`)."""

    scope: str
    spans: tuple[Span, ...]
    modules: tuple[str, ...] = ()

    @property
    def owner(self) -> Span | None:
        """As `Node.owner`."""
        return owner(self.spans)


@dataclass(frozen=True, slots=True)
class Columns:
    """One region.

    Attributes:
        name: The region's name.
        kind: Per step, the number of its opcode, attributes, literals, count of operands, types of
            results and bodies, shared over the whole program. It does not depend on the
            operands or the place.
        place: Per step, index into `ProgramColumns.places`.
        first_result: Per step, the number of its first result, beginning with the number of
            parameters; and the number of values at the end.
        first_operand: Per step, the index of its first operand in `distance`; and the length of
            that.
        distance: Per operand, the step's first result minus the operand's number;
            `LITERAL` for what is no value of this region.
        types: Per value, index into `ProgramColumns.types`.
        results: Numbers of the values that the region returns; -1 for a literal.
        calls: By step, the names of the regions that it calls, for steps that call any.
        ids: Per step, the node's id.
        steps: Per step, its index in `Region.nodes`.
    """

    name: str
    kind: "array[int]"
    place: "array[int]"
    first_result: "array[int]"
    first_operand: "array[int]"
    distance: "array[int]"
    types: "array[int]"
    results: "array[int]"
    calls: dict[int, tuple[str, ...]]
    ids: Sequence[str]
    steps: Sequence[int]

    def __len__(self) -> int:
        return len(self.kind)

    def distances(self, step: int) -> "array[int]":
        """The distance of each operand of a step."""
        return self.distance[self.first_operand[step] : self.first_operand[step + 1]]

    def reads(self) -> "array[int]":
        """The value of each operand; for a literal, the first result of its own step."""
        return array("i", map(sub, self.per_operand(self.first_result), self.distance))

    def per_operand(self, per_step: Sequence[int]) -> chain[int]:
        """What each operand's step has."""
        read = self.first_operand
        return chain.from_iterable(map(repeat, per_step, map(sub, read[1:], read)))

    def values(self, step: int) -> range:
        """Numbers of the results of a step."""
        return range(self.first_result[step], self.first_result[step + 1])

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.first_result[0]


@dataclass(frozen=True, slots=True)
class ProgramColumns:
    """A whole module.

    Attributes:
        regions: Columns by region name, callers before callees.
        opcodes: Per kind, its opcode.
        places: Origins of steps.
        types: Types of values.
    """

    regions: Mapping[str, Columns]
    opcodes: Sequence[str]
    places: Sequence[Place]
    types: Sequence[Type]

    def __len__(self) -> int:
        return sum(map(len, self.regions.values()))


class ColumnsModule(Module):
    """A Module whose reader made columns first: its nodes are made when looked at.

    The columns are no fields of the dataclass, so JSON of a module does not have them.

    Attributes:
        columns: The columns.
        locate: Region and step of an id; raises KeyError where there is none.
        value_name: The name of a value, by its region and number.
    """

    __slots__ = ("columns", "locate", "value_name")
    columns: ProgramColumns
    locate: Callable[[str], tuple[str, int]]
    value_name: Callable[[str, int], str]

    def node(self, ident: str) -> Node:
        """The node of an id; raises KeyError where there is none."""
        region, step = self.locate(ident)
        return self.regions[region].nodes[step]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and same_fields(Module, self, other)

    __hash__ = None  # type: ignore[assignment]


def columns(module: Module) -> ProgramColumns:
    """The columns of a module; computed unless its reader has made them."""
    if isinstance(module, ColumnsModule):
        return module.columns
    reader = _Reader()
    return reader.program(module.regions, reader.region)


def counts(module: Module) -> Counter[str]:
    """Number of nodes by opcode; ties in the order of first use."""
    if not isinstance(module, ColumnsModule):
        return Counter(node.opcode for node in module.nodes())
    kinds: Counter[int] = Counter()
    for region in module.columns.regions.values():
        kinds.update(region.kind)
    by_opcode: Counter[str] = Counter()
    for kind, n in kinds.items():
        by_opcode[module.columns.opcodes[kind]] += n
    return by_opcode


def mentioned(module: Module) -> Iterator[tuple[Span, ...]]:
    """The stacks of nodes in program order; with columns, each place of a region once."""
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
        step = bisect_right(region.first_result, value) - 1
        if step < 0:
            return whole.parameters[value].name
        return whole.nodes[region.steps[step]].results[value - region.first_result[step]].name

    return name


def repeating(column: Sequence[int], low: int, shift: int, end: int) -> int:
    """How many elements from `low` to `end` equal the element `shift` later.

    Slices of growing length are compared; of the first that differs, the half is, and so on.
    """
    n, stretch = low, _STRETCH
    while n < end:
        high = min(n + stretch, end)
        if column[n:high] == column[n + shift : high + shift]:
            n, stretch = high, 2 * stretch
        elif stretch > 1:
            stretch = max(1, (high - n) // 2)
            end = high
        else:
            break
    return n - low


def locator(program: ProgramColumns) -> Callable[[str], tuple[str, int]]:
    """A function from an id to its region and step; raises KeyError where there is none."""
    places = cache(
        lambda: {
            ident: (name, step)
            for name, region in program.regions.items()
            for step, ident in enumerate(region.ids)
        }
    )
    return lambda ident: places()[ident]


def finder(module: Module) -> Callable[[str], Node]:
    """A function from an id to its node; raises KeyError where there is none."""
    if isinstance(module, ColumnsModule):
        return module.node
    return {node.id: node for node in module.nodes()}.__getitem__


def blank(name: str, ids: Sequence[str], steps: Sequence[int]) -> Columns:
    """Columns without steps, for a reader to fill."""
    kind, place, distance, types, results = (array("i") for _ in range(5))
    first = array("i", [0]), array("i", [0])
    return Columns(name, kind, place, *first, distance, types, results, {}, ids, steps)


def shape(region: Columns) -> Hashable:
    """A key that regions share which compute the same, whatever their names."""
    operands = (region.distance, region.first_operand)
    columns = (region.kind, *operands, region.first_result, region.types, region.results)
    return tuple(column.tobytes() for column in columns)


class ColumnsBuilder:
    """What the steps of a program share, while its columns are computed."""

    def __init__(self) -> None:
        self.opcodes: list[str] = []
        self.kinds: Pool[Hashable] = Pool()
        self.places: Pool[Place] = Pool()
        self.types: Pool[Type] = Pool()
        self.shape_of: dict[str, int] = {}  # a number that regions of one `shape` share
        self._shapes: Pool[Hashable] = Pool()

    def program(self, regions: Mapping[str, R], read: Callable[[R], Columns]) -> ProgramColumns:
        """The columns of a program, callers before callees; callees are read first."""
        by_name = {}
        for name in reversed(list(regions)):
            by_name[name] = read(regions[name])
            self.shape_of[name] = self._shapes.number(shape(by_name[name]))
        columns_of = {name: by_name[name] for name in regions}
        return ProgramColumns(columns_of, self.opcodes, tuple(self.places), tuple(self.types))


class _Reader(ColumnsBuilder):
    """Computes the columns of a module from its nodes."""

    def region(self, region: Region) -> Columns:
        number = {value.name: n for n, value in enumerate(region.parameters)}
        steps, ids = array("i"), list[str]()
        columns = blank(region.name, ids, steps)
        columns.types.extend(self.types.number(value.type) for value in region.parameters)
        columns.first_result[0] = len(columns.types)
        for index, node in enumerate(region.nodes):
            parameter = number.get(node.name, len(number))
            if node.opcode == "parameter" and parameter < columns.parameters:
                continue  # no step
            if node.regions:
                columns.calls[len(columns)] = node.regions
            first = columns.first_result[-1]
            columns.distance.extend(first - number.get(name, first) for name in node.operands)
            columns.first_operand.append(len(columns.distance))
            columns.place.append(self.places.number(Place(node.scope, node.spans, node.modules)))
            columns.kind.append(self._kind(node, number))
            steps.append(index)
            ids.append(node.id)
            for value in node.results:
                number[value.name] = len(columns.types)
                columns.types.append(self.types.number(value.type))
            columns.first_result.append(len(columns.types))
        columns.results.extend(number.get(name, -1) for name in region.results)
        return columns

    def _kind(self, node: Node, number: Mapping[str, int]) -> int:
        literals = tuple(name for name in node.operands if name not in number)
        pairs = node.attrs.items()
        attrs = tuple(pair for pair in pairs if not any(name in pair[1] for name in node.regions))
        bodies = tuple(self.shape_of.get(name, -1) for name in node.regions)
        types = tuple([value.type for value in node.results])
        count = len(node.operands)
        kind = self.kinds.number((node.opcode, attrs, count, literals, bodies, types))
        if kind == len(self.opcodes):
            self.opcodes.append(node.opcode)
        return kind
