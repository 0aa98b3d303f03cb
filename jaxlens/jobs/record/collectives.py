"""The collectives of a recorded program, and whether those of two programs fit each other."""

from collections.abc import Callable, Sequence
from itertools import zip_longest

from jaxlens.errors import LensError
from jaxlens.ir.facts import Stage
from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.shardings import COLLECTIVES, groups
from jaxlens.ir.record import RecordedCompile
from jaxlens.program.sentences import listed

StageOf = Callable[[str, str], Stage | None]
"""Gives the stage of a program, by the program's name and the stage's; None if it is not there."""

_FEW = 3  # types of a tuple that are named


def collectives(
    compile: RecordedCompile | None, stage_of: StageOf
) -> list[tuple[Module, Node]] | None:
    """Returns the collectives of a program, none of no program; None if it is not known."""
    if compile is None:
        return []
    stage = stage_of(compile.program, "optimized") if compile.program else None
    if stage is None:
        return None
    try:
        module = stage.module
        return [(module, node) for node in module.nodes() if _is_collective(node)]
    except LensError:
        return None


def _is_collective(node: Node) -> bool:
    return node.opcode.removesuffix("-start") in COLLECTIVES


def unfit(
    first: RecordedCompile | None,
    second: RecordedCompile | None,
    names: tuple[str, str],
    stage_of: StageOf,
) -> str | None:
    """Returns the first collectives of two programs that do not fit each other; "" for none.

    None if they are not known, or a loop or branch runs some of them.
    """
    left, right = collectives(first, stage_of), collectives(second, stage_of)
    if left is None or right is None:
        return None
    here, there = (c.devices if c else () for c in (first, second))
    for a, b in zip_longest(left, right):
        if a is None or b is None or _fits(a, here) != _fits(b, there):
            rows = zip((a, b), names, strict=True)
            return " and ".join(f"{_named(*pair)} in {name}" for pair, name in rows if pair)
    is_once = (any(n.id == node.id for n in m.body().nodes) for m, node in (*left, *right))
    return "" if all(is_once) else None


def _fits(collective: tuple[Module, Node], devices: Sequence[int]) -> tuple[object, ...]:
    """Returns what must be equal in all processes; groups as devices, as notations differ."""
    module, node = collective
    texts = [node.attrs.get(name, "") for name in ("replica_groups", "source_target_pairs")]
    ids = dict(enumerate(devices))  # by the number in the program; none in older records
    meant = [
        [[ids.get(n, n) for n in group] for group in groups(text, len(devices)) or ()] or text
        for text in texts
    ]
    return node.opcode, node.type, *meant, _reduction(module, node)


def _reduction(module: Module, node: Node) -> str:
    """Returns the opcode that an all-reduce combines with: "add"; "" for other collectives."""
    bodies = [module.regions[name] for name in node.regions if name in module.regions]
    return bodies[0].nodes[-1].opcode if bodies and bodies[0].nodes else ""


def _named(module: Module, node: Node) -> str:
    parts = [*map(str, node.type.parts)]  # of a tuple
    kind = f"({listed(parts, _FEW)})" if len(parts) > _FEW else str(node.type)
    reduction = _reduction(module, node)
    by = f" by {reduction}" if reduction else ""
    return f"{node.id} {kind}{by}" + (f" ({node.owner})" if node.owner else "")
