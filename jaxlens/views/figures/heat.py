"""What the boxes of the optimised program can be shaded by: flops, bytes, and seconds if known.

The figures are those of the table of kernels. A loop or a branch has the sum of its bodies, and a
fold that of its instructions; a box without any costs nothing, or it is not known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.trips import CONTROL
from jaxlens.program.kernel_cost import KernelCost
from jaxlens.render.graph.figure import Box
from jaxlens.report import amount, duration


@dataclass(frozen=True)
class Heat:
    """Figures of the instructions of a module.

    Attributes:
        module: The module.
        costs: Flops and bytes, by instruction.
        seconds: Seconds, by instruction; None where nothing was measured and no limit is known.
        limits: The device by whose published limits they are the least; "" for measured ones.
    """

    module: Module
    costs: Mapping[str, KernelCost]
    seconds: Mapping[str, float] | None = None
    limits: str = ""

    @property
    def measures(self) -> Mapping[str, Callable[[float], str]]:
        """The names of the figures, each with what writes it."""
        timed = f"least time on {self.limits}" if self.limits else "time in a run"
        known = {timed: duration} if self.seconds else {}
        return {"flops": partial(amount, unit="flop"), "bytes": amount, **known}

    def figures(self, box: Box) -> tuple[float | None, ...]:
        """Returns the figures of a box, in the order of the measures."""
        ids = box.nodes or (box.id,)
        flops = self._sum(ids, lambda id: self.costs[id].flops if id in self.costs else None)
        moved = self._sum(ids, lambda id: self.costs[id].bytes if id in self.costs else None)
        if self.seconds is None:
            return flops, moved
        return flops, moved, self._sum(ids, self.seconds.get)

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        return {node.id: node for node in self.module.nodes()}

    def _sum(self, ids: Iterable[str], known: Callable[[str], float | None]) -> float | None:
        """Adds up a figure; what has none of its own has that of its bodies."""
        total, pending = 0.0, list(ids)
        for id in pending:
            if (own := known(id)) is not None:
                total += own
            elif (node := self._nodes.get(id)) and node.opcode in CONTROL:
                bodies = (self.module.regions[name] for name in node.regions)
                pending += (inner.id for body in bodies for inner in body.nodes)
        return total or None
