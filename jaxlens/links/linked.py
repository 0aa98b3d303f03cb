"""Stages of one program with the atoms of all their nodes: what both `Links` and the web say."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from jaxlens.ir.graph import Module, Node, Span
from jaxlens.links.atoms import Atoms, atoms
from jaxlens.links.call_stacks import Stacks, owner, stacks
from jaxlens.links.instruction_atoms import Reach, reach
from jaxlens.links.match.by_source_position import Position, ops_by_position
from jaxlens.links.match.link import HOWS, How
from jaxlens.links.match.numbered import enclosing_fusions
from jaxlens.links.match.same_compile import relate


class Linked:
    """Modules by stage, and the atoms of their nodes.

    Attributes:
        modules: "jaxpr" at least; "stablehlo"; HLO programs by any name ("hlo", "optimized").
        atoms: What the numbers stand for.
    """

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = dict(modules)
        later = [m for name, m in modules.items() if name not in ("jaxpr", "stablehlo")]
        self.atoms: Atoms = atoms(modules["jaxpr"], modules.get("stablehlo"), later)
        self._reached: dict[str, Reach] = {}
        self._adopted: dict[str, Mapping[str, tuple[int, ...]]] = {}
        self._positions: dict[str, Mapping[str, int]] = {}

    def atoms_of(self, stage: str) -> Mapping[str, tuple[int, ...]]:
        """Atoms of every node of a stage that has some, by id."""
        if stage == "jaxpr":
            return self.atoms.jaxpr
        if stage == "stablehlo":
            return self.atoms.ops
        return self._adopted.get(stage) or self.reached(stage).all

    def adopt(self, stage: str, heirs: Mapping[str, Sequence[str]]) -> None:
        """Gives instructions the atoms of equations that they compute under another's name.

        Args:
            stage: Where the instructions stand.
            heirs: Them by equation: what a merged or rewritten equation lives on in.
        """
        places = enclosing_fusions(self.modules[stage])
        numbers = dict(self.reached(stage).all)
        for equation, ids in heirs.items():
            for id in dict.fromkeys(i for i in (*ids, *map(places.get, ids)) if i):
                own = self.atoms.jaxpr[equation]
                if not set(own) & set(numbers.get(id, ())):
                    numbers[id] = (*numbers.get(id, ()), *own)
        self._adopted[stage] = numbers

    def how(self, stage: str) -> Mapping[str, How]:
        """How the atoms of a stage's nodes are known, where they are not stamped."""
        if stage == "jaxpr":
            return {}
        return self.atoms.made if stage == "stablehlo" else self.reached(stage).how

    def reached(self, stage: str) -> Reach:
        """Where the instructions of an HLO program came from."""
        if stage not in self._reached:
            self._reached[stage] = self.reach(self.modules[stage], stage != "hlo")
        return self._reached[stage]

    def position(self, stage: str) -> Mapping[str, int]:
        """Where each node stands in the text of a stage."""
        if stage not in self._positions:
            nodes = enumerate(self.modules[stage].nodes())
            self._positions[stage] = {node.id: place for place, node in nodes}
        return self._positions[stage]

    def reach(self, module: Module, follow: bool = True) -> Reach:
        """Where the instructions of any HLO program of this compile came from.

        Args:
            module: The program.
            follow: Whether it may be followed from HLO before optimisation, where nothing in it
                was stamped.
        """
        followed = None
        if follow and "hlo" in self.modules and not any(n.stamps for n in module.nodes()):
            followed = self._followed(module)
        return reach(module, self.atoms, self._places, followed)

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
    def _places(self) -> Mapping[Position, tuple[Node, ...]]:
        return ops_by_position(self.modules["stablehlo"]) if "stablehlo" in self.modules else {}

    @cached_property
    def stacks(self) -> Stacks:
        """Python's lines behind equations and atoms."""
        return stacks(self.modules["jaxpr"], self.atoms)

    @cached_property
    def owners(self) -> tuple[tuple[Span, ...], ...]:
        """The lines that own each atom: more than one where several calls share it."""
        memo: dict[int, tuple[Span, ...]] = {}  # equal ones are mostly one object
        found = []
        for every in self.stacks.atoms:
            if id(every) not in memo:
                spans = (span for stack in every if (span := owner(stack)))
                memo[id(every)] = tuple({str(span): span for span in spans}.values())
            found.append(memo[id(every)])
        return tuple(found)

    @cached_property
    def lines(self) -> Mapping[str, tuple[int, ...]]:
        """Atoms that each line of Python owns, by the line's name."""
        numbers_by_line: dict[str, list[int]] = {}
        for number, spans in enumerate(self.owners):
            for span in spans:
                numbers_by_line.setdefault(str(span), []).append(number)
        return {line: tuple(numbers) for line, numbers in numbers_by_line.items()}
