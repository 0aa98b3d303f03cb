"""`cap.links`: links between any two stages of a capture, fates of equations, and coverage.

Two nodes are linked if they share an atom (see `atoms.py`), here as in the viewer. Everything is
computed on first use, and a query computes only the stages that it needs.
"""

import re
import weakref
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.driver import Driver
from jaxlens.ir.fact import KERNELS
from jaxlens.ir.facts import Kernel, PassStage
from jaxlens.ir.graph import Module, Node, Region, paused
from jaxlens.links.fate import EquationFate, fates
from jaxlens.links.instruction_atoms import TRIVIAL
from jaxlens.links.linked import Linked
from jaxlens.links.match.link import HOWS, How, Link
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.links.traced_links import TracedLinks, traced

_CODE = ("kernels", "llvm", "asm")
STAGES = ("source", "jaxpr", "stablehlo", "hlo", "optimized", *_CODE)
_PASS = re.compile(r"passes\[(\d+)\]")
_LINE = re.compile(r".+:\d+")
# The jaxpr of a program that was opened from a later stage.
NO_EQUATIONS = Module("", "jaxpr", "main", {"main": Region("main", (), (), (), "jaxpr")})


@dataclass(frozen=True, slots=True)
class Missing:
    """A node without links, and the reason."""

    stage: str
    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a program is linked.

    Attributes:
        instructions: Share, 0..1, of the optimised program's instructions that have a source
            line; opcodes of `TRIVIAL`, which compute nothing, are not counted.
        equations: Share, 0..1, of the equations, nested ones too, whose fate is known.
        missing: The other instructions and equations.
        counted: Number of instructions and number of equations.
        inferred: Number of instructions whose atoms are inferred from their neighbours.
    """

    instructions: float
    equations: float
    missing: tuple[Missing, ...]
    counted: tuple[int, int]
    inferred: int = 0


class Links:
    """Links between the stages of one capture.

    Stages have the names in `STAGES`; "passes[7]" is the program of a pass dump, and the nodes of
    "kernels", "llvm" and "asm" are functions. Source lines are "cell 3:4" or "model.py:12".
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._made: dict[frozenset[str], Linked] = {}
        self._sharing: dict[tuple[frozenset[str], str], Mapping[int, list[str]]] = {}
        self._programs: weakref.ref[NumberedModules] | None = None
        self._fates: dict[str, EquationFate] | None = None
        self._dumped = False

    def forward(self, id: str, to: str, at: str = "") -> tuple[str, ...]:
        """Returns what a source line, equation, op or instruction became.

        Args:
            id: The node's id, or the line.
            to: The stage of the results.
            at: The stage of the id; "" for the first stage that has it.

        Raises:
            OptionError: There is no such stage, or no stage has that id.
            UnavailableError: The backend does not provide a stage that is needed.
        """
        return tuple(link.head for link in self.links(id, to, at or self.home(id, STAGES)))

    def back(self, id: str, to: str, at: str = "") -> tuple[str, ...]:
        """Returns what a node came from; `at` defaults to the last stage that has the id.

        With `to="source"` these are the source lines that own it.
        """
        return tuple(link.head for link in self.links(id, to, at or self.home(id, STAGES[::-1])))

    def links(self, id: str, to: str, at: str) -> tuple[Link, ...]:
        """Returns the links of a node to a stage, in the order of the stage's text.

        The `how` of a link is the weakest of the evidence for its two ends and its atom.
        """
        linked = self._with(at, to)
        numbers = self._atoms(linked, at).get(id)
        if numbers is None and not self._has(id, at):
            raise OptionError(f"no {id!r} in {at}; cap.{at}.module.nodes() has what there is")
        best: dict[str, How] = {}
        for number in numbers or ():
            for head in self._by_atom(linked, to).get(number, ()):
                ends = (_way(linked, at, id, number), _way(linked, to, head, number))
                hows = (*ends, _made(linked, number))
                how = max(hows, key=HOWS.index)
                best[head] = min(best.get(head, how), how, key=HOWS.index)
        heads = [head for head in best if (head, to) != (id, at)]
        if to in linked.modules:
            heads.sort(key=linked.position(to).__getitem__)
        return tuple(Link(id, head, best[head]) for head in heads)

    def fate(self, id: str) -> EquationFate:
        """Returns the fate of an equation; compiles if the program is not compiled yet.

        It names the responsible pass if the compile dumped its passes (`cap.passes`).

        Raises:
            OptionError: There is no such equation.
            UnavailableError: The backend does not provide a stage that is needed.
        """
        fates = self.fates()
        if id not in fates:
            raise OptionError(f"no equation {id!r}; {nearest(id, fates)}")
        return fates[id]

    def fates(self) -> Mapping[str, EquationFate]:
        """Returns the fates of all equations, nested ones too."""
        self._driver.stage("hlo")  # required: it has the instructions that XLA removed
        return self._judged(self._with("jaxpr", "stablehlo", "hlo", "optimized"))

    def known_fates(self) -> Mapping[str, EquationFate]:
        """Returns the fates, or an empty mapping if the backend lacks a stage that they need."""
        with suppress(UnavailableError):
            return self.fates()
        return {}

    def traced(self) -> TracedLinks | None:
        """Returns the grouped equations of the jaxpr; None if its ids are not consecutive."""
        return traced(self._driver.stage("jaxpr").module)

    def gives(self, name: str) -> bool:
        """Whether the capture has a stage of that name."""
        with suppress(UnavailableError):
            return bool(self._driver.stage(name))
        return False

    def read_ahead(self) -> NumberedModules:
        """Reads the stages before optimised HLO, while XLA may still be compiling.

        Returns:
            `programs()`, with HLO before optimisation numbered while the caller keeps them.
        """
        programs = self.programs()
        for name in filter(self.gives, ("jaxpr", "stablehlo", "hlo")):
            module = self._driver.stage(name).module
            if name == "hlo":
                _ = programs.numbered(module).bodies
        return programs

    def kernels(self) -> tuple[Kernel, ...]:
        """Returns the kernels of the executable; () if the backend does not list them."""
        with suppress(UnavailableError):
            return self._driver.fact(KERNELS)
        return ()

    def _judged(self, linked: Linked) -> Mapping[str, EquationFate]:
        """Returns the fates, computed again once there are pass dumps, which name the passes."""
        dumps = self._dumps()
        if self._fates is None or (dumps and not self._dumped):
            with paused():
                self._fates = fates(linked, dumps, self.programs())
            self._dumped = bool(dumps)
        return self._fates

    def programs(self) -> NumberedModules:
        """Returns the numbered modules of the compile, the same object to all concurrent users.

        They are large, so only a weak reference is kept here, and callers keep them for one query.
        """
        programs = self._programs() if self._programs else None
        if programs is None:
            programs = NumberedModules()
            self._programs = weakref.ref(programs)
        return programs

    def coverage(self) -> Coverage:
        """Returns how much of the program is linked, and why the rest is not; compiles."""
        linked = self._with("jaxpr", "stablehlo", "hlo", "optimized")
        by_id = {n.id: n for n in linked.modules["optimized"].nodes()}
        nodes = [n for n in by_id.values() if n.opcode not in TRIVIAL]
        reached, how = linked.atoms_of("optimized"), linked.how("optimized")
        ownerless = [node for node in nodes if node.owner is None]
        lost = [n for n in ownerless if not any(linked.owners[i] for i in reached.get(n.id, ()))]
        fates = self.fates()
        unknown = [fate for fate in fates.values() if fate.name == "unknown"]
        return Coverage(
            1 - len(lost) / max(len(nodes), 1),
            1 - len(unknown) / max(len(fates), 1),
            (
                *(Missing("optimized", n.id, _why(n, by_id)) for n in lost),
                *(Missing("jaxpr", fate.id, fate.sentence) for fate in unknown),
            ),
            (len(nodes), len(fates)),
            sum(1 for n in nodes if how.get(n.id) == "inferred"),
        )

    def linked(self, *stages: str) -> Linked:
        """Returns the atoms of these stages and of the stages that they came from.

        Equal sets of stages have equal atom numbers.
        """
        names = _needs(stages)
        key = frozenset(names)
        if key not in self._made:
            # "hlo" is optional unless it was requested.
            if "hlo" in names and "hlo" not in stages and not self.gives("hlo"):
                names.remove("hlo")
            ahead = self.read_ahead() if "optimized" in names else None
            modules = {name: self._module(name) for name in names}
            with paused():
                linked = Linked(modules)
                later = modules.keys() - {"jaxpr", "stablehlo", "hlo"} if "hlo" in modules else ()
                for name in later:
                    fates = self._judged(linked) if name == "optimized" else {}
                    known = {id: fate.instructions for id, fate in fates.items()}
                    linked.adopt(name, self.programs(), known)
            del ahead
            self._made[key] = linked
        return self._made[key]

    def _with(self, *stages: str) -> Linked:
        """Returns atoms that cover these stages, those of an earlier query if possible."""
        if "hlo" in stages:
            self._driver.stage("hlo")  # optional elsewhere: what is linked may be without it
        needs = frozenset(_needs(stages))
        enough = [key for key in self._made if needs <= key]
        return self._made[min(enough, key=len)] if enough else self.linked(*stages)

    def _module(self, name: str) -> Module:
        if name == "jaxpr" and not self.gives(name):
            return NO_EQUATIONS
        match = _PASS.fullmatch(name)
        if match is None:
            return self._driver.stage(name).module
        dumps = self._driver.passes()
        index = int(match[1])
        if index >= len(dumps):
            raise OptionError(f"no passes[{index}]; there are {len(dumps)} dumps")
        return dumps[index].stage.module

    def _dumps(self) -> tuple[PassStage, ...]:
        """Returns the dumps of the passes; () if they were not recorded."""
        if "passes" in self._driver.recorded():
            with suppress(UnavailableError):
                return self._driver.passes()
        return ()

    def _atoms(self, linked: Linked, stage: str) -> Mapping[str, tuple[int, ...]]:
        if stage == "source":
            return linked.lines
        if stage not in _CODE:
            return linked.atoms_of(stage)
        instructions = linked.atoms_of("optimized")
        return {
            kernel.name: instructions.get(kernel.instruction, ())
            for kernel in self._driver.fact(KERNELS)
            if stage == "kernels"
            or (stage == "llvm" and (kernel.llvm_after or kernel.llvm_before))
            or (stage == "asm" and kernel.asm)
        }

    def _by_atom(self, linked: Linked, stage: str) -> Mapping[int, list[str]]:
        key = frozenset(linked.modules), stage
        if key not in self._sharing:
            ids: defaultdict[int, list[str]] = defaultdict(list)
            for id, numbers in self._atoms(linked, stage).items():
                for number in numbers:
                    ids[number].append(id)
            self._sharing[key] = ids
        return self._sharing[key]

    def home(self, id: str, order: tuple[str, ...]) -> str:
        """Returns the first stage of an order that has the id; of an equation or an op its own.

        Raises:
            OptionError: No stage has that id.
            UnavailableError: The backend does not provide a stage that is needed.
        """
        if _LINE.fullmatch(id) and self._has(id, "source"):
            return "source"
        for kind, stage in (("e", "jaxpr"), ("s", "stablehlo")):
            if id[:1] == kind and id[1:].isdigit() and self._has(id, stage):
                return stage
        for stage in order:
            if stage in ("hlo", "optimized", "kernels") and self._has(id, stage):
                return stage
        raise OptionError(f"no stage has {id!r}: equations are e0, e1, ..., ops s0, s1, ...")

    def _has(self, id: str, stage: str) -> bool:
        linked = self._with(stage)
        if stage == "source" or stage in _CODE:
            return id in self._atoms(linked, stage)
        return id in linked.position(stage)


