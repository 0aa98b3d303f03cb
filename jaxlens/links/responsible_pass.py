"""The passes that removed, fused or rewrote each op, from the first dump that shows it.

The stamps in each dump identify the ops. XLA dumps only passes that changed the module, and the
dump at the start of a pipeline shows the changes of passes before it: then an interval is named.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jaxlens.ir.facts import PassStage
from jaxlens.ir.graph import Module, Node
from jaxlens.links.instruction_atoms import TRIVIAL
from jaxlens.links.match.instruction_fates import dumps


@dataclass(frozen=True, slots=True)
class By:
    """A pass in words, and the index of its dump; None for a change after the last dump."""

    words: str
    index: int | None


@dataclass(frozen=True, slots=True)
class Blame:
    """The passes that removed each op, fused it, and replaced all of its opcodes, by op."""

    ended: dict[str, By] = field(default_factory=dict)
    fused: dict[str, By] = field(default_factory=dict)
    changed: dict[str, By] = field(default_factory=dict)


def blame(passes: Sequence[PassStage], last: Module) -> Blame:
    """Returns the passes from all dumps that changed the module, in time linear in their length.

    Args:
        passes: The dumps in order, HLO before optimisation first.
        last: The optimised program.
    """
    result = Blame()
    if not passes:
        return result
    seen: dict[int, _Ops] = {}
    now = _Ops.of(passes[0].stage.module, seen)
    opcodes: defaultdict[str, set[str]] = defaultdict(set)  # of each op's instructions
    for op, opcode in now.opcodes:
        opcodes[op].add(opcode)
    original = {op: frozenset(names) for op, names in opcodes.items()}
    for dump, name, index in dumps(passes[1:], last, passes[0]):
        by, before = By(name, index), now
        now = _Ops.of(dump.module if dump else last, seen)
        new, gone = now.opcodes - before.opcodes, before.opcodes - now.opcodes
        for op, opcode in gone:
            opcodes[op].discard(opcode)
        for op, opcode in new:
            opcodes[op].add(opcode)
        for op in {op for op, _ in new | gone}:
            left = opcodes[op]
            if not left:
                result.ended[op] = by
                continue
            result.ended.pop(op, None)  # its stamp is in this dump again
            if op in original and op not in result.changed and not left & original[op]:
                result.changed[op] = by
        for op in now.fused - before.fused:
            result.fused.setdefault(op, by)
    return result


@dataclass(frozen=True, slots=True)
class _Ops:
    """The ops of a program or of one of its computations.

    Attributes:
        opcodes: Each op with the opcodes of its instructions.
        fused: Ops with an instruction in a fusion; of a computation, the names of those that its
            fusions compute.
    """

    opcodes: frozenset[tuple[str, str]]
    fused: frozenset[str]

    @classmethod
    def of(cls, module: Module, seen: dict[int, "_Ops"]) -> "_Ops":
        """Reads a module; dumps share the instructions of computations that did not change."""
        regions = {}
        for name, region in module.regions.items():
            if id(region.nodes) not in seen:
                seen[id(region.nodes)] = cls._computation(region.nodes)
            regions[name] = seen[id(region.nodes)]
        inside = {name for ops in regions.values() for name in ops.fused}
        fused = {op for name, ops in regions.items() if name in inside for op, _ in ops.opcodes}
        every = frozenset[tuple[str, str]]().union(*(ops.opcodes for ops in regions.values()))
        return cls(every, frozenset(fused))

    @classmethod
    def _computation(cls, nodes: Iterable[Node]) -> "_Ops":
        computing = [node for node in nodes if node.opcode not in TRIVIAL]
        fusions = (node.regions for node in computing if node.opcode == "fusion")
        return cls(
            frozenset((path[-1], node.opcode) for node in computing for path in node.stamps),
            frozenset(name for names in fusions for name in names),
        )
