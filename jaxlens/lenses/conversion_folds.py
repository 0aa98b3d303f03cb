"""What was computed from constants when StableHLO became HLO, before XLA's first pass.

MLIR folds elementwise ops, transposes, slices and their like, one element after the other, and no
dump shows it: an op whose operands were constants has no instruction, and who read it reads a
constant.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node, Region


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
    instructions: dict[str, list[Node]] = {}
    constants = {node.id: node for node in hlo.nodes() if node.opcode == "constant"}
    for node in hlo.nodes():
        for path in node.stamps:
            instructions.setdefault(path[-1], []).append(node)
    for region in stablehlo.regions.values():
        folded = _folded(region, set(instructions))
        for name, op in folded.items():
            readers = [
                node for node in region.nodes if name in node.operands and node.id in instructions
            ]
            read = [o for node in readers for i in instructions[node.id] for o in i.operands]
            found = next((c for o in read if (c := constants.get(o)) and _same(c, op)), None)
            if found is not None:
                yield ConversionFold(op, found, _under(op, folded))


def _folded(region: Region, kept: set[str]) -> dict[str, Node]:
    """The ops of a body, by value, that read constants alone and have no instruction."""
    constants: set[str] = set()
    folded: dict[str, Node] = {}
    for node in region.nodes:
        if node.opcode.endswith(".constant"):
            constants.update(value.name for value in node.results)
        elif (
            node.operands
            and not node.regions
            and node.id not in kept
            and all(o in constants or o in folded for o in node.operands)
        ):
            folded.update((value.name, node) for value in node.results)
    return folded


def _same(constant: Node, op: Node) -> bool:
    """Whether an array is written out there; of one number throughout there is only the number."""
    mine, other = constant.type, op.type
    return bool(mine.shape) and mine.bytes == other.bytes  # the stages name types differently


def _under(op: Node, folded: dict[str, Node]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    pending = list(op.operands)
    while pending:
        name = pending.pop()
        if name in folded and folded[name].id not in found:
            found[folded[name].id] = None
            pending.extend(folded[name].operands)
    return tuple(found)
