"""The bodies of an equation that are executed, and the operands of their parameters.

Nearly all are. Of the four jaxprs of a `custom_linear_solve` only `solve` is lowered; the others
serve its derivatives. A file of its own, since lenses and links both need it and it knows nothing
of the reader.
"""

import re

from jaxlens.ir.graph import Node

_PARTS = ("matvec", "vecmat", "solve", "transpose_solve")  # in the order of JAX's named tuple
_COUNT = re.compile(r"\b(\w+)=(\d+)")


def running(node: Node) -> tuple[str, ...]:
    """Names of the bodies that an equation executes."""
    if node.opcode != "custom_linear_solve":
        return node.regions
    text = node.attrs.get("jaxprs", "")
    absent = [part for part in _PARTS if f"{part}=None" in text]
    parts = [part for part in _PARTS if part not in absent]
    if len(parts) != len(node.regions):
        return node.regions
    return (node.regions[parts.index("solve")],)


def operand(node: Node, index: int, parameters: int) -> int:
    """Index of the operand of an executed body's parameter, negative, counted from the end.

    Args:
        node: The equation.
        index: Index of the parameter.
        parameters: Number of parameters of the body.
    """
    if node.opcode == "custom_linear_solve":
        counts = {part: int(n) for part, n in _COUNT.findall(node.attrs.get("const_lengths", ""))}
        if index < counts.get("solve", 0):
            return index + counts.get("matvec", 0) + counts.get("vecmat", 0) - len(node.operands)
    return index - parameters
