"""The passes that removed, fused or rewrote each op, from the first dump that shows it.

The stamps in each dump identify the ops. XLA dumps only passes that changed the module, and the
dump at the start of a pipeline shows the changes of passes before it: then an interval is named.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from jaxlens.ir.facts import PassStage, Stage
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo.op_lines import OpLines, OpsOf
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
    lines = OpLines(TRIVIAL)
    now = _looked(passes[0].stage, lines)
    opcodes: defaultdict[str, set[str]] = defaultdict(set)  # of each op's instructions
    for op, opcode in now.opcodes:
        opcodes[op].add(opcode)
    first = {op: frozenset(names) for op, names in opcodes.items()}
    fused: Set[str] = frozenset()
    for dump, name, index in dumps(passes[1:], last, passes[0]):
        by, before = By(name, index), now
        now = _looked(dump, lines) if dump else _look(ops_of_module(last))
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


@dataclass(frozen=True, slots=True)
class _Look:
    """A program as far as blame needs it.

    Attributes:
        opcodes: Each op, with the opcode of an instruction that came from it.
        fused: The ops that have an instruction in a fusion.
    """

    opcodes: frozenset[tuple[str, str]]
    fused: frozenset[str]


def _looked(dump: Stage, lines: OpLines) -> _Look:
    return _look(lines.read(dump.raw) or ops_of_module(dump.module))


def _look(computations: Iterable[OpsOf]) -> _Look:
    computations = list(computations)
    inside = frozenset[str]().union(*(each.fused for each in computations))
    fused = {op for each in computations if each.name in inside for op, _ in each.opcodes}
    every = frozenset[tuple[str, str]]().union(*(each.opcodes for each in computations))
    return _Look(every, frozenset(fused))


def ops_of_module(module: Module) -> Iterator[OpsOf]:
    """Yields the ops of each computation of a module."""
    for name, region in module.regions.items():
        opcodes = {
            (path[-1], node.opcode)
            for node in region.nodes
            if node.opcode not in TRIVIAL
            for path in node.stamps
        }
        fused = (inner for n in region.nodes if n.opcode == "fusion" for inner in n.regions)
        yield OpsOf(name, frozenset(opcodes), frozenset(fused))
