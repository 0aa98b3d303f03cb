"""Reports shardings and collectives in sentences and tables, from `sharding/facts.py`."""

from collections import Counter
from collections.abc import Iterator

from jaxlens.lenses.sentences import listed
from jaxlens.lenses.sharding.facts import NO_WORK, Collective, Sharding, Spread
from jaxlens.report import Cell, Finding, Overlay, Report, Table, amount, count

_MOST = 40  # values in the table


def report(sharding: Sharding) -> Report:
    """Reports the sharding of each array, and the bytes that collectives send."""
    findings = [*_answer(sharding), *_pieces(sharding), *_one(sharding)]
    tables = [_arrays(sharding)]
    if sharding.collectives:
        tables.insert(0, _travels(sharding))
    moved = {c.id: c.sent for c in sharding.collectives if c.sent}
    overlay = Overlay("bytes sent by a device (estimate)", "optimized", moved)
    return Report("Sharding", tuple(findings), tuple(tables), (overlay,) if moved else ())


def _answer(sharding: Sharding) -> Iterator[Finding]:
    """Yields what the collectives send, and the lines that they came from."""
    if sharding.devices == 1:
        yield Finding("The program runs on one device: nothing is cut, and nothing travels.")
        return
    mesh = " x ".join(f"{name} {size}" for name, size in sharding.axes)
    among = f"{sharding.devices} devices ({mesh})" if mesh else f"{sharding.devices} devices"
    if not sharding.collectives:
        yield Finding(f"Nothing travels between the {among}: each computes on what it holds.")
        return
    most = max(sharding.collectives, key=lambda c: c.sent or 0.0)
    where = f", from {listed(sorted(most.lines))}" if most.lines else ""
    tally = Counter(c.opcode for c in sharding.collectives)
    kinds = listed([count(n, kind) for kind, n in tally.items()])
    ids = tuple(c.id for c in sharding.collectives)
    unknown = sharding.unknown
    if len(unknown) == len(sharding.collectives):
        yield Finding(f"Each of {among} sends what is not known, in {kinds}.", "unknown", ids)
    else:
        least = "at least " if unknown else ""
        words = f"Each of {among} sends {least}{amount(sharding.sent)} a run in {kinds}"
        rest = f"; most of it, {amount(most.sent)}, in {_name(most)}" if len(ids) > 1 else ""
        yield Finding(f"{words}{rest}{_along(most)}{where}.", "estimate", ids)
    if unknown:
        names = listed([_name(c) for c in unknown])
        text = f"Not in the sum, as their groups or sizes could not be read: {names}."
        yield Finding(text, "unknown", tuple(c.id for c in unknown))
    endless = [c.id for c in sharding.collectives if c.trips is None]
    if endless:
        yield Finding(
            f"In loops of unknown length, counted once: {listed(endless)}.",
            "unknown",
            tuple(endless),
        )


def _name(one: Collective) -> str:
    """Returns its id, followed by the opcode if the id does not begin with it."""
    return one.id if one.id.startswith(one.opcode) else f"{one.id} ({one.opcode})"


def _along(one: Collective) -> str:
    return f" over {' and '.join(one.over)}" if one.over else ""


def _pieces(sharding: Sharding) -> Iterator[Finding]:
    """Yields how many inputs are partitioned, and which are replicated."""
    if sharding.devices == 1:
        return
    known = [spread for spread in sharding.inputs if spread.tiling is not None]
    cut = [spread for spread in known if spread.tiling is not None and spread.tiling.parts > 1]
    if known:
        some = f"{len(cut)} of {count(len(sharding.inputs), 'input')}" if cut else "No input"
        yield Finding(f"{some} {'are' if len(cut) > 1 else 'is'} cut into pieces.")
    held = sorted(
        (spread for spread in known if spread not in cut), key=lambda o: -(o.type.bytes or 0)
    )
    total = sum(spread.type.bytes or 0 for spread in held)
    if total:
        names = listed([f"{spread.name} {spread.type}" for spread in held if spread.type.bytes])
        yield Finding(f"Every device holds {amount(total)} of inputs whole: {names}.")
    unknown = [spread.name for spread in sharding.inputs if spread.tiling is None]
    if unknown:
        yield Finding(f"Not known how these lie: {listed(unknown)}.", "unknown")


