"""Which arrays live on the devices, which names hold them, and what grew since the last look."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from jaxlens.questions.arrays.live_arrays import (
    TRACEBACK,
    HeldArrays,
    LiveArray,
    LiveArrays,
    by_device,
    root,
)
from jaxlens.render.document import Document
from jaxlens.report import Finding, NumberColumn, Report, Table, amount, count, table
from jaxlens.views.report_blocks import report_blocks

_ROWS = 30
_BYTES = NumberColumn("bytes", amount, "bytes")
_NAMED = 4  # names in a sentence
_INDEX = re.compile(r"\[\d+\]")


def report(facts: LiveArrays) -> Report:
    """Returns sentences, the table of named arrays, and the sums by device.

    What has no name depends on what ran before and on JAX's version: it is in a table that the
    stable text leaves out.
    """
    tables = (_arrays(facts),) if facts.named else ()
    return Report(
        "Live arrays", tuple(_findings(facts)), (*tables, *_nameless(facts), _devices(facts))
    )


def _findings(facts: LiveArrays) -> Iterator[Finding]:
    if not facts.first:
        yield Finding(_since(facts))
    if not facts.named:
        yield Finding("No variable holds an array on a device.")
    else:
        size = amount(sum(array.bytes for array in facts.named))
        devices = by_device(facts.named)
        where = f"on {next(iter(devices))}" if len(devices) == 1 else f"on {len(devices)} devices"
        most = [
            f"{v.name} {amount(v.bytes)}" + (f" in {v.arrays:,} arrays" if v.arrays > 1 else "")
            for v in facts.by_variable[:_NAMED]
        ]
        more = len(facts.by_variable) - _NAMED
        most += [count(more, "more variable")] if more > 0 else []
        yield Finding(
            f"Variables hold {count(len(facts.named), 'array')} of {size} {where}: "
            f"{', '.join(most)}."
        )
    if facts.deleted:
        names = ", ".join(facts.deleted[:_NAMED])
        names += f" and {count(len(facts.deleted) - _NAMED, 'more name')}" * (
            len(facts.deleted) > _NAMED
        )
        yield Finding(f"Deleted or donated, so they hold no memory: {names}.")
    kept = [a for a in facts.named if f"({TRACEBACK} " in a.name]
    if kept:
        size = amount(sum(a.bytes for a in kept))
        names = ", ".join(a.name.partition(f" ({TRACEBACK}")[0] for a in kept[:_NAMED])
        yield Finding(
            f"{size} live only because Python keeps the traceback of the last error ({names}): "
            "after the next error, 1/0 for one, gc.collect() frees them."
        )
    cached = [v for v in facts.by_variable if _cached(v)]
    if cached:
        size = amount(sum(v.bytes for v in cached))
        yield Finding(
            f"{size} live only because IPython keeps results that were displayed "
            f"({', '.join(v.name for v in cached[:_NAMED])}): %reset out lets them go."
        )


def _since(facts: LiveArrays) -> str:
    """Returns what changed, what grew before what was replaced."""
    grown = [v for v in facts.by_variable if v.new_arrays]
    grown.sort(key=lambda v: (v.grew <= 0, _cached(v), v.before == 0, -v.new_bytes, v.name))
    replaced = {v.name for v in grown if v.grew <= 0}
    gone = [a for a in facts.gone if a.name and root(a.name) not in replaced]
    parts: list[str] = []
    if grown:
        parts += map(_growth, grown[:_NAMED])
        more = grown[_NAMED:]
        parts += [f"new in {count(len(more), 'more variable')}"] if more else []
    if gone:
        size = amount(sum(array.bytes for array in gone))
        names = list(dict.fromkeys(root(array.name) for array in gone))
        rest = ", ..." if len(names) > _NAMED else ""
        parts.append(
            f"gone: {count(len(gone), 'array')}, {size} ({', '.join(names[:_NAMED])}{rest})"
        )
    return f"Since the last look: {'; '.join(parts) or 'the same arrays'}."


def _cached(held: HeldArrays) -> bool:
    """Whether IPython keeps the arrays as results that were displayed."""
    return held.name == "Out" or held.name.startswith("_")


def _growth(held: HeldArrays) -> str:
    """Returns how one variable changed: "losses grew from 5 to 10 arrays, 20 B more"."""
    made = f", made at {held.made[0]}" if len(held.made) == 1 else ""
    made = f", made at {held.made[0]} and {len(held.made) - 1} more" if len(held.made) > 1 else made
    if held.before and held.grew > 0:
        size = f"from {held.before:,} to {count(held.arrays, 'array')}, {amount(held.grew)} more"
        return f"{held.name} grew {size}{made}"
    kind = "replaced" if held.grew <= 0 else "new"
    size = f"{count(held.new_arrays, 'array')}, {amount(held.new_bytes)}"
    return f"{kind} in {held.name}: {size}{made}"


def _arrays(facts: LiveArrays) -> Table:
    """Returns the named arrays; those of one type in one list are one row."""
    rows: dict[tuple[str, ...], list[LiveArray]] = {}
    for array in facts.named:
        n = len(array.by_device)
        devices = next(iter(array.by_device)) if n == 1 else f"{n} devices"
        key = _INDEX.sub("[*]", array.name), array.type, array.sharding, devices
        rows.setdefault(key, []).append(array)
    ordered = sorted(rows.items(), key=lambda row: -sum(array.bytes for array in row[1]))
    shown = (
        (
            name if len(arrays) > 1 else _all_names(arrays[0]),
            type,
            len(arrays),
            sum(array.bytes for array in arrays),
            0 if facts.first else sum(array.new for array in arrays),
            sharding or devices,
            _made(arrays),
        )
        for (name, type, sharding, devices), arrays in ordered
    )
    new = NumberColumn("new", lambda n: f"{n:,}" if n else "")
    columns = ("name", "type", NumberColumn("arrays"), _BYTES, new, "where", "made at")
    note = "Bytes are those on all devices."
    return table("Arrays with a name", columns, shown, note, most=_ROWS)


def _made(arrays: Iterable[LiveArray]) -> str:
    """Returns the line that made most of the arrays, and the number of other lines."""
    lines = Counter(array.made for array in arrays if array.made).most_common()
    return lines[0][0] + f" and {len(lines) - 1} more" * (len(lines) > 1) if lines else "unknown"


def _all_names(array: LiveArray) -> str:
    more = len(array.names) - _NAMED
    return ", ".join(array.names[:_NAMED]) + f" and {more} more" * (more > 0)


def _nameless(facts: LiveArrays) -> Iterator[Table]:
    """Yields the table of arrays without a name, by what keeps them alive."""
    rows: dict[tuple[str, str, str], list[LiveArray]] = {}
    for array in facts.unnamed:
        rows.setdefault((array.holder or "unknown", array.type, array.made), []).append(array)
    found = [
        (holder, type, len(arrays), sum(array.bytes for array in arrays), made or "unknown")
        for (holder, type, made), arrays in rows.items()
    ]
    if found:
        found.sort(key=lambda row: -row[3])
        columns = ("kept alive by", "type", NumberColumn("arrays"), _BYTES, "made at")
        note = "The nearest object on the way of Python's garbage collector that says what it is."
        title = "Arrays without a name"
        yield table(title, columns, found, note, most=_ROWS, volatile=True)


def _devices(facts: LiveArrays) -> Table:
    rows = []
    for device, size in facts.by_device.items():
        unnamed = [array for array in facts.unnamed if device in array.by_device]
        arrays = sum(device in array.by_device for array in facts.arrays)
        nameless = sum(array.by_device[device] for array in unnamed)
        used = facts.allocated.get(device)
        rows.append((device, arrays, size, len(unnamed), nameless, used))
    nameless_bytes = NumberColumn("bytes of these", amount, "bytes")
    counts = NumberColumn("arrays"), NumberColumn("without a name")
    used_bytes = NumberColumn("allocator", amount, "bytes")
    columns = ("device", counts[0], _BYTES, counts[1], nameless_bytes, used_bytes)
    note = (
        "Without a name: constants that JAX keeps for compiled programs, and what a library or a "
        "running function holds. Allocator: bytes in use by the device's own count."
    )
    return table("All live arrays, by device", columns, rows, note, volatile=True)


def document(facts: LiveArrays) -> Document:
    """Returns the document of one look."""
    size = amount(sum(array.bytes for array in facts.named))
    taken = f"live arrays: {count(len(facts.named), 'array')} with a name, {size}"
    return Document("arrays", taken, tuple(report_blocks(report(facts))))
