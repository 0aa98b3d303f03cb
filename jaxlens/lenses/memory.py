"""Memory by arguments, outputs, temporaries and aliases, and what the largest temporaries are."""

from collections.abc import Callable, Iterator

from jaxlens.captures import Capture
from jaxlens.errors import ReadError, UnavailableError
from jaxlens.ir import buffers
from jaxlens.ir.buffers import Buffer, Buffers
from jaxlens.ir.facts import Memory
from jaxlens.lenses.kernels import inside
from jaxlens.lenses.report import Cell, Finding, Overlay, Report, Table, amount
from jaxlens.lenses.sentences import lines_of, listed

_MEANING = {
    "arguments": "inputs, there before the program starts",
    "outputs": "results, there after it ends",
    "temporaries": "scratch between kernels; values that live at different times share it",
    "aliases": "arguments whose memory holds results (donated); part of both sizes above",
    "code": "the machine code",
    "XLA's peak": "most in use at once by XLA's account, which can be wrong on CPU",
}
_MOST = 8


def memory(capture: Capture) -> Report:
    """Sizes, and the values that the temporaries' memory is for.

    Raises:
        UnavailableError: The backend gives no sizes.
    """
    sizes = capture.memory
    findings = [Finding(sentence(sizes), "xla")]
    tables = [size_table(sizes)]
    overlays: tuple[Overlay, ...] = ()
    try:
        assigned = buffers.read(capture.buffers)
        owners = _owners(capture)
    except (UnavailableError, ReadError) as why:
        findings.append(Finding(f"What the temporaries are is not known: {why}.", "unknown"))
    else:
        findings += _peak(assigned, owners)
        held = largest(assigned)
        if held:
            tables.append(_temporaries(held, owners))
            values = {b.instruction: float(b.size) for b in reversed(held)}
            overlays = (Overlay("temporary memory (B)", "optimized", values),)
    return Report("Memory", tuple(findings), tuple(tables), overlays)


def sentence(sizes: Memory) -> str:
    """The sizes in one sentence."""
    parts = [
        f"{name} {amount(size)}"
        for name, size in (
            ("arguments", sizes.arguments),
            ("outputs", sizes.outputs),
            ("temporaries", sizes.temporaries),
        )
    ]
    shared = f", of which {amount(sizes.aliases)} shared by donation" if sizes.aliases else ""
    return f"Memory: {', '.join(parts)}{shared}."


def size_table(sizes: Memory) -> Table:
    """One row per kind of memory; the bar shows its share."""
    values = {
        "arguments": sizes.arguments,
        "outputs": sizes.outputs,
        "temporaries": sizes.temporaries,
        "aliases": sizes.aliases,
        **({} if sizes.code is None else {"code": sizes.code}),
        **({} if sizes.peak is None else {"XLA's peak": sizes.peak}),
    }
    most = max((size or 0 for size in values.values()), default=0) or 1
    rows = tuple(
        (
            Cell(name),
            Cell(amount(size), size, bar=None if size is None else size / most),
            Cell(_wrong(sizes) if name == "XLA's peak" else _MEANING[name]),
        )
        for name, size in values.items()
    )
    note = "XLA's buffer assignment, per device."
    if sizes.note:
        note = f"{note} {sizes.note[:1].upper()}{sizes.note[1:]}."
    return Table("Memory", ("", "bytes", "what it is"), rows, note, right=(1,))


def _wrong(sizes: Memory) -> str:
    """What the peak is; buffers that live through the whole run bound it from below."""
    least = (sizes.arguments or 0) + (sizes.outputs or 0) - (sizes.aliases or 0)
    if sizes.peak is not None and sizes.peak < least:
        return f"XLA's own figure, and wrong: arguments and outputs alone are {amount(least)}"
    return _MEANING["XLA's peak"]


Lines = Callable[[str], list[str]]
"""Source lines of an instruction of the optimised program; of a fusion, of what it holds."""


def _owners(capture: Capture) -> Lines:
    """Looks instructions up; few are asked for."""
    module = capture.optimized.module
    nodes = {node.id: node for node in module.nodes()}

    def lines(id: str) -> list[str]:
        node = nodes.get(id)
        if node is None:
            return []
        return [str(node.owner)] if node.owner else lines_of(inside(node, module))

    return lines


def largest(assigned: Buffers, most: int = _MOST) -> list[Buffer]:
    """The largest temporaries, one for each instruction's value, largest first."""
    seen: dict[tuple[str, str], Buffer] = {}
    for allocation in assigned.allocations:
        if allocation.kind == "temporary":
            for buffer in allocation.buffers:
                seen.setdefault((buffer.instruction, buffer.index), buffer)
    return sorted(seen.values(), key=lambda b: (-b.size, b.number))[:most]


def _temporaries(held: list[Buffer], owners: Lines) -> Table:
    top = held[0].size or 1
    rows = tuple(
        (
            Cell(_name(buffer), ids=(buffer.instruction,)),
            Cell(str(buffer.type)),
            Cell(amount(buffer.size), buffer.size, bar=buffer.size / top),
            Cell(listed(owners(buffer.instruction))),
        )
        for buffer in held
    )
    note = "Values that are never needed at once can lie in the same place."
    columns = ("value", "type", "bytes", "from lines")
    return Table("Largest temporaries", columns, rows, note, right=(2,), stage="optimized")


def _name(buffer: Buffer) -> str:
    return f"{buffer.instruction}[{buffer.index}]" if buffer.index else buffer.instruction


def _peak(assigned: Buffers, owners: Lines) -> Iterator[Finding]:
    """Where the temporaries need most, and for what."""
    found = buffers.peak(assigned)
    if found is None:
        return
    words = []
    for buffer in found.buffers[:3]:
        lines = owners(buffer.instruction)
        words.append(f"{_name(buffer)} {buffer.type}{f' ({lines[0]})' if lines else ''}")
    yield Finding(
        f"The temporaries need most, {amount(found.bytes)} of the {amount(found.reserved)} "
        f"reserved, when {found.instruction or 'an unknown instruction'} runs: "
        f"{listed(words)}.",
        "counted",
        (found.instruction, *(b.instruction for b in found.buffers)),
    )
