"""Asynchronous HLO instructions: pairs of a `-start` and a `-done`.

The value of a `-start` is a tuple of its operands, its results and the runtime's context; the
`-done` returns the results. The bytes are attributed to the `-start`; the `-done` moves none.
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
"""Collectives, by which devices exchange data; each also exists with the suffix "-start"."""
_WRITTEN = {"copy-start": 0, "collective-permute-start": 1, "all-gather-start": -1}
"""Index of the result in the tuple of a `-start`."""


def idle(node: Node) -> bool:
    """Whether an instruction is one of `ENDS`, or a custom call that only allocates a buffer."""
    return node.opcode in ENDS or "AllocateBuffer" in node.attrs.get("custom_call_target", "")


def written(node: Node) -> Type:
    """Returns the type of what an instruction writes; for a `-start`, the type of its result."""
    part = _WRITTEN.get(node.opcode)
    parts = node.type.parts
    return node.type if part is None or not parts else parts[part]
