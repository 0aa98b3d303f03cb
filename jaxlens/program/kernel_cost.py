"""Flops and bytes of each kernel of the optimised program, multiplied by loop trip counts.

A kernel is an instruction that runs by itself: a fusion, a dot, a copy. Its bytes are those that it
reads and writes without any cache (`ir/hlo/traffic.py`), in each memory of the device: the roofline
and all sums are of the main memory, and a TPU's VMEM stands beside it.

It takes at least its flops divided by the device's flops per second, and at least its bytes divided
by the memory bandwidth. The larger of the two is its best possible time. It is an estimate, because
bytes that come from a cache can move faster.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Limits
from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.hlo.async_fusions import waits
from jaxlens.ir.hlo.flops import PRODUCTS, Done, done
from jaxlens.ir.hlo.instructions import EXCHANGES
from jaxlens.ir.hlo.library_products import library_product
from jaxlens.ir.hlo.memory_spaces import space_name
from jaxlens.ir.hlo.traffic import Moved, Sizes, Traffic
from jaxlens.ir.trips import CONTROL, RunCount, runs
from jaxlens.links.instruction_atoms import TRIVIAL
from jaxlens.program.kernels import fused, inside, linked_lines
from jaxlens.program.sentences import lines_of

_SILENT = TRIVIAL | CONTROL
Bound = Literal["memory", "compute", "unknown"]


@dataclass(frozen=True, slots=True)
class KernelCost:
    """The flops and bytes of one kernel in a run of the program.

    Attributes:
        name: The kernel's name, or its instruction's.
        instruction: The instruction in the optimised program.
        opcode: Its opcode: "fusion", "dot", "copy".
        lines: Source lines that it came from, that of its dot, convolution or root first.
        dtype: Element type of the operands of its dot or convolution, else of its result.
        product: Whether it contains a dot or a convolution, or a library computes one.
        once: Flops of one execution.
        flops: Flops of all executions.
        transcendentals: Exponentials and the like of all executions.
        read: Bytes that one execution reads of main memory; None where a size is unknown.
        written: Bytes that one execution writes to main memory; None where a size is unknown.
        runs: Number of executions, with one pass of each loop in `open`.
        open: The loops around it whose trips are unknown, by line; () for none.
        unknown: Number of its instructions that cannot be counted (custom calls).
        travels: Whether it is a collective.
        memories: Bytes that all executions read and write in each memory of the device that it
            uses, by name, the main memory first: {"HBM": 4096, "VMEM": 8704}.
    """

    name: str
    instruction: str
    opcode: str
    lines: tuple[str, ...]
    dtype: str
    product: bool
    once: int
    flops: int
    transcendentals: int
    read: int | None
    written: int | None
    runs: int
    open: tuple[str, ...]
    unknown: int
    travels: bool = False
    memories: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int | None:
        """Bytes of all executions in main memory; None where a size is unknown."""
        if self.read is None or self.written is None:
            return None
        return self.runs * (self.read + self.written)

    @property
    def uncounted(self) -> bool:
        """Whether all that it computes is in custom calls that cannot be counted."""
        return self.unknown > 0 and not self.flops

    @property
    def intensity(self) -> float | None:
        """Flops per byte; None without known bytes or flops."""
        return self.flops / self.bytes if self.bytes and not self.uncounted else None


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel on the roofline.

    Attributes:
        kernel: Its flops and bytes.
        bound: The limit that bounds it; "unknown" for collectives and custom calls.
        seconds: The best possible time of all its executions.
        measured: The measured time of all its executions; None where not measured.
    """

    kernel: KernelCost
    bound: Bound
    seconds: float
    measured: float | None = None

    @property
    def rate(self) -> float:
        """Flops per second in the measured time, or else in the best possible time."""
        seconds = self.measured or self.seconds
        return self.kernel.flops / seconds if seconds else 0.0


def kernel_costs(capture: Capture) -> tuple[KernelCost, ...]:
    """Returns the cost of every kernel, in program order.

    Raises:
        UnavailableError: The backend provides no optimised HLO.
    """
    costs = instruction_costs(capture.optimized.module, capture.program.target.platform)
    try:
        names = {kernel.instruction: kernel.name for kernel in capture.kernels}
    except UnavailableError:
        return costs
    return tuple(
        replace(
            cost,
            name=names.get(cost.name, cost.name),
            # XLA rewrites products without metadata.
            lines=cost.lines or (linked_lines(capture, cost.instruction) if cost.product else ()),
        )
        for cost in costs
    )


def memories_of(costs: Iterable[KernelCost]) -> Counter[str]:
    """Returns the bytes of all executions by memory, the main memory first."""
    sums = Counter[str]()
    for cost in costs:
        sums.update(cost.memories)
    return sums


