"""What the boxes of the optimised program can be shaded by: flops, bytes, and seconds if known.

The figures are those of the table of kernels. A loop or a branch has the sum of its bodies, and a
fold that of its instructions; a box without any costs nothing, or it is not known.
"""

from collections.abc import Callable, Mapping

from jaxlens.ir.graph import Module
from jaxlens.ir.trips import CONTROL
from jaxlens.program.kernel_cost import KernelCost
from jaxlens.render.graph.figure import Box, Heat
from jaxlens.report import amount, duration
from jaxlens.views.figures.jaxpr import flop


def of_kernels(
    module: Module,
    costs: Mapping[str, KernelCost],
    seconds: Mapping[str, float] | None = None,
    limits: str = "",
) -> Heat:
    """Returns what boxes of instructions can be shaded by.

    Args:
        module: The optimised program.
        costs: Flops and bytes, by instruction.
        seconds: Seconds, by instruction; None where nothing was measured and no limit is known.
        limits: The device by whose published limits they are the least; "" for measured ones.
    """
    known: list[Mapping[str, float | None]] = [
        {id: None if c.unknown or c.open else c.flops for id, c in costs.items()},
        {id: None if c.open else c.bytes for id, c in costs.items()},
    ]
    measures: list[tuple[str, Callable[[float], str]]] = [("flops", flop), ("bytes", amount)]
    if seconds:
        known.append(seconds)
        measures.append((f"least time on {limits}" if limits else "time in a run", duration))
    nodes = {node.id: node for node in module.nodes()}

    def total(box: Box, own: Mapping[str, float | None]) -> float:
        """Adds up a figure, that of its bodies where a node has none; 0 where one is unknown."""
        pending, found = [*(box.nodes or (box.id,))], 0.0
        for id in pending:
            if id in own:
                if (figure := own[id]) is None:
                    return 0.0
                found += figure
            elif id in nodes and nodes[id].opcode in CONTROL:
                bodies = (module.regions[name].nodes for name in nodes[id].regions)
                pending += (node.id for body in bodies for node in body)
        return found

    return Heat(measures, lambda box: [total(box, own) for own in known])
