"""The atoms of each instruction of an HLO program, and how they are known.

The sources, best first: the stamps of the instruction (a `shard_map`'s own is the last source);
links from HLO before optimisation, by value, name or position; its name stack and frames. An
instruction that the compiler inserted (a copy, a broadcast of a constant, a cast around a library
call) has none of them and takes the atoms of its neighbours: one that moves a value those of its
operand, any other those of its users:

    copy.1 = copy(add.3)             the atoms of add.3
    broadcast.2 = broadcast(c)       the atoms of mul.5
    mul.5 = multiply(x, broadcast.2)
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxlens.ir.graph import Module, Node
from jaxlens.links.atoms import Atoms, Path
from jaxlens.links.match.by_source_position import Position, ops_at
from jaxlens.links.match.link import How

# Opcodes that compute nothing: inputs, constants, tuples and views of the same buffer.
TRIVIAL = frozenset(
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency opt-barrier "
    "partition-id replica-id".split()
)
# Opcodes whose result is their operand in another buffer, layout, shape or type.
MOVING = frozenset(
    "copy copy-start copy-done bitcast bitcast-convert reshape transpose convert slice pad "
    "reverse get-tuple-element opt-barrier all-gather-done all-reduce-done async-done "
    "async-update collective-permute-done reduce-precision".split()
)
_HOLDING = frozenset({"fusion", "call", "async-start"})
_READERS = 8  # users from which an instruction takes its atoms; more are unspecific


@dataclass(frozen=True, slots=True)
class Reach:
    """Atoms by instruction.

    Attributes:
        own: Atoms of the instruction itself; instructions without any are left out.
        all: The same, with the atoms inside fusions and calls.
        how: How the atoms are known, of instructions without stamps.
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
    """Returns the atoms of each instruction, in time linear in the program's size.

    Args:
        module: An HLO program at any point of the compile.
        atoms: The atoms of the program.
        ops_by_position: Ops by source position, for instructions without stamps.
        followed: Atoms of instructions without stamps that links from an earlier program give.
    """
    own: dict[str, tuple[int, ...]] = {}
    how: dict[str, How] = {}
    ops = atoms.ops
    memo: dict[tuple[Path, ...], tuple[dict[str, tuple[int, ...]], tuple[int, ...]]] = {}
    within: dict[str, tuple[int, ...]] = {}  # what the compiler put into a shard_map
    for node in module.nodes():
        stamps = node.stamps
        if stamps:
            found = memo.get(stamps)
            if found is None:
                is_put_in = all(path[-1] in atoms.wholes for path in stamps)
                numbers = tuple(dict.fromkeys(n for p in stamps for n in atoms.at_path(p)))
                found = memo[stamps] = within if is_put_in else own, numbers
            if found[1]:
                found[0][node.id] = found[1]
        elif followed and node.id in followed:
            own[node.id], how[node.id] = followed[node.id]
        elif (
            node.scope and node.opcode not in TRIVIAL and (places := ops_at(node, ops_by_position))
        ):
            own[node.id] = tuple(dict.fromkeys(n for op in places for n in ops[op]))
            how[node.id] = "span"
    inferred = _Neighbours(module, own).infer()
    how.update(dict.fromkeys(inferred, "inferred"))
    own = {**within, **own, **inferred}
    return Reach(own, _with_contents(module, own), how)


