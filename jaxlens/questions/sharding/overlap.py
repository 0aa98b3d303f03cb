"""What a device computes while a collective travels: the kernels that XLA scheduled meanwhile.

They hide the traffic where they take as long. Only the compiled program is read: how long either
takes is an estimate, by the rates that the device's vendor publishes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import OptionError
from jaxlens.ir.facts import Limits
from jaxlens.ir.graph import Module
from jaxlens.program.kernel_cost import KernelCost, cost_by_instruction, points
from jaxlens.program.published_limits import published


@dataclass(frozen=True, slots=True)
class Overlap:
    """The kernels between the start of a collective and the instruction that waits for its end.

    Those of two collectives that travel at a time are in both.

    Attributes:
        collective: The instruction that starts it.
        kernels: Ids of the instructions between, in order; () if it is waited for at once.
        flops: Their flops in a run.
        bytes: Bytes of main memory that they move in a run; None where one is unknown.
        seconds: Their best possible time in a run; None if no rates of the device are published.
    """

    collective: str
    kernels: tuple[str, ...] = ()
    flops: int = 0
    bytes: int | None = 0
    seconds: float | None = None


def overlaps(capture: Capture, ends: Mapping[str, str]) -> tuple[Overlap, ...]:
    """Returns what runs beside each collective.

    Args:
        capture: A program whose optimised HLO is scheduled.
        ends: The instruction that waits for the end of each collective, by the one that starts it.
    """
    module = capture.optimized.module
    costs = cost_by_instruction(module, capture.program.target.platform)
    limits = rates(capture)
    return tuple(
        _overlap(start, [costs[id] for id in between if id in costs and id not in ends], limits)
        for start, between in _between(module, ends)
    )


def rates(capture: Capture) -> Limits | None:
    """Returns the published rates of the device; None if there are none."""
    try:
        return published(capture.program.target.kind)
    except OptionError:
        return None


def _overlap(start: str, costs: Sequence[KernelCost], limits: Limits | None) -> Overlap:
    work = [cost for cost in costs if not cost.travels and (cost.flops or cost.bytes)]
    moved = [cost.bytes for cost in work]
    return Overlap(
        start,
        tuple(cost.instruction for cost in work),
        sum(cost.flops for cost in work),
        None if None in moved else sum(size or 0 for size in moved),
        sum(point.seconds for point in points(work, limits)) if limits else None,
    )


def _between(module: Module, ends: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yields the collectives, and the instructions between their ends that make arrays."""
    for region in module.regions.values():
        order = [node.id for node in region.nodes]
        arrays = {node.id for node in region.nodes if node.type.shape or node.type.parts}
        places = {id: place for place, id in enumerate(order)}
        for start in order:
            if start in ends:
                between = order[places[start] + 1 : places.get(ends[start], 0)]
                yield start, [id for id in between if id in arrays]