def instruction_costs(module: Module, platform: str = "") -> tuple[KernelCost, ...]:
    """Returns the same from the optimised HLO alone, which is there while XLA generates code.

    A kernel has the name of its instruction.
    """
    costs, traffic = [], Traffic(module)
    for region, times in runs(module).items():
        nodes = module.regions[region].nodes
        types = {node.id: node.type for node in nodes}
        for node in nodes:
            if node.opcode not in _SILENT and not waits(node, module):
                costs.append(_cost(node, types, traffic, times, platform))
    return tuple(costs)


def cost_by_instruction(module: Module, platform: str = "") -> dict[str, KernelCost]:
    """Returns the costs by instruction; a call, which may be one kernel, has those of its body."""
    costs = {cost.instruction: cost for cost in instruction_costs(module, platform)}
    calls = [node for node in module.nodes() if node.opcode == "call"]
    for call in calls:
        reached = [name for name in call.regions if name in module.regions]
        for name in reached:
            inner = (n for node in module.regions[name].nodes for n in node.regions)
            reached += [n for n in inner if n in module.regions and n not in reached]
        nodes = [node for name in reached for node in module.regions[name].nodes]
        parts = [costs[node.id] for node in nodes if node.opcode != "call" and node.id in costs]
        if not parts:
            continue
        moved = [part.bytes for part in parts]
        costs[call.id] = replace(
            max(parts, key=lambda part: part.flops),
            name=call.id,
            instruction=call.id,
            opcode=call.opcode,
            lines=tuple(dict.fromkeys(line for part in parts for line in part.lines)),
            once=sum(part.flops for part in parts),
            flops=sum(part.flops for part in parts),
            transcendentals=sum(part.transcendentals for part in parts),
            read=None if None in moved else sum(n or 0 for n in moved),
            written=0,
            runs=1,
            open=tuple(dict.fromkeys(loop for part in parts for loop in part.open)),
            unknown=sum(part.unknown for part in parts),
            memories=memories_of(parts),
        )
    return costs


def _cost(
    node: Node,
    types: Mapping[str, Type],
    traffic: Traffic,
    runs: RunCount,
    platform: str,
) -> KernelCost:
    module = traffic.module
    instructions = inside(node, module)
    computed = {inner.id for inner in instructions}
    work = Done()
    product: tuple[Node, Mapping[str, Type]] | None = None
    for region in fused(node, module):
        types_inside = {inner.id: inner.type for inner in region.nodes}
        for inner in region.nodes:
            if inner.id in computed:
                work += done(inner, types_inside, module)
                if inner.opcode in PRODUCTS:
                    product = inner, types_inside
    if node.opcode != "fusion":
        work = done(node, types, module)
        is_product = node.opcode in PRODUCTS or library_product(node) is not None
        product = (node, types) if is_product else None
    moved = traffic.moved(node)
    main = product[0] if product else next(iter(reversed(instructions)), node)
    own = [str(main.owner)] if main.owner else []
    dtype = _dtype(product[1].get(product[0].operands[0])) if product else _dtype(node.type)
    return KernelCost(
        node.id,
        node.id,
        node.opcode,
        tuple(dict.fromkeys([*own, *lines_of(instructions)])),
        dtype,
        product is not None,
        work.flops,
        runs.times * work.flops,
        runs.times * work.transcendentals,
        _main(moved.read),
        _main(moved.written),
        runs.times,
        runs.open,
        work.unknown,
        any(inner.opcode.removesuffix("-start") in EXCHANGES for inner in instructions),
        _memories(moved, runs.times, platform),
    )


def _main(sizes: Sizes) -> int | None:
    return None if sizes is None else sizes.get(0, 0)


def _memories(moved: Moved, times: int, platform: str) -> Mapping[str, int]:
    """Returns the bytes of all executions by memory; {} where a size is unknown."""
    if moved.read is None or moved.written is None:
        return {}
    numbers = sorted({0, *moved.read, *moved.written})
    return {
        space_name(n, platform): times * (moved.read.get(n, 0) + moved.written.get(n, 0))
        for n in numbers
    }


def _dtype(type_: Type | None) -> str:
    while type_ is not None and type_.parts:
        type_ = type_.parts[0]
    return type_.dtype if type_ else ""


def points(
    kernels: Sequence[KernelCost], limits: Limits, seconds: Mapping[str, float] | None = None
) -> tuple[Point, ...]:
    """Returns the kernels on a roofline, by best possible time, longest first."""
    unordered = []
    for kernel in kernels:
        work = kernel.flops + kernel.transcendentals
        busy = work / limits.flops(kernel.dtype, kernel.product)
        moving = (kernel.bytes or 0) / limits.bandwidth
        bound: Bound = "compute" if busy > moving else "memory"
        if kernel.unknown or kernel.bytes is None or kernel.travels:
            bound = "unknown"
        took = seconds.get(kernel.instruction) if seconds else None
        unordered.append(Point(kernel, bound, max(busy, moving), took))
    return tuple(sorted(unordered, key=lambda point: (-point.seconds, point.kernel.instruction)))