@dataclass
class _Neighbours:
    """Infers the atoms of instructions without any from operands, users, bodies and callers.

    Attributes:
        module: The program.
        own: The atoms that are known.
        inferred: The atoms that are inferred.
    """

    module: Module
    own: Mapping[str, tuple[int, ...]]
    inferred: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def infer(self) -> Mapping[str, tuple[int, ...]]:
        """Returns the inferred atoms; each rule sees only what earlier rules left without atoms.

        Rules that read operands or callers go forward, those that read users or bodies backward, so
        that one pass resolves a chain: in `copy.2 = copy(copy.1)` both have the atoms of copy.1's
        operand.
        """
        self.nodes = {node.id: node for node in self.module.nodes()}
        self.callers: defaultdict[str, list[str]] = defaultdict(list)
        for node in self.nodes.values():
            for name in node.regions:
                self.callers[name].append(node.id)
        self.readers = self._readers()
        outside = (node for node in self.nodes.values() if node.id not in self.own)
        lacking = [node for node in outside if node.opcode != "parameter"]
        inner_first = lacking[::-1]
        for nodes, rule in (
            (lacking, self._moved),
            (inner_first, self._held),
            (inner_first, self._read),
            (lacking, self._moved),
            (lacking, self._fed),
            (inner_first, self._held),
            (lacking, self._called),
        ):
            for node in nodes:
                if node.id not in self.inferred and (atoms := rule(node)):
                    self.inferred[node.id] = atoms
        return self.inferred

    def at(self, id: str) -> tuple[int, ...]:
        return self.own.get(id) or self.inferred.get(id, ())

    def _moved(self, node: Node) -> tuple[int, ...]:
        """Returns the atoms of the operand of an instruction that moves a value."""
        if node.opcode not in MOVING or not node.operands:
            return ()
        if node.opcode == "get-tuple-element":
            return self._element(node)
        return self.at(node.operands[0])

    def _element(self, node: Node) -> tuple[int, ...]:
        """Returns the atoms of one element of the tuple that a fusion or loop returns."""
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
        """Returns the atoms of the users; of a fusion or call, those of its root if any."""
        if node.opcode in ("parameter", "tuple"):
            return ()
        if contents := self._held(node):
            return contents
        readers: list[str] = []
        for id in self.readers.get(node.id, ())[:_READERS]:  # a tuple counts as its users
            bundled = self.nodes[id].opcode == "tuple"
            readers += self.readers.get(id, ())[:_READERS] if bundled else [id]
        if len(readers) > _READERS:
            return ()
        return tuple(dict.fromkeys(n for id in readers for n in self.at(id) or self._around(id)))

    def _around(self, id: str) -> tuple[int, ...]:
        """Returns the atoms of the one caller of the computation that an instruction is in."""
        callers = self.callers.get(self.home[id], ())
        return self.at(callers[0]) if len(callers) == 1 else ()

    def _fed(self, node: Node) -> tuple[int, ...]:
        """Returns the atoms of the first operand that has some."""
        if node.opcode in ("parameter", "tuple"):
            return ()
        return next((atoms for name in node.operands if (atoms := self.at(name))), ())

    def _held(self, node: Node) -> tuple[int, ...]:
        """Returns the atoms of the roots of a fusion's or call's computations."""
        if node.opcode not in _HOLDING:
            return ()
        inner = [self.module.regions[n] for n in node.regions if n in self.module.regions]
        roots = [name for region in inner for name in region.results]
        return tuple(dict.fromkeys(n for name in roots for n in self.at(name)))

    def _called(self, node: Node) -> tuple[int, ...]:
        """Returns the atoms of the caller, for an instruction that computes something."""
        return () if node.opcode in TRIVIAL else self._around(node.id)

    def _readers(self) -> dict[str, list[str]]:
        """Returns the users of each instruction; of a fusion's operand, those of its parameter."""
        readers: defaultdict[str, list[str]] = defaultdict(list)
        inner: dict[str, list[str]] = {}
        self.home: dict[str, str] = {}
        for region in reversed(list(self.module.regions.values())):  # callees before callers
            self.home.update(dict.fromkeys([node.id for node in region.nodes], region.name))
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
            for name in region.results:  # the caller counts as the user of a root
                if not readers.get(name):
                    readers[name] += self.callers.get(region.name, ())[:1]
        return readers


def _with_contents(
    module: Module, own: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Adds to each fusion, and each call without atoms, the atoms in its computations."""
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
