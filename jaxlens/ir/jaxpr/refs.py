"""The primitives that read and write refs: arrays that a program changes in place."""

from jaxlens.ir.graph import Type

MAKES = frozenset({"new_ref", "empty_ref"})
"""Those whose result is a ref."""

WRITES = frozenset({"swap", "masked_swap", "addupdate"})
"""Those that write their first operand; the second is what is written."""

READS = frozenset({"get", "masked_load", "freeze", "swap", "masked_swap"})
"""Those whose result is what their first operand held."""

ON_REFS = MAKES | WRITES | READS | {"free_ref"}


def is_ref(kind: Type) -> bool:
    """Whether a type is that of a ref."""
    return kind.layout.startswith("Ref")
