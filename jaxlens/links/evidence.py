"""The ops and instructions of each equation, from which `fate.py` concludes its fate.

They are looked up by stamps where the programs have them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain

from jaxlens.ir.graph import Module
from jaxlens.ir.hlo.instructions import EXCHANGES
from jaxlens.links.atoms import Path
from jaxlens.links.heirs import fixed_nodes, makers
from jaxlens.links.instruction_atoms import MOVING, TRIVIAL
from jaxlens.links.linked import Linked
from jaxlens.links.match.instruction_fates import ProgramChange, between
from jaxlens.links.match.numbered import NumberedModules

CALLS = frozenset({"func.call", "stablehlo.composite"})
_LITERALS = frozenset({"stablehlo.constant", "sdy.constant"})
_SLIGHT = MOVING | {"constant"}
_WORDS = {
    "dot-general": "dot",
    "broadcast-in-dim": "broadcast",
    "case": "conditional",
    "if": "conditional",
}


@cache
def word(op: str) -> str:
    """Returns the HLO opcode of a StableHLO op."""
    name = op.rpartition(".")[2].replace("_", "-")
    return _WORDS.get(name, name)


def _around(program: Module) -> Mapping[str, frozenset[str]]:
    """Returns the ops whose blocks are around each op."""
    around: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for region in program.regions.values():  # callers come before callees
        for node in region.nodes:
            for inner in (program.regions[name] for name in node.regions):
                for op in inner.nodes if inner.kind == "block" else ():
                    around[op.id] = around[node.id] | {node.id}
    return around


class Evidence:
    """Lookup tables by equation, over all stages of one program.

    Attributes:
        equations: Every equation by id.
        exact: Whether the optimised program has stamps, or no instruction that could carry one.
        needed: Equations that a result or an effect depends on.
        after: Instructions of the optimised program by id.
        opcode: Opcode of every op.
        ops: The ops that each equation was lowered to, the op that defines the result last.
        before_of: Instructions before optimisation, by the op that they came from.
        after_of: Instructions of the optimised program, by the op that they came from.
    """

    def __init__(self, linked: Linked, programs: NumberedModules) -> None:
        self.linked = linked
        self._programs = programs
        optimized = programs.numbered(linked.modules["optimized"])
        self.equations = {node.id: node for node in linked.modules["jaxpr"].nodes()}
        self.exact = any(node.stamps for node in optimized.nodes.values())
        if not self.exact and any(n.stamps for n in linked.modules["stablehlo"].nodes()):
            # A program that only returns its inputs has no instruction that could carry a stamp.
            opcodes = {node.opcode for node in optimized.nodes.values()}
            self.exact = opcodes <= MOVING | TRIVIAL | {"fusion"}
        self.needed = linked.needed
        self.after = optimized.nodes
        self.opcode = {node.id: node.opcode for node in linked.modules["stablehlo"].nodes()}
        self.ops = self._ops()
        self.before_of, self._guessed_before = self._carriers("hlo")
        self.after_of, self._guessed_after = self._carriers("optimized")
        self._before = programs.numbered(linked.modules["hlo"]).nodes
        self._fusion_of = optimized.fusion_of
        # Without stamps, all equations of a line share its ops: hundreds of each in an optimiser.
        self.left, self.homes = cache(self._left), cache(self._homes)
        self.opcodes = cache(self._opcodes)
        self._alike = Counter(self.ops.values())

    def _ops(self) -> dict[str, tuple[str, ...]]:
        """Returns the ops that each equation was lowered to, the op that defines the result last.

        For an equation that JAX lowered to a call of a function of its own (`cumsum`), these
        include the ops of that function.
        """
        program = self.linked.modules["stablehlo"]
        around = _around(program)
        ops_of: defaultdict[str, list[str]] = defaultdict(list)
        atoms = self.linked.atoms
        for path, equations in zip(atoms.paths, atoms.equations, strict=True):
            if len(path) == 1 and atoms.made.get(path[0]) != "inferred":
                for equation in equations:
                    ops_of[equation[-1]].append(path[0])
        self._equation_of = {op: id for id, ops in ops_of.items() for op in ops}
        bodies = {node.id: node.regions for node in program.nodes() if node.opcode in CALLS}

        for id, ops in ops_of.items():
            if not self.equations[id].regions and all(op in bodies for op in ops):
                names = [name for op in ops for name in bodies[op]]
                for name in names:
                    inner = program.regions[name].nodes
                    names += [r for node in inner for r in node.regions if r not in names]
                    ops += [node.id for node in inner]
            own = frozenset(ops)
            within = [op for op in ops if around[op] & own]  # such as the ops of a reducer
            rest = [op for op in ops if not around[op] & own]
            rest.sort(key=lambda op: self.opcode[op] not in _LITERALS)
            ops[:] = [*within, *rest]
        return {id: tuple(ops) for id, ops in ops_of.items()}

    def _carriers(self, stage: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Returns the instructions of each op: those known to come from it, and those inferred."""
        reach = self.linked.reached(stage)
        paths, how_made = self.linked.atoms.paths, self.linked.atoms.made
        tables: list[defaultdict[str, dict[str, None]]] = [defaultdict(dict), defaultdict(dict)]
        memo: dict[tuple[Path, ...], Iterable[str]] = {}
        module = self.linked.modules[stage]
        combined = {n.id for n in module.nodes() if n.opcode in EXCHANGES and n.type.parts}
        for node in module.nodes():
            stamps = node.stamps
            ops = memo.get(stamps)
            if ops is None:
                # The last op of a path, preceded by its calls if only these have equations.
                inferred = [how_made.get(path[-1]) == "inferred" for path in stamps]
                parts = (p if calls else p[-1:] for p, calls in zip(stamps, inferred, strict=True))
                ops = memo[stamps] = dict.fromkeys(chain.from_iterable(parts))
            if not ops:
                own = reach.own.get(node.id, ())
                ops = dict.fromkeys(paths[n][-1] for n in own if paths[n])
            carriers = tables[reach.how.get(node.id) == "inferred"]
            # Of combined collectives, each element of the result has the stamp of one.
            is_part = node.opcode == "get-tuple-element" and node.operands[0] in combined
            for op in ops:
                whole = is_part and word(self.opcode.get(op, "")) in EXCHANGES
                carriers[op][node.operands[0] if whole else node.id] = None
        exact, guessed = ({op: list(ids) for op, ids in table.items()} for table in tables)
        return exact, guessed

    @cached_property
    def change(self) -> ProgramChange:
        """The fates of instructions, for ops without stamps in the optimised program."""
        modules = self.linked.modules
        return between(modules["hlo"], modules["optimized"], (), self._programs)

    @cached_property
    def peers(self) -> Mapping[str, tuple[str, ...]]:
        """Equations whose results have the same value number before optimisation, by equation."""
        bodies = self._programs.numbered(self.linked.modules["hlo"]).bodies
        first = {ops[-1]: id for id, ops in self.ops.items()}
        main = {h: first[op] for op, ids in self.before_of.items() if op in first for h in ids[-1:]}
        peers: dict[str, tuple[str, ...]] = {}
        for classes in bodies.values():
            for nodes in classes.values():
                if len(nodes) == 1:
                    continue
                members = dict.fromkeys(main[node.id] for node in nodes if node.id in main)
                if len(members) > 1:
                    order = sorted(members, key=lambda id: int(id[1:]) if id[1:].isdigit() else 0)
                    peers.update(dict.fromkeys(order, tuple(order)))
        return peers

    def _left(self, ops: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the instructions left of an equation, those of its result's op if there are any.

        An instruction that only moves a value counts if no other is left, and an instruction
        without a stamp counts if it has the opcode of the op.
        """
        moved: list[str] = []
        near: dict[str, list[str]] = {}
        for op in ops:
            for carriers in (self.after_of, self._guessed_after):
                for id in carriers.get(op, ()):
                    near.setdefault(self.after[id].opcode, []).append(id)
        for op in reversed(ops):
            after = ((id, self.after[id].opcode) for id in self.after_of.get(op, ()))
            ids = [id for id, o in after if o not in TRIVIAL or o in ("bitcast", "constant")]
            same = near.get(word(self.opcode[op]))
            real = same or [id for id in ids if self.after[id].opcode not in _SLIGHT]
            inner = [id for id in real if self.after[id].opcode != "fusion"]
            if real:
                return tuple(inner or real)
            moved = moved or ids
        return tuple(moved)

    def alike(self, ops: tuple[str, ...]) -> int:
        """Returns the number of equations that were lowered to these ops, as far as is known."""
        return 1 if self.exact else self._alike[ops]

    def _opcodes(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the opcodes of instructions, each once."""
        return tuple(dict.fromkeys(self.after[id].opcode for id in ids))

    def _homes(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the fusions around instructions, or the instructions, in program order."""
        ordered = sorted(ids, key=self.linked.position("optimized").__getitem__)
        return tuple(dict.fromkeys(self._fusion_of.get(id, id) for id in ordered))

    def company(self, fusion: str, id: str) -> bool:
        """Whether a fusion computes other equations than this one, too."""
        inside = self._inside.get(fusion, ())
        return len(inside) > (id in inside)

    @cached_property
    def _inside(self) -> dict[str, set[str]]:
        """The equations that each fusion computes."""
        equations: defaultdict[str, set[str]] = defaultdict(set)
        for op, ids in self.after_of.items():
            if op in self._equation_of:
                for id in ids:
                    home = self._fusion_of.get(id)
                    if home or self.after[id].opcode == "fusion":
                        equations[home or id].add(self._equation_of[op])
        return equations

    @cached_property
    def types(self) -> dict[str, str]:
        """The aval of each variable of the jaxpr, as text."""
        regions = self.linked.modules["jaxpr"].regions.values()
        return {name: str(kind) for region in regions for name, kind in region.types().items()}

    @cached_property
    def constant(self) -> set[str]:
        """Ops that depend only on constants."""
        regions = self.linked.modules["stablehlo"].regions.values()
        found = (fixed_nodes(r.nodes, makers(r), ("constant",)) for r in regions)
        return set(chain.from_iterable(found))

    def gone(self, ops: Sequence[str]) -> str:
        """Returns the instruction before optimisation that defines the result of ops, or ""."""
        for op in reversed(ops):
            ids: list[str] = [*self.before_of.get(op, ())]
            near = self._guessed_before.get(op, ())
            ids += [id for id in near if self._before[id].opcode == word(self.opcode[op])]
            if ids:
                return ids[0]
        return ""

    @cached_property
    def readers(self) -> Mapping[str, Mapping[str, None]]:
        """The equations that read each instruction before optimisation, in program order."""
        equations: defaultdict[str, dict[str, None]] = defaultdict(dict)  # of each instruction
        for op, ids in self.before_of.items():
            for id in ids if op in self._equation_of else ():
                equations[id][self._equation_of[op]] = None
        readers: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for node in self.linked.modules["hlo"].nodes():
            for name in node.operands:
                readers[name].update(equations.get(node.id, {}))
        return readers
