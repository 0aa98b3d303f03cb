"""Tables of the memory report: values at the peak, sizes by kind, and residuals."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from jaxlens.ir.facts import Memory
from jaxlens.program.sentences import Quoter, listed
from jaxlens.questions.memory.peak import MemoryUse, Owned, Space
from jaxlens.questions.memory.residuals import Residual
from jaxlens.report import Cell, Table, amount, barred, cells, count, share, tally

Value = TypeVar("Value", Owned, Residual)

_MEANING = {
    "arguments": "inputs, there before the program starts",
    "outputs": "results, there after it ends",
    "temporaries": "scratch between kernels; values that live at different times share it",
    "aliases": "arguments whose memory holds results (donated); part of both sizes above",
    "code": "the machine code",
    "XLA's peak": "most in use at once by XLA's account",
}
_ROWS = 12


def size_table(sizes: Memory, platform: str) -> Table:
    """Returns a table of XLA's sizes, with a row per kind."""
    least = (sizes.arguments or 0) + (sizes.outputs or 0) - (sizes.aliases or 0)
    meaning = dict(_MEANING)
    if platform == "cpu":
        meaning["XLA's peak"] += ", which can be wrong on CPU"
    if sizes.peak is not None and sizes.peak < least:
        wrong = f"XLA's own figure, and wrong: arguments and outputs alone are {amount(least)}"
        meaning["XLA's peak"] = wrong
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
            Cell(meaning[name]),
        )
        for name, size in values.items()
    )
    note = "XLA's buffer assignment, per device."
    if sizes.note:
        note = f"{note} {sizes.note[:1].upper()}{sizes.note[1:]}."
    return Table("Memory", ("", "bytes", "what it is"), rows, note, right=(1,))


def space_table(use: MemoryUse) -> Table:
    """Returns a table of the device's memories; without rows where only main memory is used."""
    columns = ("memory", "peak", "reserved", "when", "values at its peak")
    if not use.spaces:
        return Table("Memory spaces", columns, ())
    spaces: list[tuple[str, tuple[str, ...], MemoryUse | Space]] = [(use.memory, (), use)]
    spaces += [(s.name, tuple(v.instruction for v in s.at_peak), s) for s in use.spaces]
    rows = tuple(
        (
            Cell(name, ids=ids),
            Cell(amount(space.peak), space.peak),
            Cell(amount(space.reserved), space.reserved),
            *cells(space.instruction, types(space.at_peak)),
        )
        for name, ids, space in spaces
    )
    note = "Each memory has its own peak; the other tables are of the first."
    shown = barred(rows, (1, 2))
    return Table("Memory spaces", columns, shown, note, right=(1, 2), stage="optimized")


def by_owner(
    values: Iterable[Value], owner: Callable[[Value], str]
) -> list[tuple[str, list[Value], int]]:
    """Returns the owners of values, each with its values and their bytes, largest first."""
    groups: defaultdict[str, list[Value]] = defaultdict(list)
    for value in values:
        groups[owner(value)].append(value)
    sums = [(name, group, sum(v.bytes or 0 for v in group)) for name, group in groups.items()]
    return sorted(sums, key=lambda row: -row[2])


def by_line(use: MemoryUse, quote: Quoter) -> Table:
    """Returns a table of the values at the peak by owner."""

    def owner(value: Owned) -> str:
        if value.kind == "argument":
            return "arguments"
        return "constants" if value.kind == "constant" and not value.line else value.line

    owners = by_owner(use.at_peak, owner)
    top = max((size for _, _, size in owners), default=0) or 1
    rows = tuple(
        (
            Cell(name or "no line", ids=tuple(value.instruction for value in values)),
            Cell(quote(next((value.span for value in values if value.span), None))),
            Cell(amount(size), size, bar=size / top),
            Cell(share(size, use.peak), size / (use.peak or 1)),
            *cells(types(values), _marks(values)),
        )
        for name, values, size in owners[:_ROWS]
    )
    left = len(owners) - len(rows)
    note = f"Every byte in use {use.moment or 'when it runs'}."
    note += f" {count(left, 'line')} more: .by_line has all." if left else ""
    columns = ("line", "code", "bytes", "share", "values", "what they are")
    title = "Memory at the peak, by line"
    return Table(title, columns, rows, note, right=(2, 3), stage="optimized")


def _marks(values: Sequence[Owned]) -> str:
    """Returns what the values of a line are, with shares: residuals, stacked values, results."""
    size = sum(value.bytes for value in values) or 1
    marks = {
        "saved for the backward pass": sum(v.bytes for v in values if v.saved),
        "stacked by a loop": sum(v.bytes for v in values if v.stacked and not v.saved),
        "scratch memory of a library": sum(v.bytes for v in values if v.scratch),
        "results": sum(v.bytes for v in values if v.kind == "result"),
    }
    return ", ".join(
        name if part > 0.95 * size else f"{part / size:.0%} {name}"
        for name, part in marks.items()
        if part > 0.05 * size
    )


def buffer_table(use: MemoryUse) -> Table:
    """Returns a table of the buffers at the peak."""
    shown = use.at_peak[:_ROWS]
    top = max((value.bytes for value in shown), default=0) or 1
    rows = tuple(
        (
            Cell(value.name, ids=tuple(dict.fromkeys((value.instruction, value.name)))),
            Cell(value.type),
            Cell(amount(value.bytes), value.bytes, bar=value.bytes / top),
            *cells(value.kind, value.line, _marks([value]) if value.kind == "temporary" else ""),
        )
        for value in shown
    )
    left = len(use.at_peak) - len(shown)
    note = f"{left:,} smaller ones: .at_peak has all." if left else ""
    columns = ("value", "type", "bytes", "kind", "made by line", "what it is")
    return Table("Buffers at the peak", columns, rows, note, right=(2,), stage="optimized")


def residual_table(residuals: Sequence[Residual], quote: Quoter) -> Table:
    """Returns a table of the residuals by line."""
    owners = by_owner(residuals, lambda residual: residual.line)
    top = max((size for _, _, size in owners), default=0) or 1
    rows = tuple(
        (
            Cell(line or "no line", ids=tuple(dict.fromkeys(value.maker for value in values))),
            Cell(quote(values[0].owner)),
            Cell(amount(size), size, bar=size / top),
            Cell(listed(tally(value.opcode for value in values), 3)),
            Cell(listed(tally(str(value.type) for value in values), 2)),
            Cell("a row a trip" if any(value.trips for value in values) else ""),
        )
        for line, values, size in owners[:_ROWS]
    )
    note = "From the jaxpr: XLA may compute some of it again instead, or keep other values."
    left = len(owners) - len(rows)
    note += f" {count(left, 'line')} more: .residuals has all." if left else ""
    columns = ("line", "code", "bytes", "made by", "types", "in a loop")
    title = "Saved for the backward pass"
    return Table(title, columns, rows, note, right=(2,), stage="jaxpr")


def types(values: Sequence[Owned]) -> str:
    """Returns the types of values, as `f32[4,4,128,128] x 2 and f32[4,4,128,32]`."""
    return listed(tally(_short(value.type) for value in values), 2)


def _short(kind: str) -> str:
    """Returns a type; of a tuple, which may have hundreds of parts, their number."""
    return f"({count(kind.count(', ') + 1, 'array')})" if kind.startswith("(") else kind
