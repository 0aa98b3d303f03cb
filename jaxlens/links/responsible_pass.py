"""The passes that removed, fused or rewrote each op, from the first dump that shows it.

The stamps in each dump identify the ops. XLA dumps only passes that changed the module, and the
dump at the start of a pipeline shows the changes of passes before it: then an interval is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxlens.ir.facts import PassStage
from jaxlens.ir.graph import Module
from jaxlens.links.instruction_atoms import TRIVIAL
from jaxlens.links.match.instruction_fates import dumps
from jaxlens.links.match.numbered import enclosing_fusions


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
    first = _look(passes[0].stage.module)
    alive = set(first)
    for module, name, index in dumps(passes[1:], last, passes[0]):
        by, now = By(name, index), _look(module)
        for op in alive - now.keys():
            result.ended[op] = by
        for op in now.keys() - alive:  # its stamp is in this dump again
            result.ended.pop(op, None)
        alive = set(now)
        for op, (opcodes, fused) in now.items():
            if fused:
                result.fused.setdefault(op, by)
            if op in first and op not in result.changed and not opcodes & first[op][0]:
                result.changed[op] = by
    return result


def _look(module: Module) -> dict[str, tuple[set[str], bool]]:
    """Returns the opcodes of each op's instructions, and whether one of these is in a fusion."""
    places = enclosing_fusions(module)
    looks: dict[str, tuple[set[str], bool]] = {}
    for node in module.nodes():
        if node.opcode in TRIVIAL or not node.stamps:
            continue
        for path in node.stamps:
            opcodes, fused = looks.get(path[-1], (set(), False))
            opcodes.add(node.opcode)
            looks[path[-1]] = opcodes, fused or node.id in places
    return looks
