"""Libtpu's fusions of an asynchronous collective, which together are one instruction.

Each has the collective in it, and hands its operand and its result on to the next:

    start:  custom-call(all-gather(x)), target "AsyncCollectiveStart"
    beside: tuple(computed, x, result, all-gather(x), flags ...)
    done:   custom-call(x, result, all-gather(x), flags ...), target "AsyncCollectiveDone"

What the collective does counts at the start, as of a "-start" and a "-done" (`instructions.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.instructions import EXCHANGES, idle

START, DONE = "AsyncCollectiveStart", "AsyncCollectiveDone"


@dataclass(frozen=True, slots=True)
class AsyncFusion:
    """A fusion of an asynchronous collective.

    Attributes:
        part: What it does.
        foreign: Instructions of its computation that it does not compute.
        passed: Indices of the operands that it only hands on.
        handed: Operands of the fusion, by the index of the result that each is handed on as.
    """

    part: Literal["start", "beside", "done"]
    foreign: frozenset[str]
    passed: frozenset[int] = frozenset()
    handed: Mapping[int, str] = field(default_factory=dict)


def target(node: Node) -> str:
    """Returns the target of a custom call; "" for any other instruction."""
    if node.opcode != "custom-call":  # attributes are read from text on first use
        return ""
    return node.attrs.get("custom_call_target", "").strip('"')


def async_fusion(node: Node, module: Module) -> AsyncFusion | None:
    """Returns what a fusion does of an asynchronous collective; None if it is no part of one."""
    region = module.regions.get(node.regions[0]) if node.opcode == "fusion" else None
    sent = [n for n in region.nodes if n.opcode in EXCHANGES] if region else []
    if region is None or len(sent) != 1 or not region.results:
        return None
    root = next(n for n in region.nodes if n.id == region.results[0])
    operands = {v.name: name for v, name in zip(region.parameters, node.operands, strict=False)}
    ending = target(root)
    if ending == START:
        whole = operands.get(sent[0].operands[0], "")
        return AsyncFusion("start", frozenset({root.id}), handed={0: whole})
    if ending == DONE:
        return AsyncFusion("done", frozenset({root.id, sent[0].id}))
    moved = {sent[0].id, sent[0].operands[0]}
    if root.opcode != "tuple" or not moved <= {*root.operands} or not moved & operands.keys():
        return None
    handed = {n: operands[name] for n, name in enumerate(root.operands) if name in operands}
    buffer = root.operands.index(sent[0].id)  # beside the result that it fills
    handed[buffer] = handed.get(buffer - 1, "")
    computing = {name for n in region.nodes if n not in (root, sent[0]) for name in n.operands}
    names = [value.name for value in region.parameters]
    passed = frozenset(n for n, name in enumerate(names) if name not in computing)
    return AsyncFusion("beside", frozenset({sent[0].id}), passed, handed)


def waits(node: Node, module: Module) -> bool:
    """Whether an instruction only waits for an asynchronous one, or allocates a buffer."""
    part = async_fusion(node, module)
    return idle(node) or (part is not None and part.part == "done")
