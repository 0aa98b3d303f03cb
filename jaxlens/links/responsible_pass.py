"""The passes that removed, fused or rewrote each op, from the first dump that shows it.

The stamps in each dump identify the ops. XLA dumps only passes that changed the module, and the
dump at the start of a pipeline shows the changes of passes before it: then an interval is named.
"""

from collections.abc import Sequence
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
    first = _look(passes[0].stage.module, seen)
    alive = set(first)
    for module, name, index in dumps(passes[1:], last, passes[0]):
        by, now = By(name, index), _look(module, seen)
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


_Look = tuple[frozenset[str], bool]
"""The opcodes of an op's instructions, and whether one of these is in a fusion."""


@dataclass(frozen=True, slots=True)
class _Ops:
    """The ops of one computation, which consecutive dumps share.

    Attributes:
        nodes: Its instructions, kept alive so that their id is unique.
        opcodes: The opcodes of each op's instructions.
        fusions: The computations that its fusions call.
    """

    nodes: Sequence[Node]
    opcodes: dict[str, frozenset[str]]
    fusions: tuple[str, ...]


def _look(module: Module, seen: dict[int, _Ops]) -> dict[str, _Look]:
    """Returns the opcodes of each op's instructions, and whether one of these is in a fusion."""
    fused: set[str] = set()
    looks: dict[str, _Look] = {}
    for name, region in module.regions.items():  # callers come before callees
        ops = seen.get(id(region.nodes))
        if ops is None:
            ops = seen[id(region.nodes)] = _ops(region.nodes)
        fused.update(ops.fusions)
        inside = name in fused
        for op, opcodes in ops.opcodes.items():
            look = looks.get(op)
            looks[op] = (look[0] | opcodes, look[1] or inside) if look else (opcodes, inside)
    return looks


def _ops(nodes: Sequence[Node]) -> _Ops:
    opcodes: dict[str, frozenset[str]] = {}
    fusions: dict[str, None] = {}
    alone: dict[str, frozenset[str]] = {}
    for node in nodes:
        opcode = node.opcode
        if opcode == "fusion":
            fusions.update(dict.fromkeys(node.regions))
        if opcode in TRIVIAL:
            continue
        for path in node.stamps:
            own = alone.get(opcode) or alone.setdefault(opcode, frozenset((opcode,)))
            known = opcodes.get(path[-1])
            opcodes[path[-1]] = own if known is None else known | own
    return _Ops(nodes, opcodes, tuple(fusions))
