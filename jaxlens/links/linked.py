"""The stages of one program with the atoms of their nodes, for `Links` and for the viewer."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import chain

from jaxlens.ir.graph import Module, Node, Span, owner
from jaxlens.links import atoms as program_atoms
from jaxlens.links.atoms import Atoms
from jaxlens.links.call_stacks import Stacks, stacks
from jaxlens.links.heirs import folded, merged
from jaxlens.links.instruction_atoms import Reach, reach
from jaxlens.links.live_equations import live_equations
from jaxlens.links.match.by_source_position import Position, ops_by_position
from jaxlens.links.match.link import HOWS, How
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.links.match.same_compile import relate


class Linked:
    """The modules of a program by stage, and the atoms of their nodes.

    Attributes:
        modules: "jaxpr", and optionally "stablehlo" and HLO programs by any other name.
        atoms: The atoms of the program.
    """

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = dict(modules)
        later = [m for name, m in modules.items() if name not in ("jaxpr", "stablehlo")]
        self.atoms: Atoms = program_atoms.atoms(modules["jaxpr"], modules.get("stablehlo"), later)
        self._reached: dict[str, Reach] = {}
        self._adopted: dict[str, Mapping[str, tuple[int, ...]]] = {}
        self._positions: dict[str, Mapping[str, int]] = {}

    def atoms_of(self, stage: str) -> Mapping[str, tuple[int, ...]]:
        """Returns the atoms of the nodes of a stage, by id; nodes without atoms are left out."""
        if stage == "jaxpr":
            return self.atoms.jaxpr
        if stage == "stablehlo":
            return self.atoms.ops
        return self._adopted.get(stage) or self.reached(stage).all

    def adopt(
        self, stage: str, programs: NumberedModules, known: Mapping[str, Sequence[str]]
    ) -> None:
        """Adds the atoms of what the compiler merged, folded or rewrote to what computes it now.

        Args:
            stage: The name of the later program.
            programs: The numbered modules of this compile.
            known: Instructions that compute an equation, by the equation.
        """
        module, reached = self.modules[stage], self.reached(stage)
        carriers: defaultdict[int, list[Node]] = defaultdict(list)
        for node in module.nodes():
            for atom in reached.own.get(node.id, ()):
                carriers[atom].append(node)
        equations = self.atoms.equations
        before = merged(programs.numbered(self.modules["hlo"]), self.reached("hlo").own, carriers)
        constants = folded(self.modules["stablehlo"], self.atoms.ops, carriers)
        places = programs.numbered(module).fusion_of
        numbers: dict[str, dict[int, None]] = {}  # of the instructions that get more

        def of(id: str) -> dict[int, None]:
            if id not in numbers:
                numbers[id] = dict.fromkeys(reached.all.get(id, ()))
            return numbers[id]

        is_needed = cache(lambda atom: any(path[-1] in self.needed for path in equations[atom]))
        for inner, atom in chain(before, constants):
            if is_needed(atom):  # else it is dead
                for id in filter(None, (inner, places.get(inner))):
                    of(id)[atom] = None
        for equation, ids in known.items():
            atoms = dict.fromkeys(self.atoms.jaxpr[equation])
            for id in filter(None, (*ids, *map(places.get, ids))):
                if atoms.keys().isdisjoint(numbers.get(id) or reached.all.get(id, ())):
                    of(id).update(atoms)
        adopted = {id: tuple(atoms) for id, atoms in numbers.items()}
        self._adopted[stage] = {**reached.all, **adopted}

    def how(self, stage: str) -> Mapping[str, How]:
        """Returns how the atoms of a stage's nodes are known, for nodes without stamps."""
        if stage == "jaxpr":
            return {}
        return self.atoms.made if stage == "stablehlo" else self.reached(stage).how

    def reached(self, stage: str) -> Reach:
        """Returns the atoms of the instructions of an HLO stage, computed once."""
        if stage not in self._reached:
            self._reached[stage] = self.reach(self.modules[stage], stage != "hlo")
        return self._reached[stage]

    def position(self, stage: str) -> Mapping[str, int]:
        """Returns the index of each node in the text of a stage, by id."""
        if stage not in self._positions:
            nodes = enumerate(self.modules[stage].nodes())
            self._positions[stage] = {node.id: place for place, node in nodes}
        return self._positions[stage]

    def reach(self, module: Module, follow: bool = True) -> Reach:
        """Returns the atoms of the instructions of any HLO program of this compile.

        Args:
            module: The program.
            follow: Whether to link it with HLO before optimisation if it has no stamps.
        """
        followed = None
        if follow and "hlo" in self.modules and not any(n.stamps for n in module.nodes()):
            followed = self._followed(module)
        return reach(module, self.atoms, self._ops_by_position, followed)

    def _followed(self, module: Module) -> dict[str, tuple[tuple[int, ...], How]]:
        before = self.reached("hlo")
        origins: dict[str, tuple[tuple[int, ...], How]] = {}
        for link in relate(self.modules["hlo"], module).links:
            if link.tail in before.own:
                numbers, how = origins.get(link.head, ((), link.how))
                both = tuple(dict.fromkeys((*numbers, *before.own[link.tail])))
                how = max(how, link.how, before.how.get(link.tail, "stamped"), key=HOWS.index)
                origins[link.head] = both, how
        return origins

    @cached_property
    def _ops_by_position(self) -> Mapping[Position, tuple[Node, ...]]:
        return ops_by_position(self.modules["stablehlo"]) if "stablehlo" in self.modules else {}

    @cached_property
    def needed(self) -> frozenset[str]:
        """The equations that a result or an effect depends on."""
        return live_equations(self.modules["jaxpr"])

    @cached_property
    def stacks(self) -> Stacks:
        """The call stacks of equations and atoms."""
        return stacks(self.modules["jaxpr"], self.atoms)

    @cached_property
    def owners(self) -> tuple[tuple[Span, ...], ...]:
        """The source lines that own each atom: more than one if several calls share it."""
        memo: dict[int, tuple[Span, ...]] = {}  # by identity: equal ones are mostly one object
        for atom in self.stacks.atoms:
            if id(atom) not in memo:
                spans = filter(None, map(owner, atom))
                memo[id(atom)] = tuple({str(span): span for span in spans}.values())
        return tuple(memo[id(atom)] for atom in self.stacks.atoms)

    @cached_property
    def lines(self) -> Mapping[str, tuple[int, ...]]:
        """The atoms that each source line owns, by the line's name (`model.py:12`)."""
        numbers_by_line: dict[str, list[int]] = {}
        for number, spans in enumerate(self.owners):
            for span in spans:
                numbers_by_line.setdefault(str(span), []).append(number)
        return {line: tuple(numbers) for line, numbers in numbers_by_line.items()}
