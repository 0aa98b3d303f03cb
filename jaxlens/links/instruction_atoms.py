"""The atoms of every instruction of an HLO program, and how they are known.

Best first: the exact ids that the instruction carries; the values, names and places that it
shares with one that carries some; its scope and frames; and for what the compiler put in by
itself (copies, broadcasts of constants, casts round a library call) the neighbours: what moves a
value belongs to who made the value, anything else to who reads it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jaxlens.ir.graph import Module, Node
from jaxlens.links.atoms import Atoms, Path
from jaxlens.links.match.by_source_position import Position, ops_at
from jaxlens.links.match.link import How

# They compute nothing: inputs, literals, bundles of values and other views of the same bytes.
TRIVIAL = frozenset(
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency opt-barrier "
    "partition-id replica-id".split()
)
# They hand a value on in another place, order or type.
MOVING = frozenset(
    "copy copy-start copy-done bitcast bitcast-convert reshape transpose convert slice pad "
    "reverse get-tuple-element opt-barrier all-gather-done all-reduce-done async-done "
    "async-update collective-permute-done reduce-precision".split()
)
_HOLDING = frozenset({"fusion", "call", "async-start"})
_READERS = 8  # readers from which an instruction takes its atoms; more would say nothing


@dataclass(frozen=True, slots=True)
class Reach:
    """Atoms by instruction.

    Attributes:
        own: What an instruction itself came from; those that came from nothing known are missing.
        all: The same with what fusions and calls hold.
        how: How that is known, where it is not stamped.
    """

    own: Mapping[str, tuple[int, ...]]
    all: Mapping[str, tuple[int, ...]]
    how: Mapping[str, How]


def reach(
    module: Module,
    atoms: Atoms,
    ops_by_position: Mapping[Position, tuple[Node, ...]],
    followed: Mapping[str, tuple[tuple[int, ...], How]] | None = None,
) -> Reach:
    """Finds where every instruction came from, in time linear in the program's size.

    Args:
        module: HLO at any point of its compile.
        atoms: Their numbers.
        ops_by_position: Ops by place, for what carries no ids.
        followed: Atoms of instructions without ids that are known otherwise.
    """
    own: dict[str, tuple[int, ...]] = {}
    how: dict[str, How] = {}
    ops = atoms.ops
    memo: dict[tuple[Path, ...], tuple[int, ...]] = {}
    for node in module.nodes():
        stamps = node.stamps
        if stamps:
            if stamps not in memo:
                memo[stamps] = tuple(dict.fromkeys(n for p in stamps for n in atoms.at_path(p)))
            if memo[stamps]:
                own[node.id] = memo[stamps]
        elif followed and node.id in followed:
            own[node.id], how[node.id] = followed[node.id]
        elif (
            node.scope and node.opcode not in TRIVIAL and (places := ops_at(node, ops_by_position))
        ):
            own[node.id] = tuple(dict.fromkeys(n for op in places for n in ops[op]))
            how[node.id] = "span"
    for id, numbers in _Neighbours(module, own).infer():
        own[id], how[id] = numbers, "inferred"
    return Reach(own, _with_contents(module, own), how)


@dataclass
class _Neighbours:
    """A program in which instructions without atoms ask those around them."""

    module: Module
    own: Mapping[str, tuple[int, ...]]
    found: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def infer(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        self.nodes = {node.id: node for node in self.module.nodes()}
        self.callers = _callers(self.module)
        self.readers = self._readers()
        lacking = [
            node
            for node in self.nodes.values()
            if node.id not in self.own and node.opcode != "parameter"
        ]
        inner_first = lacking[::-1]
        self._each(lacking, self._moved)
        self._each(inner_first, self._held)
        self._each(inner_first, self._read)
        self._each(lacking, self._moved)
        self._each(lacking, self._fed)
        self._each(inner_first, self._held)
        self._each(lacking, self._called)
        yield from self.found.items()

    def _each(self, nodes: Sequence[Node], rule: Callable[[Node], tuple[int, ...]]) -> None:
        for node in nodes:
            if node.id not in self.found and (atoms := rule(node)):
                self.found[node.id] = atoms

    def at(self, id: str) -> tuple[int, ...]:
        return self.own.get(id) or self.found.get(id, ())

    def _moved(self, node: Node) -> tuple[int, ...]:
        """What moves a value belongs to who made it."""
        if node.opcode not in MOVING or not node.operands:
            return ()
        if node.opcode == "get-tuple-element":
            return self._element(node)
        return self.at(node.operands[0])

    def _element(self, node: Node) -> tuple[int, ...]:
        """The atoms of one part of a tuple that a fusion or loop gives."""
        maker = self.nodes.get(node.operands[0])
        index = node.attrs.get("index", "")
        if maker is None or not index.isdigit():
            return ()
        inner = self.module.regions.get(maker.regions[-1]) if maker.regions else None
        bundle = maker
        if inner is not None and inner.results and inner.results[0] in self.nodes:
            bundle = self.nodes[inner.results[0]]
        if bundle.opcode == "tuple" and int(index) < len(bundle.operands):
            return self.at(bundle.operands[int(index)])
        return self.at(maker.id)

    def _read(self, node: Node) -> tuple[int, ...]:
        """Anything else belongs to who reads it, but what holds others is what it holds."""
        if node.opcode in ("parameter", "tuple"):
            return ()
        if contents := self._held(node):
            return contents
        readers: list[str] = []
        for id in self.readers.get(node.id, ())[:_READERS]:  # a tuple is read by its own readers
            bundled = self.nodes[id].opcode == "tuple"
            readers += self.readers.get(id, ())[:_READERS] if bundled else [id]
        if len(readers) > _READERS:
            return ()
        return tuple(dict.fromkeys(n for id in readers for n in self.at(id) or self._around(id)))

    def _around(self, id: str) -> tuple[int, ...]:
        """The atoms of the one instruction that calls the body of another."""
        callers = self.callers.get(self.home[id], ())
        return self.at(callers[0]) if len(callers) == 1 else ()

    def _fed(self, node: Node) -> tuple[int, ...]:
        """Else to who made what it reads."""
        if node.opcode in ("parameter", "tuple"):
            return ()
        return next((atoms for name in node.operands if (atoms := self.at(name))), ())

    def _held(self, node: Node) -> tuple[int, ...]:
        """A fusion without atoms is what its result is."""
        if node.opcode not in _HOLDING:
            return ()
        inner = [self.module.regions[n] for n in node.regions if n in self.module.regions]
        roots = [name for region in inner for name in region.results]
        return tuple(dict.fromkeys(n for name in roots for n in self.at(name)))

    def _called(self, node: Node) -> tuple[int, ...]:
        """What is left in a body belongs to the instruction that calls it."""
        if node.opcode in TRIVIAL:
            return ()
        return self._around(node.id)

    def _readers(self) -> dict[str, list[str]]:
        """Who reads an instruction: inside a fusion, what reads the parameter that it becomes."""
        readers: defaultdict[str, list[str]] = defaultdict(list)
        inner: dict[str, list[str]] = {}
        self.home: dict[str, str] = {}
        for region in reversed(list(self.module.regions.values())):  # callees before callers
            self.home.update((node.id, region.name) for node in region.nodes)
            for node in region.nodes:
                body = self.module.regions.get(node.regions[0]) if node.regions else None
                if body is not None and node.opcode in _HOLDING:
                    for name, value in zip(node.operands, body.parameters, strict=False):
                        readers[name] += inner.get(value.name) or [node.id]
                else:
                    operands = node.operands
                    for name in operands if len(operands) < 2 else dict.fromkeys(operands):
                        readers[name].append(node.id)
            for value in region.parameters:
                inner[value.name] = readers.get(value.name, [])[: _READERS + 1]
            for name in region.results:  # a body's result is read as its caller's
                if not readers.get(name):
                    readers[name] += self.callers.get(region.name, ())[:1]
        return readers


def _callers(module: Module) -> dict[str, list[str]]:
    callers: defaultdict[str, list[str]] = defaultdict(list)
    for node in module.nodes():
        for name in node.regions:
            callers[name].append(node.id)
    return callers


def _with_contents(
    module: Module, own: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """A fusion has its own atoms and those of what it holds; so has a call without any."""
    all_atoms = dict(own)
    holders = [
        node
        for region in reversed(list(module.regions.values()))  # inner ones first
        for node in region.nodes
        if node.opcode == "fusion" or (node.opcode in _HOLDING and node.id not in own)
    ]
    bodies: dict[str, tuple[int, ...]] = {}
    for holder in holders:
        for name in holder.regions:
            if name not in bodies and name in module.regions:
                inside = (all_atoms.get(node.id, ()) for node in module.regions[name].nodes)
                bodies[name] = tuple(dict.fromkeys(n for atoms in inside for n in atoms))
        inner = (n for name in holder.regions for n in bodies.get(name, ()))
        all_atoms[holder.id] = tuple(dict.fromkeys((*own.get(holder.id, ()), *inner)))
    return all_atoms
