"""The kernels of the optimised program: what each fused, from which source lines, bytes in and out.

Bytes are what a kernel reads of its operands and what it writes, each once, as `traffic.py` counts
them: of an operand that is only sliced, the slice.
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
        node: Its instruction in the optimised program; None where that is not known.
        inside: Instructions that it computes, parameters left out.
        read: Bytes that it reads; None where the size of an operand is unknown.
        written: Bytes that it writes; None where the size of its result is unknown.
        place: In words, where it runs other than once: "in while.6, 128 trips"; else "".
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
        """Bytes in and out."""
        if self.read is None or self.written is None:
            return None
        return self.read + self.written


def kernels(capture: Seen) -> Report:
    """Every kernel in the order of the program.

    Raises:
        UnavailableError: The backend gives no optimised HLO or no kernels.
    """
    done = works(capture)
    moved = {work.node.id: float(work.moved or 0) for work in done if work.node}
    overlay = Overlay("bytes in and out (B)", "optimized", moved)
    return Report("Kernels", (Finding(tally(done)),), (table(done),), (overlay,))


def works(capture: Seen) -> list[Work]:
    """Kernels joined with their instructions, in the capture's order."""
    module = capture.optimized.module
    where = places(module)
    traffic = Traffic(module)
    return [_work(kernel, traffic, where) for kernel in capture.kernels]


def places(module: Module) -> dict[str, str]:
    """For each instruction that does not run just once: in which loop, branch or call it stands."""
    found: dict[str, str] = {}
    words = {module.entry: ""}
    for name, region in module.regions.items():  # callers come before callees
        if name not in words:
            continue
        for node in region.nodes:
            if words[name]:
                found[node.id] = words[name]
            if node.opcode in _CONTROL:
                # What goes on beside other work runs as often as the instruction that starts it.
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
    """What an instruction computes: a fusion's own instructions, else the instruction itself."""
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
    """`It runs as 2 kernels and 1 library call.`"""
    counts = Counter[str](work.kernel.kind for work in done)
    kinds = ("kernel", "library call", "thunk")
    words = [count(counts[kind], kind) for kind in kinds if counts[kind]]
    return f"It runs as {listed(words)}." if words else "It has no kernels."


def table(done: Sequence[Work]) -> Table:
    """One row per kernel."""
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
    """What a kernel computes, in opcodes."""
    if work.node is None:
        return work.kernel.note
    words = opcodes(work.inside)
    kind = fusion_kind(work.node) if work.node.opcode == "fusion" else ""
    return f"{words} ({kind})" if kind.startswith("custom") else words