def _needs(stages: tuple[str, ...]) -> list[str]:
    """Returns the modules that linking these stages needs, in pipeline order."""
    names = set(stages)
    for name in stages:
        if name not in STAGES and not _PASS.fullmatch(name):
            raise OptionError(f"no stage {name!r}; {nearest(name, (*STAGES, 'passes[0]'))}")
    if names & set(_CODE):
        names.add("optimized")
    if names - {"source", "jaxpr"}:
        names.add("stablehlo")
    if any(name == "optimized" or _PASS.fullmatch(name) for name in names):
        names.add("hlo")
    names = (names | {"jaxpr"}) - {"source", *_CODE}
    return [name for name in STAGES if name in names] + sorted(names - {*STAGES})


def _way(linked: Linked, stage: str, id: str, number: int) -> How:
    """Returns how it is known that a node has an atom."""
    if stage == "source":
        return "span"
    if stage in _CODE:
        return "named"
    if stage == "optimized" and number not in linked.reached(stage).all.get(id, ()):
        return "inferred"
    return linked.how(stage).get(id, "stamped")


def _made(linked: Linked, number: int) -> How:
    """Returns how it is known which equations an atom was lowered from."""
    path = linked.atoms.paths[number]
    return linked.atoms.made.get(path[-1], "stamped") if path else "stamped"


def _why(node: Node, nodes: Mapping[str, Node]) -> str:
    """Returns why an instruction has no source line."""
    source = node
    while source.opcode in ("copy", "bitcast", "copy-done", "copy-start") and source.operands:
        source = nodes.get(source.operands[0], source)
        if source is node:
            break
    if source.opcode == "parameter":
        return f"{node.opcode} of the argument {source.id}, which no equation changes"
    return f"the compiler put in this {node.opcode} under no name, and no neighbour has one"
