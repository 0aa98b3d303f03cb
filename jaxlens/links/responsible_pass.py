"""Which pass ended, fused or changed an op: the first dump that shows it.

Exact ids are read in every dump, so nothing is guessed; but only passes that changed something
are dumped, and a dump that opens a pipeline shows the work of passes before it: then the words
name an interval.
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
    """A pass in words, and the index of its dump; None for what came after the last one."""

    words: str
    index: int | None


@dataclass(frozen=True, slots=True)
class Blame:
    """By op: who ended it, who put it into a fusion, who left none of its own opcodes."""

    ended: dict[str, By] = field(default_factory=dict)
    fused: dict[str, By] = field(default_factory=dict)
    changed: dict[str, By] = field(default_factory=dict)


def blame(passes: Sequence[PassStage], last: Module) -> Blame:
    """Reads every dump that changed something, in time linear in their length.

    Args:
        passes: The dumps in order, the first being HLO before optimisation.
        last: The optimised program.
    """
    result = Blame()
    if not passes:
        return result
    first = _look(passes[0].stage.module)
    alive = set(first)
    for module, words, index in dumps(passes[1:], last, passes[0]):
        by, now = By(words, index), _look(module)
        for op in alive - now.keys():
            result.ended[op] = by
        for op in now.keys() - alive:  # its name was gone for a while
            result.ended.pop(op, None)
        alive = set(now)
        for op, (opcodes, fused) in now.items():
            if fused:
                result.fused.setdefault(op, by)
            if op in first and op not in result.changed and not opcodes & first[op][0]:
                result.changed[op] = by
    return result


def _look(module: Module) -> dict[str, tuple[set[str], bool]]:
    """The opcodes of the instructions that carry each op, and whether one is in a fusion."""
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
