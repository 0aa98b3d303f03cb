"""The passes that removed, fused or rewrote each op, from the first dump that shows it.

The stamps in each dump identify the ops. XLA dumps only passes that changed the module, and the
dump at the start of a pipeline shows the changes of passes before it: then an interval is named.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from jaxlens.ir.facts import PassStage, Stage
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo.op_lines import OpLines, Ops
from jaxlens.ir.text_store import pack
from jaxlens.links.instruction_atoms import TRIVIAL
from jaxlens.links.match.instruction_fates import dumps

_ENOUGH = 40_000_000  # characters of pass dumps, stamps counted, up to which they are read


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
        passes: The dumps in order, HLO before optimisation first; too long ones are not read.
        last: The optimised program.
    """
    result = Blame()
    if not passes:
        return result
    steps = list(dumps(passes[1:], last, passes[0]))
    looks = _looks([passes[0].stage, *(dump for dump, _, _ in steps if dump)])
    now = next(looks, None)
    if now is None:
        return result
    opcodes: defaultdict[str, set[str]] = defaultdict(set)  # of each op's instructions
    for op, opcode in now.opcodes:
        opcodes[op].add(opcode)
    first = {op: frozenset(names) for op, names in opcodes.items()}
    fused: Set[str] = frozenset()
    for _, name, index in steps:
        by, before = By(name, index), now
        now = next(looks, None) or ops_of_module(last)
        new = now.opcodes - before.opcodes
        gone = before.opcodes - now.opcodes
        for op, opcode in gone:
            opcodes[op].discard(opcode)
        for op, opcode in new:
            opcodes[op].add(opcode)
        for op in {op for op, _ in chain(new, gone)}:
            left = opcodes[op]
            if not left:
                result.ended[op] = by
                continue
            result.ended.pop(op, None)  # its stamp is in this dump again
            if op in first and op not in result.changed and not left & first[op]:
                result.changed[op] = by
        for op in now.fused - fused:
            result.fused.setdefault(op, by)
        fused = now.fused
    return result


def _looks(dumps: Sequence[Stage]) -> Iterator[Ops]:
    """Yields the ops of each dump; nothing where the dumps are too long."""
    packed = [dump.packed for dump in dumps]
    texts = packed[0].among if packed[0] else None
    rows = [each.index for each in packed if each and each.among is texts]
    if texts is None or len(rows) < len(dumps):
        texts, rows = pack(dump.raw for dump in dumps), list(range(len(dumps)))
    lengths = texts.lengths()
    if sum(lengths[row] for row in rows[1:]) <= _ENOUGH:
        lines = OpLines(texts, TRIVIAL)
        for dump, row in zip(dumps, rows, strict=True):
            yield lines.read(row) or ops_of_module(dump.module)


def ops_of_module(module: Module) -> Ops:
    """Returns the ops of a module."""
    fusions = (node for node in module.nodes() if node.opcode == "fusion")
    inside = {name for node in fusions for name in node.regions}
    pairs = {
        name: {
            (path[-1], node.opcode)
            for node in region.nodes
            if node.opcode not in TRIVIAL
            for path in node.stamps
        }
        for name, region in module.regions.items()
    }
    fused = frozenset(op for name in inside & pairs.keys() for op, _ in pairs[name])
    return Ops(frozenset(chain.from_iterable(pairs.values())), fused)