def _one(sharding: Sharding) -> Iterator[Finding]:
    """Yields the size of the program that one device runs."""
    if sharding.devices == 1:
        return
    body = sharding.subject().optimized.module.body()
    work = [n for n in body.nodes if n.opcode not in NO_WORK]
    flops = sharding.flops()
    counted = "" if flops is None else f", {amount(flops, 'flop')} by XLA's count"
    words = count(len(work), "instruction")
    yield Finding(f"All devices run the same program, each on its pieces: {words}{counted}.", "xla")


def _travels(sharding: Sharding) -> Table:
    """Returns a table with one row per collective."""
    most = max((c.sent or 0.0 for c in sharding.collectives), default=0.0) or 1.0
    rows = tuple(
        (
            Cell(_name(c), ids=(c.id,)),
            Cell(" and ".join(c.over) or ("-" if c.groups is not None else "unknown")),
            Cell(_groups(c)),
            Cell(amount(c.bytes), c.bytes),
            Cell("unknown" if c.trips is None else f"{c.trips:,}", c.trips),
            Cell(amount(c.sent), c.sent, bar=(c.sent or 0.0) / most),
            Cell(listed(sorted(c.lines))),
        )
        for c in sharding.collectives
    )
    columns = (
        "collective",
        "over",
        "groups",
        "bytes a device",
        "runs",
        "sent a device",
        "from lines",
    )
    note = (
        "Bytes: what a device puts in, or gets out of an all-gather. Sent: an estimate, as if each "
        "group were a ring."
    )
    return Table("What travels", columns, rows, note, right=(3, 4, 5), stage="optimized")


def _groups(one: Collective) -> str:
    """Returns `4 of 2: 0 1 | 2 3 | ...`, or a permute's pairs."""
    if one.groups is None:
        return "unknown"
    if one.opcode == "collective-permute":
        pairs = [f"{a}→{b}" for a, b in (g for g in one.groups if len(g) == 2)]
        return listed(pairs, 6)
    sizes = {len(group) for group in one.groups}
    shown = " | ".join(" ".join(map(str, group)) for group in one.groups[:4])
    more = " | ..." if len(one.groups) > 4 else ""
    return f"{len(one.groups)} of {'/'.join(map(str, sorted(sizes)))}: {shown}{more}"


def _arrays(sharding: Sharding) -> Table:
    """Returns a table with one row per input, output and distinct value."""
    every = (*sharding.inputs, *sharding.outputs, *sharding.values[:_MOST])
    rows = tuple(
        (
            Cell(spread.name),
            Cell(spread.kind),
            Cell(str(spread.type)),
            Cell(spread.spec or ("unknown" if spread.tiling is None else "-")),
            *_held(spread),
            Cell(spread.line),
        )
        for spread in every
    )
    columns = ("array", "kind", "type", "cut as", "pieces", "copies", "a device holds", "from line")
    left = len(sharding.values) - _MOST
    cut = f" {left:,} smaller values are left out." if left > 0 else ""
    note = (
        "Values: as XLA's partitioner was given them, those that are alike once; values within a "
        f"shard_map are each device's own.{cut}"
    )
    return Table("Arrays", columns, rows, note, right=(4, 5, 6))


def _held(one: Spread) -> tuple[Cell, Cell, Cell]:
    if one.tiling is None or one.piece is None:
        return Cell("unknown"), Cell("unknown"), Cell("unknown")
    size = one.piece.bytes
    return (
        Cell(f"{one.tiling.parts:,}", one.tiling.parts),
        Cell(f"{one.tiling.copies:,}", one.tiling.copies),
        Cell(f"{one.piece} {amount(size)}", size),
    )
