"""Ops that the conversion from StableHLO to HLO folded into constants, before XLA's first pass.

MLIR folds elementwise ops, transposes, slices and similar ops element by element, and no dump shows
it: an op of constants has no instruction, and its users read a constant. The constant's stamp does
not identify the op, as MLIR can give it the location of another op. So an op counts as folded if an
instruction of its user has a constant operand of its size, and no operand with the op's stamp:

    s3 = transpose s1 (constant)         no instruction with stamp s3
    s4 = add x, s3                       add.4 = add(x, constant.2)     s3 became constant.2
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node


@dataclass(frozen=True, slots=True)
class ConversionFold:
    """An op that was folded into a constant.

    Attributes:
        op: The op of StableHLO.
        constant: The constant of HLO that has its value.
        gone: Ids of the ops that it was computed from and that were folded with it.
    """

    op: Node
    constant: Node
    gone: tuple[str, ...]


def conversion_folds(stablehlo: Module, hlo: Module) -> Iterator[ConversionFold]:
    """Yields the ops that the conversion folded into arrays, in program order.

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
    """Yields each op with the ops that define its operands; "" for a block argument.

    A name is defined in the op's own region or in one around it.
    """
    scopes: dict[str, ChainMap[str, str]] = {}
    for name, region in module.regions.items():  # a region comes after its op
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
    """Returns the ops that depend only on constants, by id, without the constants themselves."""
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
    """Yields the ops whose values the program returns, with the instructions that define these."""
    region, body = stablehlo.body(), hlo.body()
    makers = {value.name: node.id for node in region.nodes for value in node.results}
    root = next((node for node in body.nodes if node.id in body.results), None)
    if root is not None:
        several = root.opcode == "tuple" and len(root.operands) == len(region.results)
        names = root.operands if several else (root.id,)
        for value, name in zip(region.results, names, strict=False):
            yield makers.get(value, ""), name


def _is_constant_of(node: Node, op: Node) -> bool:
    """Whether an instruction is a constant of an op's size; splats, being scalars, are not."""
    if node.opcode != "constant" or not node.type.shape:
        return False
    return node.type.bytes == op.type.bytes  # the stages name types differently


def _under(
    op: str, constant: Mapping[str, Node], reads: Mapping[str, list[str]]
) -> tuple[str, ...]:
    """Returns the folded ops that an op was computed from."""
    found: dict[str, None] = {}
    pending = list(reads[op])
    while pending:
        id = pending.pop()
        if id in constant and id not in found:
            found[id] = None
            pending.extend(reads[id])
    return tuple(found)
