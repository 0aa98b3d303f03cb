"""Which instructions of a later program also stand for what the compiler merged or folded.

    a = tanh(x)      line 3        c = tanh(x)      line 3, and line 4 as its heir
    b = tanh(x)      line 4

Of instructions of equal value XLA keeps one, with its name stack; a constant has the name stack of
the last operation of those that it holds. The others, gone from the later program, are found by
value numbers in HLO before optimisation, and by the operands of StableHLO.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.links.match.numbered import NumberedModule

Atoms = Mapping[str, tuple[int, ...]]
Carriers = defaultdict[int, list[Node]]
"""The instructions of a later program that have each atom."""


def merged(before: NumberedModule, own: Atoms, carriers: Carriers) -> Iterator[tuple[str, int]]:
    """Yields ids of a later program, each with an atom of an instruction that was merged into it.

    Args:
        before: HLO before optimisation.
        own: The atoms of its instructions.
        carriers: The instructions of the later program.
    """
    # One constant serves a whole program: it would link all lines that have a 0.
    operands = {id: node.operands for id, node in before.nodes.items()}
    fixed = fixed_nodes(before.nodes.values(), operands)
    groups: list[Sequence[Node]] = []
    for equal in (nodes for body in before.bodies.values() for nodes in body.values()):
        opcodes = dict.fromkeys(node.opcode for node in equal if node.id not in fixed)
        groups += ([node for node in equal if node.opcode == opcode] for opcode in opcodes)
    while groups:
        nodes = groups.pop()
        if len(nodes) == 1:
            continue
        atoms = [own.get(node.id, ()) for node in nodes]
        heirs = dict.fromkeys(n.id for each in atoms for atom in each for n in carriers[atom])
        lost = [atom for each in atoms if not any(map(carriers.get, each)) for atom in each]
        yield from product(heirs, lost)
        for names in zip(*(node.regions for node in nodes), strict=False):  # equal bodies
            bodies = [before.module.regions[name].nodes for name in dict.fromkeys(names)]
            groups += zip(*bodies, strict=False)


def folded(program: Module, ops: Atoms, carriers: Carriers) -> Iterator[tuple[str, int]]:
    """Yields constants of a later program, each with an atom of an op that it was computed by.

    Args:
        program: StableHLO.
        ops: The atoms of its ops.
        carriers: The instructions of the later program.
    """
    for region in program.regions.values():
        operands = makers(region)
        fixed = fixed_nodes(region.nodes, operands)
        gone = {id for id in fixed if not any(map(carriers.get, ops.get(id, ())))}
        nodes = {node.id: node for node in region.nodes} if gone else {}
        for reader in nodes.values():
            lasts = [id for id in operands[reader.id] if id in gone]
            if not lasts:
                continue
            kept = (node for atom in ops.get(reader.id, ()) for node in carriers[atom])
            constants = {node.id: node for node in kept if node.opcode == "constant"}
            for last in dict.fromkeys(lasts) if constants else ():
                shape = nodes[last].type.shape
                is_held = reader.id in fixed
                heirs = [id for id, c in constants.items() if is_held or c.type.shape == shape]
                pending, visited = [last], set[str]()
                while pending:
                    id = pending.pop()
                    if id not in visited and id in gone:
                        visited.add(id)
                        pending += operands[id]
                        yield from product(heirs, ops.get(id, ()))


def makers(region: Region) -> dict[str, list[str]]:
    """Returns the ids of what makes each node's operands, "" for a parameter."""
    maker = {value.name: node.id for node in region.nodes for value in node.results}
    return {node.id: [maker.get(name, "") for name in node.operands] for node in region.nodes}


def fixed_nodes(
    nodes: Iterable[Node],
    operands: Mapping[str, Sequence[str]],
    constants: Collection[str] = ("constant", "iota"),
) -> set[str]:
    """Returns the ids of what depends on constants alone; operands come before their readers."""
    found: set[str] = set()
    for node in nodes:
        is_constant = node.opcode.rpartition(".")[2] in constants
        made = operands[node.id]
        if is_constant or (made and not node.regions and found.issuperset(made)):
            found.add(node.id)
    return found
