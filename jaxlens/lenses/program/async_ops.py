"""What goes on beside other work: an instruction that starts it, and one that waits for its end.

A start's value in HLO is a bundle of what it reads, what it writes and what the runtime needs; its
end hands on what was written. So the start is what moves the bytes, and the end moves none.
"""

from jaxlens.ir.graph import Node, Type

ENDS = frozenset(
    "copy-done async-done async-update all-gather-done all-reduce-done collective-permute-done "
    "send-done".split()
)
EXCHANGES = frozenset(
    "all-reduce reduce-scatter all-gather all-to-all ragged-all-to-all collective-permute "
    "collective-broadcast".split()
)
"""By these devices exchange data, all at once or begun by "-start"."""
_WRITTEN = {"copy-start": 0, "collective-permute-start": 1, "all-gather-start": -1}
"""Which part of a start's value is what it writes."""


def idle(node: Node) -> bool:
    """Whether an instruction only waits for the end of something, or names room in memory."""
    return node.opcode in ENDS or "AllocateBuffer" in node.attrs.get("custom_call_target", "")


def written(node: Node) -> Type:
    """The type of what an instruction writes; of one that starts something, of what that will."""
    part = _WRITTEN.get(node.opcode)
    parts = node.type.parts
    return node.type if part is None or not parts else parts[part]
