"""The atoms of a program, and the atoms of each equation and op.

Two nodes are linked if they share an atom. An atom is an op of StableHLO. An op in a function is
one more atom for each call path that leads to it, as far as an HLO program names such paths, so
that two inlined calls of `relu` have different atoms. An equation without ops is an atom of its
own; without StableHLO every equation is.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jaxlens.ir.graph import Module, Node
from jaxlens.links.match.by_source_position import equations_by_position
from jaxlens.links.match.link import How

Path = tuple[str, ...]

# Primitives that remain one op in later programs; the bodies of all other equations are inlined.
LOOPS = frozenset({"while", "scan", "cond"})
_TAILS = 8  # ops of the longest suffix by which a partly inlined program may name a path


@dataclass(frozen=True)
class Atoms:
    """Atoms by number, and the atoms of each equation and op.

    Attributes:
        paths: The call path of each atom, its op last; () for an equation without ops.
        equations: The equations that each atom was lowered from: call paths, the equation last.
        made: How the equations of an op are known, by op; stamped ops are left out.
        jaxpr: Atoms of each equation.
        ops: Atoms of each op.
        wholes: Ops that are the body of a `shard_map`, and compute nothing else.
    """

    paths: list[Path] = field(default_factory=list)
    equations: list[tuple[Path, ...]] = field(default_factory=list)
    made: dict[str, How] = field(default_factory=dict)
    jaxpr: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ops: dict[str, tuple[int, ...]] = field(default_factory=dict)
    wholes: set[str] = field(default_factory=set)
    _ending: dict[Path, list[int]] = field(default_factory=dict)

    def at_path(self, path: Path) -> tuple[int, ...]:
        """Returns the atoms of an instruction that is stamped with a call path, its op last."""
        if len(path) == 1:
            return self.ops.get(path[0], ())
        numbers = self._ending.get(path) or self._ending.get(path[-_TAILS:])
        return tuple(numbers) if numbers else self.ops.get(path[-1], ())


def atoms(jaxpr: Module, stablehlo: Module | None, later: Iterable[Module] = ()) -> Atoms:
    """Numbers the atoms of a program.

    Args:
        jaxpr: The jaxpr.
        stablehlo: The lowered program; None if nothing was lowered.
        later: HLO programs whose call paths become atoms.
    """
    table = Atoms()
    if stablehlo is None:
        for node in jaxpr.nodes():
            table.jaxpr[node.id] = (_equation(table, node.id),)
        return table
    ops = {node.id: node for node in stablehlo.nodes()}
    table.wholes.update(n.id for n in ops.values() if n.opcode == "sdy.manual_computation")
    makers = _makers(jaxpr, stablehlo, table.made)
    for id in ops:
        table.paths.append((id,))
        table.equations.append(makers[id])
    through = _inlined(table, ops, makers, later)
    _called(table, stablehlo)
    for number, (id, node) in enumerate(ops.items()):
        # An op has its own atom and those of its inlined copies, a call also those of its body.
        calls = through.get(id, ()) if node.opcode == "func.call" else ()
        table.ops[id] = tuple(dict.fromkeys([number, *table._ending.get((id,), ()), *calls]))
    _equations(table, jaxpr, ops, through)
    return table


def _equation(table: Atoms, id: str) -> int:
    table.paths.append(())
    table.equations.append(((id,),))
    return len(table.paths) - 1


def _makers(jaxpr: Module, stablehlo: Module, how: dict[str, How]) -> dict[str, tuple[Path, ...]]:
    """Returns the equations of each op; a constant has those of the one equation that reads it."""
    ids = {node.id for node in jaxpr.nodes()}
    makers = {
        node.id: tuple(path for path in node.stamps if path[-1] in ids)
        for node in stablehlo.nodes()
    }
    if not any(makers.values()):
        for id, equations in equations_by_position(jaxpr, stablehlo).items():
            makers[id] = tuple((equation,) for equation in equations)
            how[id] = "span"
    for region in stablehlo.regions.values():
        readers: defaultdict[str, list[str]] = defaultdict(list)
        for node in region.nodes:
            for name in node.operands:
                readers[name].append(node.id)
        for node in reversed(region.nodes):
            if makers[node.id] or node.opcode not in ("stablehlo.constant", "sdy.constant"):
                continue
            read = [id for value in node.results for id in readers[value.name]]
            paths = tuple(dict.fromkeys(path for id in read for path in makers[id]))
            if len(paths) == 1:  # a constant with several readers would link them to each other
                makers[node.id] = paths
                how[node.id] = "inferred"
    return makers


def _inlined(
    table: Atoms,
    ops: Mapping[str, Node],
    makers: Mapping[str, tuple[Path, ...]],
    later: Iterable[Module],
) -> Mapping[str, list[int]]:
    """Numbers the call paths that HLO programs name; returns their atoms by each call on them."""
    through: defaultdict[str, list[int]] = defaultdict(list)
    ending: defaultdict[Path, list[int]] = defaultdict(list)
    stamps = (path for module in later for node in module.nodes() for path in node.stamps)
    for path in dict.fromkeys(stamps):
        if len(path) == 1 or not all(op in ops for op in path):
            continue
        number = len(table.paths)
        table.paths.append(path)
        table.equations.append(next((makers[op] for op in reversed(path) if makers[op]), ()))
        for op in dict.fromkeys(path[:-1]):
            through[op].append(number)
        for start in {0, *range(max(len(path) - _TAILS, 0), len(path))}:
            ending[path[start:]].append(number)
    table._ending.update(ending)
    return through


_MOST = 64  # equations of an op that has those of its callers


def _called(table: Atoms, stablehlo: Module) -> None:
    """Assigns ops without equations, in JAX's own functions, to the equations of the callers."""
    number = {path[0]: n for n, path in enumerate(table.paths) if len(path) == 1}
    outer: defaultdict[str, dict[Path, None]] = defaultdict(dict)
    for region in stablehlo.regions.values():  # callers before callees
        for node in region.nodes:
            if not table.equations[number[node.id]] and outer[region.name]:
                table.equations[number[node.id]] = tuple(outer[region.name])[:_MOST]
                table.made[node.id] = "inferred"
            for name in node.regions:
                outer[name].update(dict.fromkeys(table.equations[number[node.id]]))


def _equations(
    table: Atoms, jaxpr: Module, ops: Mapping[str, Node], through: Mapping[str, list[int]]
) -> None:
    """Sets the atoms of each equation: its own, and those of a body that is inlined."""
    own: defaultdict[str, list[int]] = defaultdict(list)
    inner: defaultdict[str, list[int]] = defaultdict(list)
    for number, paths in enumerate(table.equations):
        for path in paths:
            own[path[-1]].append(number)
            for id in path[:-1]:
                inner[id].append(number)
    for number, id in enumerate(ops):
        for path in table.equations[number]:
            inner[path[-1]] += through.get(id, ())
    for node in jaxpr.nodes():
        numbers = own[node.id]
        if node.regions and node.opcode not in LOOPS:
            numbers = numbers + inner[node.id]
        table.jaxpr[node.id] = tuple(sorted(set(numbers))) or (_equation(table, node.id),)
