"""Computes live ranges as XLA's `HloLiveRange` does, where XLA gives its buffer assignment alone.

Optimised HLO is printed in the order of its schedule. The assignment says which instructions define
values; others, such as `tuple`, forward them. A value is in use until the last use of any place
that it is forwarded to.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from jaxlens.errors import ReadError
from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.hlo import buffers
from jaxlens.ir.hlo.buffers import Buffer, Buffers

Place = tuple[str, tuple[int, ...]]
"""An instruction and an index into its tuple; () for the whole value."""

_UNTYPED = re.compile(r"^( value: <.*> \(.*\):)$", re.MULTILINE)
_CALLS = ("while", "conditional", "call", "async-start")  # their computations have positions too
# Instructions that forward their first operand, by what its index has before theirs.
_FORWARD: Mapping[str, tuple[int, ...]] = {
    "while": (),
    "bitcast": (),
    "opt-barrier": (),
    "add-dependency": (),
    "all-reduce-done": (),
    "async-update": (),
    "copy-done": (0,),
    "async-done": (1,),
    "all-gather-done": (1,),
    "collective-permute-done": (1,),
}
# Instructions whose tuple has their operand too, by its index.
_START = {"copy-start": 1, "all-gather-start": 0, "collective-permute-start": 0}


def is_bare(text: str) -> bool:
    """Whether a buffer assignment is without types, as a job records it."""
    return _UNTYPED.search(text) is not None


def completed(text: str, module: Module) -> str:
    """Adds types of values and live ranges to the text of a buffer assignment without them.

    Raises:
        ReadError: The program has no schedule, or forwards values in a way that is not known.
    """
    if module.attrs.get("is_scheduled") != "true":
        raise ReadError("its optimised program has no schedule, from which live ranges follow")
    try:
        schedule = _Schedule(module, buffers.read(_UNTYPED.sub(r"\1 ?", text)))
        types = iter(schedule.types())
        typed = _UNTYPED.sub(lambda line: f"{line[1]} {next(types)}", text)
        return "\n".join((typed, "HloLiveRange:", *schedule.lines()))
    except (LookupError, ValueError, RecursionError) as error:
        raise ReadError(f"live ranges do not follow from its program: {error}") from None


class _Schedule:
    """The positions of a program's instructions, and the values that they use."""

    def __init__(self, module: Module, assignment: Buffers) -> None:
        self._module, self._assignment = module, assignment
        self._nodes = {node.id: node for node in module.nodes()}
        self._positions: dict[str, int] = {}  # of each instruction, in order
        self._regions: dict[str, str] = {}
        self._callers: dict[str, Node] = {}
        self._spans: dict[str, tuple[int, int]] = {}  # positions of each computation
        self._place(module.entry)
        defined = dict.fromkeys(_place(one) for a in assignment.allocations for one in a.buffers)
        self._ends = {p: self._positions[p[0]] for p in defined if p[0] in self._positions}
        self._values: dict[Place, tuple[Place, ...]] = {place: (place,) for place in defined}

    def types(self) -> Iterator[Type]:
        """Yields the types of the assignment's values, in its order."""
        for buffer in (one for a in self._assignment.allocations for one in a.buffers):
            type = self._nodes[buffer.instruction].type
            for number in _numbers(buffer.index):
                type = type.parts[number]
            if type.dtype and (type.bytes or 0) > buffer.size:
                raise ValueError(f"{buffer.instruction} has {buffer.size} bytes, which are too few")
            yield type

    def lines(self) -> Iterator[str]:
        """Yields the schedule and the live ranges as XLA prints them."""
        yield from (f"{position}:{id}" for id, position in self._positions.items())
        for (id, index), (start, end) in self._ranges().items():
            yield f"{id}{{{','.join(map(str, index))}}}:{start}-{end}"

    def _place(self, name: str) -> None:
        start = len(self._positions)
        for node in self._module.regions[name].nodes:
            for called in node.regions if node.opcode in _CALLS else ():
                if called in self._callers:
                    raise ValueError(f"{called} has two callers")
                self._callers[called] = node
                self._place(called)
            self._regions[node.id] = name
            self._positions[node.id] = len(self._positions)
        self._spans[name] = start, len(self._positions)

    def _ranges(self) -> dict[Place, tuple[int, int]]:
        for id, position in self._positions.items():
            node = self._nodes[id]
            if node.opcode in ("while", "call"):  # the state has other values from its start on
                position = self._spans[node.regions[0]][0]
            for operand in node.operands:
                self._use(operand, position, node.opcode in ("get-tuple-element", "copy"))
        for name, (_, end) in self._spans.items():
            region, caller = self._module.regions[name], self._callers.get(name)
            self._use(region.results[0], end)
            if caller and caller.opcode == "while" and caller.regions[0] == name:
                self._use(region.parameters[0].name, end)  # the body takes the state over
        ranges = {place: (self._start(place[0]), end) for place, end in self._ends.items()}
        for allocation in self._assignment.allocations:
            _separate(ranges, allocation.buffers)
        return ranges

    def _start(self, id: str) -> int:
        is_parameter = self._nodes[id].opcode == "parameter"
        return self._spans[self._regions[id]][0] if is_parameter else self._positions[id]

    def _use(self, id: str, position: int, is_whole: bool = False) -> None:
        """Notes that a value is used, or of a tuple that is read in parts its table of pointers."""
        for index in ((),) if is_whole else _indices(self._nodes[id].type):
            for value in self._values_at((id, index)):
                if value in self._ends:
                    self._ends[value] = max(position, self._ends[value])

    def _values_at(self, place: Place) -> tuple[Place, ...]:
        if place not in self._values:
            self._values[place] = ()  # a damaged program may forward in a circle
            sources = self._sources(self._nodes[place[0]], place[1])
            self._values[place] = tuple(v for one in sources for v in self._values_at(one))
        return self._values[place]

    def _sources(self, node: Node, index: tuple[int, ...]) -> list[Place]:
        """Returns the places whose values an instruction forwards to a place of its own."""
        opcode, operands = node.opcode, node.operands
        match opcode:
            case "tuple" if index:
                return [(operands[index[0]], index[1:])]
            case "get-tuple-element":
                return [(operands[0], (int(node.attrs["index"]), *index))]
            case "call" | "conditional":
                return [(self._module.regions[name].results[0], index) for name in node.regions]
            case "parameter" if caller := self._callers.get(self._regions[node.id]):
                number = int(node.attrs["index"])
                if caller.opcode == "conditional":  # its first operand chooses
                    number = caller.regions.index(self._regions[node.id]) + 1
                return [(caller.operands[number], index)]
            case "async-start" if index[:1] == (0,):
                return [(operands[index[1]], index[2:])]
            case "async-start" if index[:1] == (1,):
                return [(self._module.regions[node.regions[0]].results[0], index[1:])]
            case _ if opcode in _FORWARD:
                return [(operands[0], (*_FORWARD[opcode], *index))]
            case _ if index[:1] == (_START.get(opcode),):
                return [(operands[0], index[1:])]
        raise ValueError(f"what {opcode} forwards is not known")


def _separate(ranges: dict[Place, tuple[int, int]], shared: Iterable[Buffer]) -> None:
    """Ends values where another begins at the same place, which then lasts as long as both."""
    at: dict[int, list[Place]] = defaultdict(list)
    for buffer in shared:
        if (place := _place(buffer)) in ranges:
            at[buffer.offset].append(place)
    for places in at.values():
        for one, after in pairwise(sorted(places, key=ranges.__getitem__)):
            (start, end), (next_start, next_end) = ranges[one], ranges[after]
            if end > next_start:
                ranges[one], ranges[after] = (start, next_start), (next_start, max(end, next_end))


def _place(buffer: Buffer) -> Place:
    return buffer.instruction, _numbers(buffer.index)


def _numbers(index: str) -> tuple[int, ...]:
    return tuple(int(number) for number in index.split(",") if number)


def _indices(type: Type, before: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield before
    for number, part in enumerate(type.parts):
        yield from _indices(part, (*before, number))
