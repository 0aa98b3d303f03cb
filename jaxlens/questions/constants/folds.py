"""Values that were computed at compile time, by the conversion to HLO and by constant folding.

The passes: an instruction that became a constant from the dump before constant folding to the dump
after it, and its operands that are gone.

The conversion: MLIR folds elementwise ops, transposes, slices and similar ops element by element,
and no dump shows it: an op of constants has no instruction, and its users read a constant. The
constant's stamp does not identify the op, as MLIR can give it the location of another op. So an op
counts as folded if an instruction of its user has a constant operand of its size, and no operand
with the op's stamp:

    s3 = transpose s1 (constant)         no instruction with stamp s3
    s4 = add x, s3                       add.4 = add(x, constant.2)     s3 became constant.2
"""

from collections import ChainMap
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxlens.ir.facts import CONVERSION, PassStage
from jaxlens.ir.graph import Module, Node
from jaxlens.links.match.instruction_fates import between
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.program.compile_parts import FOLDING
from jaxlens.report import count

_ENOUGH = 30_000_000  # characters of dumps that are read to list folds


@dataclass(frozen=True, slots=True)
class Folded:
    """An op or instruction that was computed at compile time.

    Attributes:
        id: The instruction before the pass, or the op of StableHLO.
        opcode: Its opcode.
        constant: The constant that it became.
        type: Its type as text.
        bytes: Its bytes; None where unknown.
        line: The source line that owns it; "" for none.
        gone: Instructions that it was computed from and that are gone with it.
        by: The pass, or the conversion from StableHLO to HLO.
        step: Index of the pass's dump; 0 for the conversion.
        own: Whether that line is the user's.
    """

    id: str
    opcode: str
    constant: str
    type: str
    bytes: int | None
    line: str
    gone: tuple[str, ...]
    by: str
    step: int
    own: bool


def folds(stages: Sequence[PassStage]) -> tuple[tuple[Folded, ...], str]:
    """Returns what the constant folding passes computed, and what was not read, in words."""
    folded: list[Folded] = []
    programs = NumberedModules()
    read = unread = 0
    for earlier, later in pairwise(stages):
        if not (later.changed and later.name == FOLDING):
            continue
        size = len(earlier.stage.raw) + len(later.stage.raw)
        if read + size > _ENOUGH and read:
            unread += 1
            continue
        read += size
        folded += _pass_folds(earlier, later, programs)
    missing = f"{count(unread, 'dump')} of it were not read: too long" if unread else ""
    return tuple(folded), missing


def _pass_folds(
    earlier: PassStage, later: PassStage, programs: NumberedModules
) -> Iterator[Folded]:
    """Yields what one run of the pass computed."""
    before, after = earlier.stage.module, later.stage.module
    fates = between(before, after, (), programs).fates
    nodes = {node.id: node for node in before.nodes()}
    constants = {node.id: node for node in after.nodes() if node.opcode == "constant"}
    became = {f.id: f.into[0] if f.into else f.note.removeprefix("into ") for f in fates.values()}
    roots = {
        id: constants[name]
        for id, name in became.items()
        if name in constants and nodes[id].opcode != "constant"
    }
    operations = {f.id for f in fates.values() if f.name == "folded" and f.id not in roots}
    operands = {id: nodes[id].operands for id in (*operations, *roots)}
    for id, constant in roots.items():
        origins = _origins(id, operations, operands)
        yield _folded(nodes[id], constant, origins, later.name, later.index)


def conversion_folds(stablehlo: Module, hlo: Module) -> Iterator[Folded]:
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
    foldable = _foldable(stablehlo, reads)
    read: dict[str, list[str]] = {id: [] for id in foldable}
    for id, operands in reads.items():
        if id not in foldable:
            values = [name for user in became.get(id, ()) for name in user.operands]
            for operand in foldable.keys() & set(operands):
                read[operand] += values
    for id, name in _returned(stablehlo, hlo):
        if id in foldable:
            read[id].append(name)
    for id, op in foldable.items():
        nodes = [instructions[name] for name in read[id] if name in instructions]
        if any(id == path[-1] for node in nodes for path in node.stamps):
            continue
        # Splats, being scalars, are left out. Bytes are compared, as the stages name types
        # differently.
        arrays = (node for node in nodes if node.opcode == "constant" and node.type.shape)
        constant = next((node for node in arrays if node.type.bytes == op.type.bytes), None)
        if constant is not None:
            yield _folded(op, constant, _origins(id, foldable, reads), CONVERSION, 0)


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


def _foldable(module: Module, reads: Mapping[str, list[str]]) -> dict[str, Node]:
    """Returns the ops that depend only on constants, by id, without the constants themselves."""
    constants: set[str] = set()
    foldable: dict[str, Node] = {}
    for node in module.nodes():
        if node.opcode.endswith(".constant"):
            constants.add(node.id)
        elif (
            reads[node.id]
            and not node.regions
            and all(op in constants or op in foldable for op in reads[node.id])
        ):
            foldable[node.id] = node
    return foldable


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


def _origins(
    id: str, folded: Container[str], operands: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Returns the folded ops that an op was computed from, directly or through others."""
    origins: dict[str, None] = {}
    pending = list(operands[id])
    while pending:
        name = pending.pop()
        if name in folded and name not in origins:
            origins[name] = None
            pending.extend(operands[name])
    return tuple(origins)


def _folded(node: Node, constant: Node, origins: tuple[str, ...], by: str, step: int) -> Folded:
    return Folded(
        node.id,
        node.opcode.rpartition(".")[2],
        constant.id,
        str(constant.type),
        constant.type.bytes,
        str(node.owner or ""),
        origins,
        by,
        step,
        node.owner is not None and not node.owner.library,
    )
