"""The kernels of the optimised program: what each fused, from which source lines, bytes in and out.

Bytes are the sizes of a kernel's operands and result, each counted once: what must move at least
when nothing is in a cache already. A slice of a large operand reads less.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jaxlens.ir.capture import Capture, Kernel
from jaxlens.ir.graph import Module, Node, Type
from jaxlens.lenses.fusion import kind_of, lines_of, listed, opcodes, operations
from jaxlens.lenses.report import Cell, Finding, Overlay, Report, Table, amount, count


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel and the instructions it computes.

    Attributes:
        kernel: The kernel.
        node: Its instruction in the optimised program; None where that is not known.
        inside: Instructions that it computes, parameters left out.
        read: Bytes of the operands; None where a size is unknown.
        written: Bytes of the result.
        place: Region that holds the instruction.
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


def kernels(capture: Capture) -> Report:
    """Every kernel in the order of the program.

    Raises:
        UnavailableError: The backend gives no optimised HLO or no kernels.
    """
    done = works(capture)
    module = capture.optimized.module
    read = {
        work.node.id: float((work.read or 0) + (work.written or 0)) for work in done if work.node
    }
    overlay = Overlay("bytes in and out (B)", "optimized", read)
    return Report("Kernels", (Finding(tally(done)),), (table(done, module),), (overlay,))


def works(capture: Capture) -> list[Work]:
    """Kernels joined with their instructions, in the order of the capture."""
    module = capture.optimized.module
    nodes = {node.id: (node, name) for name, r in module.regions.items() for node in r.nodes}
    types = {node.name: node.type for node in module.nodes()}
    return [_work(kernel, module, nodes, types) for kernel in capture.kernels]


def _work(
    kernel: Kernel,
    module: Module,
    nodes: Mapping[str, tuple[Node, str]],
    types: Mapping[str, Type],
) -> Work:
    if kernel.instruction not in nodes:
        return Work(kernel, None, (), None, None)
    node, place = nodes[kernel.instruction]
    read = 0
    for name in dict.fromkeys(node.operands):
        size = types[name].bytes if name in types else 0
        if size is None:
            return Work(kernel, node, inside(node, module), None, node.type.bytes, place)
        read += size
    return Work(kernel, node, inside(node, module), read, node.type.bytes, place)


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
    """`2 kernels and 1 library call.`"""
    counts = Counter(work.kernel.kind for work in done)
    words = [
        count(counts[kind], kind) for kind in ("kernel", "library call", "thunk") if counts[kind]
    ]
    return f"{listed(words) or 'No kernels'}."


def table(done: Iterable[Work], module: Module) -> Table:
    """One row per kernel."""
    done = list(done)
    most = max(((w.read or 0) + (w.written or 0) for w in done), default=0)
    rows = []
    for work in done:
        moved = None if work.read is None else work.read + (work.written or 0)
        where = "" if work.place in ("", module.entry) else f" in {work.place}"
        rows.append((
            Cell(work.kernel.name, ids=(work.kernel.instruction,)),
            Cell(work.kernel.kind),
            Cell(_what(work) + where),
            Cell(listed(work.lines)),
            Cell(amount(work.read), work.read),
            Cell(amount(work.written), work.written, bar=(moved or 0) / most if most else None),
        ))  # fmt: skip
    note = "Bytes: each operand and the result once. Kernels of a loop's body run once per trip."
    columns = ("kernel", "kind", "what it fused", "from lines", "read", "written")
    return Table("Kernels", columns, tuple(rows), note, right=(4, 5))


def _what(work: Work) -> str:
    if work.node is None:
        return work.kernel.note
    words = opcodes(work.inside)
    kind = kind_of(work.node) if work.node.opcode == "fusion" else ""
    return f"{words} ({kind})" if kind.startswith("custom") else words


def top(module: Module) -> list[str]:
    """Ids of what runs one by one in the optimised program."""
    return [node.id for node in operations(module)]
