"""What was computed from constants when StableHLO became HLO, before XLA's first pass.

MLIR folds elementwise ops, transposes, slices and their like, one element after the other, and no
dump shows it: an op whose operands were constants has no instruction, and who read it reads a
constant. Stamps do not tell, as MLIR gives what it folded to an op beside it: an op is folded where
its reader's instruction has a constant of its size, and no operand that the op became.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node


@dataclass(frozen=True, slots=True)
class ConversionFold:
    """An op that became a constant.

    Attributes:
        op: The op of StableHLO.
        constant: The constant of HLO that stands for it.
        gone: Ids of other ops that went with it.
    """

    op: Node
    constant: Node
    gone: tuple[str, ...]


def conversion_folds(stablehlo: Module, hlo: Module) -> Iterator[ConversionFold]:
    """The arrays that the conversion computed, in order.

    Args:
        stablehlo: The lowered program.
        hlo: The program before XLA's first pass, whose stamps name ops.
    """
    instructions = {node.id: node for node in hlo.nodes()}
    became: dict[str, list[Node]] = {}
    for node in instructions.values():
        for path in node.stamps:
            became.setdefault(path[-1], []).append(node)
    reads = dict(_reads(stablehlo))
    constant = _constant(stablehlo, reads)
    read: dict[str, list[str]] = {id: [] for id in constant}
    for id, operands in reads.items():
        if id not in constant:
            for folded in constant.keys() & set(operands):
                read[folded] += [name for made in became.get(id, ()) for name in made.operands]
    for id, name in _returned(stablehlo, hlo):
        if id in constant:
            read[id].append(name)
    for id, op in constant.items():
        seen = [instructions[name] for name in read[id] if name in instructions]
        if not any(id == path[-1] for node in seen for path in node.stamps):
            found = next((node for node in seen if _is_constant_of(node, op)), None)
            if found is not None:
                yield ConversionFold(op, found, _under(id, constant, reads))


def _reads(module: Module) -> Iterator[tuple[str, list[str]]]:
    """For each op the ops that made what it reads; "" for what a body was given.

    A name is a body's own, or that of a body round it.
    """
    scopes: dict[str, ChainMap[str, str]] = {}
    for name, region in module.regions.items():  # a body comes after the op that holds it
        scope = scopes.setdefault(name, ChainMap())
        scope.update((parameter.name, "") for parameter in region.parameters)
        for node in region.nodes:
            scope.update((value.name, node.id) for value in node.results)
            for inner in node.regions:
                if module.regions[inner].kind != "func":
                    scopes[inner] = scope.new_child()
    for name, region in module.regions.items():
        for node in region.nodes:
            yield node.id, [scopes[name].get(operand, "") for operand in node.operands]


def _constant(module: Module, reads: Mapping[str, list[str]]) -> dict[str, Node]:
    """The ops that depend on constants only, by id; constants themselves left out."""
    given: set[str] = set()
    found: dict[str, Node] = {}
    for node in module.nodes():
        if node.opcode.endswith(".constant"):
            given.add(node.id)
        elif (
            reads[node.id]
            and not node.regions
            and all(op in given or op in found for op in reads[node.id])
        ):
            found[node.id] = node
    return found


def _returned(stablehlo: Module, hlo: Module) -> Iterator[tuple[str, str]]:
    """The ops whose values the program returns, with the instructions that make these."""
    region, body = stablehlo.body(), hlo.body()
    makers = {value.name: node.id for node in region.nodes for value in node.results}
    root = next((node for node in body.nodes if node.id in body.results), None)
    if root is not None:
        several = root.opcode == "tuple" and len(root.operands) == len(region.results)
        names = root.operands if several else (root.id,)
        for value, name in zip(region.results, names, strict=False):
            yield makers.get(value, ""), name


def _is_constant_of(node: Node, op: Node) -> bool:
    """Whether an array is written out there; of one number throughout there is only the number."""
    if node.opcode != "constant" or not node.type.shape:
        return False
    return node.type.bytes == op.type.bytes  # the stages name types differently


def _under(
    op: str, constant: Mapping[str, Node], reads: Mapping[str, list[str]]
) -> tuple[str, ...]:
    """What an op was computed from, of what went with it."""
    found: dict[str, None] = {}
    pending = list(reads[op])
    while pending:
        id = pending.pop()
        if id in constant and id not in found:
            found[id] = None
            pending.extend(reads[id])
    return tuple(found)
