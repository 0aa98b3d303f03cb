"""The kernels of the optimised program, with their instructions, source lines and bytes.

Bytes are counted by `traffic.py`: each operand once and the result once; of an operand that is only
sliced, the slices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.facts import Kernel
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.lenses.program.traffic import Traffic
from jaxlens.lenses.program.trip_counts import trips
from jaxlens.lenses.sentences import fusion_kind, lines_of, listed, opcodes
from jaxlens.lenses.subject import Seen
from jaxlens.report import Cell, Finding, Overlay, Report, Table, amount, count

_CONTROL = frozenset({"while", "conditional", "call", "async-start"})


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel and the instructions it computes.

    Attributes:
        kernel: The kernel.
        node: Its instruction in the optimised program; None where unknown.
        inside: Instructions that it computes, without parameters.
        read: Bytes that it reads; None where the size of an operand is unknown.
        written: Bytes that it writes; None where the size of its result is unknown.
        place: The loop, branch or call around it: "in while.6, 128 trips"; "" in the entry.
    """

    kernel: Kernel
    node: Node | None
    inside: tuple[Node, ...]
    read: int | None
    written: int | None
    place: str = ""

    @property
    def lines(self) -> list[str]:
        """Source lines that it came from."""
        return lines_of(self.inside)

    @property
    def moved(self) -> int | None:
        """Bytes read and written; None where either is unknown."""
        if self.read is None or self.written is None:
            return None
        return self.read + self.written


def kernels(capture: Seen) -> Report:
    """Reports every kernel, in program order.

    Raises:
        UnavailableError: The backend provides no optimised HLO or no kernels.
    """
    done = works(capture)
    moved = {work.node.id: float(work.moved or 0) for work in done if work.node}
    overlay = Overlay("bytes in and out (B)", "optimized", moved)
    return Report("Kernels", (Finding(tally(done)),), (table(done),), (overlay,))


def works(capture: Seen) -> list[Work]:
    """Returns the kernels with their instructions, in the capture's order."""
    module = capture.optimized.module
    where = places(module)
    traffic = Traffic(module)
    return [_work(kernel, traffic, where) for kernel in capture.kernels]


def places(module: Module) -> dict[str, str]:
    """Returns the loop, branch or call around each instruction outside of the entry."""
    found: dict[str, str] = {}
    words = {module.entry: ""}
    for name, region in module.regions.items():  # callers come before callees
        if name not in words:
            continue
        for node in region.nodes:
            if words[name]:
                found[node.id] = words[name]
            if node.opcode in _CONTROL:
                # An async computation runs as often as its async-start.
                place = (
                    words[name] if node.opcode == "async-start" else _place(node, region, module)
                )
                for inner in node.regions:
                    words.setdefault(inner, place)
    return found


def _place(node: Node, region: Region, module: Module) -> str:
    if node.opcode == "while":
        often = trips(node, region, module)
        return f"in {node.id}, {'trips unknown' if often is None else count(often, 'trip')}"
    return f"in {node.id}"


def _work(
    kernel: Kernel,
    traffic: Traffic,
    where: Mapping[str, str],
) -> Work:
    nodes = traffic.nodes
    node = nodes.get(kernel.instruction)
    if node is None:
        return Work(kernel, None, (), None, None)
    read: int | None
    written: int | None
    read, written = traffic.moved(node)
    if any(nodes[name].type.bytes is None for name in node.operands if name in nodes):
        read = None
    if node.type.bytes is None:
        written = None
    place = where.get(node.id, "")
    return Work(kernel, node, inside(node, traffic.module), read, written, place)


def inside(node: Node, module: Module) -> tuple[Node, ...]:
    """Returns the instructions of a fusion; for any other instruction, the instruction itself."""
    if node.opcode != "fusion":
        return (node,)
    found: list[Node] = []
    pending = list(node.regions)
    for name in pending:
        for inner in module.regions[name].nodes if name in module.regions else ():
            if inner.opcode == "fusion":
                pending += inner.regions
            elif inner.opcode != "parameter":
                found.append(inner)
    return tuple(found)


def tally(done: Iterable[Work]) -> str:
    """Returns a sentence such as `It runs as 2 kernels and 1 library call.`"""
    counts = Counter[str](work.kernel.kind for work in done)
    kinds = ("kernel", "library call", "thunk")
    words = [count(counts[kind], kind) for kind in kinds if counts[kind]]
    return f"It runs as {listed(words)}." if words else "It has no kernels."


def table(done: Sequence[Work]) -> Table:
    """Returns a table with a row per kernel."""
    read = max((work.read or 0 for work in done), default=0) or 1
    written = max((work.written or 0 for work in done), default=0) or 1
    placed = any(work.place for work in done)
    launched = any(work.kernel.launch for work in done)
    rows = tuple(
        (
            Cell(work.kernel.name, ids=(work.kernel.name,)),
            Cell(work.kernel.kind),
            Cell(what(work)),
            Cell(listed(work.lines)),
            *([Cell(work.place)] if placed else []),
            *([Cell(work.kernel.launch)] if launched else []),
            Cell(amount(work.read), work.read, bar=(work.read or 0) / read),
            Cell(amount(work.written), work.written, bar=(work.written or 0) / written),
        )
        for work in done
    )
    note = "Bytes: what is read of each operand, and what is written, once."
    where = (*(["where"] if placed else []), *(["launch"] if launched else []))
    columns = ("kernel", "kind", "what it fused", "from lines", *where, "read", "written")
    right = (len(columns) - 2, len(columns) - 1)
    return Table("Kernels", columns, rows, note, right=right, stage="kernels")


def what(work: Work) -> str:
    """Returns what a kernel computes, as opcodes."""
    if work.node is None:
        return work.kernel.note
    words = opcodes(work.inside)
    kind = fusion_kind(work.node) if work.node.opcode == "fusion" else ""
    return f"{words} ({kind})" if kind.startswith("custom") else words
