"""The atoms of a program, and which of them every equation and op has.

Two nodes are linked where they share an atom. An atom is an op of StableHLO; a function's op is
one more atom for every path of calls that leads to it, as far as a later program names such
paths, so that two calls of `relu` stay apart once they are inlined. An equation that made no op
is an atom of its own; where nothing was lowered every equation is.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jaxlens.ir.graph import Module, Node
from jaxlens.links.match.by_source_position import equations_by_position
from jaxlens.links.match.link import How

Path = tuple[str, ...]

# Equations that stand in a later program themselves; what others with bodies hold is inlined.
LOOPS = frozenset({"while", "scan", "cond"})
_TAILS = 8  # calls from the end of a path by which a program that is half inlined may name it


@dataclass(frozen=True)
class Atoms:
    """Numbers, and what they stand for.

    Attributes:
        paths: The ops that an atom stands for, calls first; () for an equation without ops.
        equations: The equations that made it, by number: paths of calls, the equation last.
        made: How those are known, by op; stamped ones are left out.
        jaxpr: Atoms of each equation.
        ops: Atoms of each op.
    """

    paths: list[Path] = field(default_factory=list)
    equations: list[tuple[Path, ...]] = field(default_factory=list)
    made: dict[str, How] = field(default_factory=dict)
    jaxpr: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ops: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _ending: dict[Path, list[int]] = field(default_factory=dict)

    def of(self, path: Path) -> tuple[int, ...]:
        """The atoms of an instruction that came from the op at the end of a path of calls."""
        if len(path) == 1:
            return self.ops.get(path[0], ())
        found = self._ending.get(path) or self._ending.get(path[-_TAILS:])
        return tuple(found) if found else self.ops.get(path[-1], ())


def atoms(jaxpr: Module, stablehlo: Module | None, later: Iterable[Module] = ()) -> Atoms:
    """Numbers the atoms of a program.

    Args:
        jaxpr: The equations.
        stablehlo: The ops; None where nothing was lowered.
        later: HLO programs whose paths of calls are to be told apart.
    """
    done = Atoms()
    if stablehlo is None:
        for node in jaxpr.nodes():
            done.jaxpr[node.id] = (_equation(done, node.id),)
        return done
    ops = {node.id: node for node in stablehlo.nodes()}
    made = _makers(jaxpr, stablehlo, done.made)
    for id in ops:
        done.paths.append((id,))
        done.equations.append(made[id])
    through = _inlined(done, ops, made, later)
    _called(done, stablehlo)
    _spread(done, ops, through)
    _equations(done, jaxpr, ops, through)
    return done


def _equation(done: Atoms, id: str) -> int:
    done.paths.append(())
    done.equations.append(((id,),))
    return len(done.paths) - 1


def _makers(jaxpr: Module, stablehlo: Module, how: dict[str, How]) -> dict[str, tuple[Path, ...]]:
    """The equations that made each op; a literal takes that of the one equation that reads it."""
    known = {node.id for node in jaxpr.nodes()}
    made = {
        node.id: tuple(path for path in node.stamps if path[-1] in known)
        for node in stablehlo.nodes()
    }
    if not any(made.values()):
        for id, equations in equations_by_position(jaxpr, stablehlo).items():
            made[id] = tuple((equation,) for equation in equations)
            how[id] = "span"
    for region in stablehlo.regions.values():
        readers: defaultdict[str, list[str]] = defaultdict(list)
        for node in region.nodes:
            for name in node.operands:
                readers[name].append(node.id)
        for node in reversed(region.nodes):
            if made[node.id] or node.opcode not in ("stablehlo.constant", "sdy.constant"):
                continue
            read = [id for value in node.results for id in readers[value.name]]
            found = tuple(dict.fromkeys(path for id in read for path in made[id]))
            if len(found) == 1:  # one that several read would link them to each other
                made[node.id] = found
                how[node.id] = "inferred"
    return made


def _inlined(
    done: Atoms,
    ops: Mapping[str, Node],
    made: Mapping[str, tuple[Path, ...]],
    later: Iterable[Module],
) -> Mapping[str, list[int]]:
    """Numbers the paths of calls that later programs name; gives them by the calls on them."""
    through: defaultdict[str, list[int]] = defaultdict(list)
    ending: defaultdict[Path, list[int]] = defaultdict(list)
    for path in dict.fromkeys(_paths(later, ops)):
        number = len(done.paths)
        done.paths.append(path)
        done.equations.append(next((made[op] for op in reversed(path) if made[op]), ()))
        for op in dict.fromkeys(path[:-1]):
            through[op].append(number)
        for start in {0, *range(max(len(path) - _TAILS, 0), len(path))}:
            ending[path[start:]].append(number)
    done._ending.update(ending)
    return through


_MOST = 64  # equations of an op that is left to those of its calls


def _called(done: Atoms, stablehlo: Module) -> None:
    """Ops of JAX's own functions without equations belong to those that call the function."""
    number = {path[0]: n for n, path in enumerate(done.paths) if len(path) == 1}
    outer: defaultdict[str, dict[Path, None]] = defaultdict(dict)
    for region in stablehlo.regions.values():  # callers before callees
        for node in region.nodes:
            if not done.equations[number[node.id]] and outer[region.name]:
                done.equations[number[node.id]] = tuple(outer[region.name])[:_MOST]
                done.made[node.id] = "inferred"
            for name in node.regions:
                outer[name].update(dict.fromkeys(done.equations[number[node.id]]))


def _paths(later: Iterable[Module], ops: Mapping[str, Node]) -> Iterator[Path]:
    for module in later:
        for node in module.nodes():
            for path in node.stamps:
                if len(path) > 1 and all(op in ops for op in path):
                    yield path


def _spread(done: Atoms, ops: Mapping[str, Node], through: Mapping[str, list[int]]) -> None:
    """An op has its own atom and those of its copies; a call those of what it was inlined to."""
    for number, (id, node) in enumerate(ops.items()):
        found = [number, *done._ending.get((id,), ())]
        if node.opcode == "func.call":
            found += through.get(id, ())
        done.ops[id] = tuple(dict.fromkeys(found))


def _equations(
    done: Atoms, jaxpr: Module, ops: Mapping[str, Node], through: Mapping[str, list[int]]
) -> None:
    own: defaultdict[str, list[int]] = defaultdict(list)
    held: defaultdict[str, list[int]] = defaultdict(list)
    for number, paths in enumerate(done.equations):
        for path in paths:
            own[path[-1]].append(number)
            for id in path[:-1]:
                held[id].append(number)
    for number, id in enumerate(ops):
        for path in done.equations[number]:
            held[path[-1]] += through.get(id, ())
    for node in jaxpr.nodes():
        found = own[node.id]
        if node.regions and node.opcode not in LOOPS:
            found = found + held[node.id]
        done.jaxpr[node.id] = tuple(sorted(set(found))) or (_equation(done, node.id),)
