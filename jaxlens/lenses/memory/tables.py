"""Tables of the memory report: values at the peak, sizes by kind, and residuals."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jaxlens.ir.facts import Memory
from jaxlens.lenses.memory.peak import MemoryUse, Owned
from jaxlens.lenses.memory.residuals import Residual, Saved
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.source_quote import Quoter
from jaxlens.report import Cell, Table, amount, count

_MEANING = {
    "arguments": "inputs, there before the program starts",
    "outputs": "results, there after it ends",
    "temporaries": "scratch between kernels; values that live at different times share it",
    "aliases": "arguments whose memory holds results (donated); part of both sizes above",
    "code": "the machine code",
    "XLA's peak": "most in use at once by XLA's account, which can be wrong on CPU",
}
_ROWS = 12


def size_table(sizes: Memory) -> Table:
    """Returns a table of XLA's sizes, with a row per kind."""
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


def space_table(use: MemoryUse) -> Table:
    """Returns a table of the device's memories; without rows where only main memory is used."""
    columns = ("memory", "peak", "reserved", "when", "values at its peak")
    if not use.spaces:
        return Table("Memory spaces", columns, ())
    rows = (
        (
            Cell(use.memory),
            Cell(amount(use.peak), use.peak),
            Cell(amount(use.reserved), use.reserved),
            Cell(use.instruction),
            Cell(types(use.at_peak)),
        ),
        *(
            (
                Cell(space.name, ids=tuple(one.instruction for one in space.at_peak)),
                Cell(amount(space.peak), space.peak),
                Cell(amount(space.reserved), space.reserved),
                Cell(space.instruction),
                Cell(types(space.at_peak)),
            )
            for space in use.spaces
        ),
    )
    note = "Each memory has its own peak; the other tables are of the first."
    return Table("Memory spaces", columns, rows, note, right=(1, 2), stage="optimized")


def _wrong(sizes: Memory) -> str:
    """Returns the note on XLA's peak, which is wrong if it is below arguments plus outputs."""
    least = (sizes.arguments or 0) + (sizes.outputs or 0) - (sizes.aliases or 0)
    if sizes.peak is not None and sizes.peak < least:
        return f"XLA's own figure, and wrong: arguments and outputs alone are {amount(least)}"
    return _MEANING["XLA's peak"]


def by_line(use: MemoryUse, quote: Quoter) -> Table:
    """Returns a table of the values at the peak by owner."""
    owners: dict[str, list[Owned]] = {}
    for one in use.at_peak:
        owners.setdefault(_owner(one), []).append(one)
    sums = {name: sum(one.bytes for one in held) for name, held in owners.items()}
    ordered = sorted(owners, key=lambda name: -sums[name])
    top = max(sums.values(), default=0) or 1
    rows = []
    for name in ordered[:_ROWS]:
        held = owners[name]
        span = next((one.span for one in held if one.span), None)
        rows.append(
            (
                Cell(name or "no line", ids=tuple(one.instruction for one in held)),
                Cell(quote(span)),
                Cell(amount(sums[name]), sums[name], bar=sums[name] / top),
                Cell(share(sums[name], use.peak), sums[name] / (use.peak or 1)),
                Cell(types(held)),
                Cell(_marks(held)),
            )
        )
    rest = len(ordered) - len(rows)
    note = f"Every byte in use when {use.instruction or 'it'} runs."
    note += f" {count(rest, 'line')} more: .by_line has all." if rest else ""
    columns = ("line", "code", "bytes", "share", "values", "")
    title = "Memory at the peak, by line"
    return Table(title, columns, tuple(rows), note, right=(2, 3), stage="optimized")


def _owner(one: Owned) -> str:
    """Returns the row that a value counts for: a line, "arguments" or "constants"."""
    if one.kind == "argument":
        return "arguments"
    return "constants" if one.kind == "constant" and not one.line else one.line


def _marks(held: Sequence[Owned]) -> str:
    """Returns what the values of a line are, with shares: residuals, stacked values, results."""
    size = sum(one.bytes for one in held) or 1
    marks: Mapping[str, int] = {
        "saved for the backward pass": sum(o.bytes for o in held if o.saved),
        "stacked by a loop": sum(o.bytes for o in held if o.stacked and not o.saved),
        "results": sum(o.bytes for o in held if o.kind == "result"),
    }
    return ", ".join(
        name if part > 0.95 * size else f"{part / size:.0%} {name}"
        for name, part in marks.items()
        if part > 0.05 * size
    )


def held_table(use: MemoryUse) -> Table:
    """Returns a table of the buffers at the peak."""
    shown = use.at_peak[:_ROWS]
    top = max((one.bytes for one in shown), default=0) or 1
    rows = tuple(
        (
            Cell(one.name, ids=tuple(dict.fromkeys((one.instruction, one.name)))),
            Cell(one.type),
            Cell(amount(one.bytes), one.bytes, bar=one.bytes / top),
            Cell(one.kind),
            Cell(one.line),
            Cell(_marks([one]) if one.kind == "temporary" else ""),
        )
        for one in shown
    )
    left = len(use.at_peak) - len(shown)
    note = f"{left:,} smaller ones: .at_peak has all." if left else ""
    columns = ("value", "type", "bytes", "kind", "made by line", "")
    title = "Buffers at the peak"
    return Table(title, columns, rows, note, right=(2,), stage="optimized")


def residual_table(kept: Saved, quote: Quoter) -> Table:
    """Returns a table of the residuals by line."""
    owners: dict[str, list[Residual]] = {}
    for one in kept.residuals:
        owners.setdefault(one.line, []).append(one)
    sums = {line: sum(one.bytes or 0 for one in mine) for line, mine in owners.items()}
    top = max(sums.values(), default=0) or 1
    ordered = sorted(owners, key=lambda line: -sums[line])
    rows = tuple(
        (
            Cell(line or "no line", ids=tuple(dict.fromkeys(o.maker for o in owners[line]))),
            Cell(quote(owners[line][0].owner)),
            Cell(amount(sums[line]), sums[line], bar=sums[line] / top),
            Cell(listed(tally(one.opcode for one in owners[line]), 3)),
            Cell(listed(tally(str(one.type) for one in owners[line]), 2)),
            Cell("a row a trip" if any(one.trips for one in owners[line]) else ""),
        )
        for line in ordered[:_ROWS]
    )
    note = "From the jaxpr: XLA may compute some of it again instead, or keep other values."
    rest = len(ordered) - len(rows)
    note += f" {count(rest, 'line')} more: .residuals has all." if rest else ""
    columns = ("line", "code", "bytes", "made by", "types", "")
    title = "Saved for the backward pass"
    return Table(title, columns, rows, note, right=(2,), stage="jaxpr")


def types(values: Sequence[Owned], most: int = 2) -> str:
    """Returns the types of values, as `f32[4,4,128,128] x 2 and f32[4,4,128,32]`."""
    return listed(tally(one.type for one in values), most)


def tally(words: Iterable[str]) -> list[str]:
    """Returns words with their counts, `["mul x 3", "tanh"]`, in order of first appearance."""
    return [f"{word} x {n}" if n > 1 else word for word, n in Counter(words).items()]


def share(part: float, whole: float | None) -> str:
    return f"{part / whole:.0%}" if whole else "0%"
