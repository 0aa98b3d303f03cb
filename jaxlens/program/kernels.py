"""The kernels of the optimised program, with their instructions, source lines and bytes.

Bytes are counted by `ir/hlo/traffic.py`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import Kernel
from jaxlens.ir.graph import Module, Node, Region, Span
from jaxlens.ir.hlo.async_fusions import async_fusion
from jaxlens.ir.hlo.instructions import PLUMBING
from jaxlens.ir.hlo.traffic import Traffic
from jaxlens.ir.trips import CONTROL, trips
from jaxlens.program.sentences import fusion_kind, lines_of, listed, opcodes
from jaxlens.report import count

_LOSING = ("dot", "convolution", "custom-call")  # XLA rewrites these and keeps no metadata
_LOOPS = {"while": "loop"}
_PLURALS = {"copy": "copies"}


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel and the instructions it computes.

    Attributes:
        kernel: The kernel.
        node: Its instruction in the optimised program; None where unknown.
        inside: Instructions that it computes, without parameters.
        read: Bytes that one execution reads, in all memories; None where the size of an operand is
            unknown, and for a loop, branch or call, whose body reads and writes.
        written: Bytes that it writes; None likewise.
        place: The loop, branch or call around it: "in while.6, 128 trips"; "" in the entry.
        linked: Source lines known from its neighbours, if XLA kept no line of its own.
    """

    kernel: Kernel
    node: Node | None
    inside: tuple[Node, ...]
    read: int | None
    written: int | None
    place: str = ""
    linked: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Its kind; of what the runtime does itself, the opcode."""
        opcode = self.node.opcode if self.node and self.kernel.kind == "thunk" else ""
        return _LOOPS.get(opcode, opcode) or self.kernel.kind

    @property
    def lines(self) -> list[str]:
        """Source lines that it came from."""
        return lines_of(self.inside) or list(self.linked)

    @property
    def moved(self) -> int | None:
        """Bytes read and written; None where either is unknown."""
        if self.read is None or self.written is None:
            return None
        return self.read + self.written


def works(capture: Capture) -> list[Work]:
    """Returns the kernels with their instructions, in the capture's order.

    Raises:
        UnavailableError: The backend provides no optimised HLO or no kernels.
    """
    module = capture.optimized.module
    around = places(module)
    traffic = Traffic(module)
    nodes = traffic.nodes
    kernels = []
    for kernel in capture.kernels:
        node = nodes.get(kernel.instruction)
        if node is None:
            kernels.append(Work(kernel, None, (), None, None))
            continue
        moved = traffic.moved(node)
        sides = (moved.read, moved.written) if node.opcode not in CONTROL else (None, None)
        read, written = (None if side is None else sum(side.values()) for side in sides)
        place = around.get(node.id, "")
        parts = inside(node, module)
        kernels.append(
            Work(kernel, node, parts, read, written, place, _linked(capture, node, parts))
        )
    return kernels


def _linked(capture: Capture, node: Node, parts: tuple[Node, ...]) -> tuple[str, ...]:
    """Returns the lines of a computing kernel that lost its own, as rewritten dots do."""
    if any(part.owner for part in parts) or not any(part.opcode in _LOSING for part in parts):
        return ()
    return linked_lines(capture, node.id)


def linked_lines(capture: Capture, instruction: str) -> tuple[str, ...]:
    """Returns the source lines that an instruction without metadata has by links."""
    try:
        return capture.links.back(instruction, "source", "optimized")
    except LensError:
        return ()


def linked_span(capture: Capture, node: Node | None) -> Span | None:
    """Returns the user's line of an instruction, or of the equations that it came from."""
    if node is None:
        return None
    nodes = [node, *reversed(inside(node, capture.optimized.module))]
    with suppress(LensError):
        ids = capture.links.back(node.id, "jaxpr", "optimized")
        nodes += [eqn for eqn in capture.jaxpr.module.nodes() if eqn.id in ids]
    spans = [node.owner for node in nodes if node.owner is not None]
    return min(spans, key=lambda span: span.library, default=None)


def places(module: Module) -> dict[str, str]:
    """Returns the loop, branch or call around each instruction outside of the entry."""
    by_id: dict[str, str] = {}
    by_region = {module.entry: ""}
    for name, region in module.regions.items():  # callers come before callees
        if name not in by_region:
            continue
        for node in region.nodes:
            if by_region[name]:
                by_id[node.id] = by_region[name]
            if node.opcode not in CONTROL:
                continue
            place = f"in {node.id}"
            if node.opcode == "async-start":  # its computation runs as often as it does
                place = by_region[name]
            elif node.opcode == "while":
                times = trips(node, region, module)
                place += f", {'trips unknown' if times is None else count(times, 'trip')}"
            for inner in node.regions:
                by_region.setdefault(inner, place)
    return by_id


def fused(node: Node, module: Module) -> Iterator[Region]:
    """Yields the computations of a fusion and of the fusions in it; else none."""
    pending = list(node.regions) if node.opcode == "fusion" else []
    for name in pending:
        if name in module.regions:
            region = module.regions[name]
            yield region
            for inner in region.nodes:
                if inner.opcode == "fusion":
                    pending += inner.regions


def inside(node: Node, module: Module) -> tuple[Node, ...]:
    """Returns what a fusion computes; for any other instruction, the instruction itself."""
    if node.opcode != "fusion":
        return (node,)
    part = async_fusion(node, module)
    foreign = part.foreign if part else ()
    return tuple(
        inner
        for region in fused(node, module)
        for inner in region.nodes
        if inner.opcode not in ("fusion", "parameter") and inner.id not in foreign
    )


def tally(kinds: Iterable[str]) -> str:
    """Returns a sentence such as `It runs as 2 kernels and 1 library call.`"""
    numbers = tallied(kinds)
    return f"It runs as {numbers}." if numbers else "It has no kernels."


def tallied(kinds: Iterable[str]) -> str:
    """Returns `2 kernels, 1 library call and 4 copies`; "" for none."""
    counts = Counter(kinds)
    order = dict.fromkeys(["kernel", "library call", *sorted(counts)])
    names = [(kind, counts[kind]) for kind in order if counts[kind]]
    return listed([count(n, kind, _PLURALS.get(kind, "")) for kind, n in names], 5)


def what(work: Work) -> str:
    """Returns what a kernel computes, as opcodes."""
    if work.node is None:
        return work.kernel.note
    names = opcodes(work.inside)
    kind = fusion_kind(work.node) if work.node.opcode == "fusion" else ""
    return f"{names} ({kind})" if kind.startswith("custom") else names


def joins(node: Node, module: Module) -> tuple[Node, ...]:
    """Returns the fused operations, without parameters, constants, tuples and bitcasts."""
    return tuple(inner for inner in inside(node, module) if inner.opcode not in PLUMBING)
