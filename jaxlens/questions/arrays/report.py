"""Which arrays live on the devices, which names hold them, and what grew since the last look."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from jaxlens.program.sentences import listed
from jaxlens.questions.arrays.live_arrays import (
    TRACEBACK,
    HeldArrays,
    LiveArray,
    LiveArrays,
    by_device,
    lines,
    root,
    size,
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
        devices = by_device(facts.named)
        where = next(iter(devices)) if len(devices) == 1 else f"{len(devices)} devices"
        most = [
            f"{v.name} {amount(v.bytes)}" + (f" in {v.arrays:,} arrays" if v.arrays > 1 else "")
            for v in facts.by_variable[:_NAMED]
        ]
        more = len(facts.by_variable) - _NAMED
        most += [count(more, "more variable")] if more > 0 else []
        arrays = f"{count(len(facts.named), 'array')} of {amount(size(facts.named))}"
        yield Finding(f"Variables hold {arrays} on {where}: {', '.join(most)}.")
    if facts.deleted:
        more = len(facts.deleted) - _NAMED
        names = _some(facts.deleted) + f" and {count(more, 'more name')}" * (more > 0)
        yield Finding(f"Deleted or donated, so they hold no memory: {names}.")
    kept = [a for a in facts.named if f"({TRACEBACK} " in a.name]
    if kept:
        names = _some(a.name.partition(f" ({TRACEBACK}")[0] for a in kept)
        yield Finding(
            f"{amount(size(kept))} live only because Python keeps the traceback of the last error "
            f"({names}): after the next error, 1/0 for one, gc.collect() frees them."
        )
    cached = [v for v in facts.by_variable if _cached(v)]
    if cached:
        yield Finding(
            f"{amount(sum(v.bytes for v in cached))} live only because IPython keeps results that "
            f"were displayed ({_some(v.name for v in cached)}): %reset out lets them go."
        )


def _some(names: Iterable[str]) -> str:
    return ", ".join(islice(names, _NAMED))


def _since(facts: LiveArrays) -> str:
    """Returns what changed, what grew before what was replaced."""
    grown = [v for v in facts.by_variable if v.new_arrays]
    grown.sort(key=lambda v: (v.grew <= 0, _cached(v), v.before == 0, -v.new_bytes, v.name))
    replaced = {v.name for v in grown if v.grew <= 0}
    gone = [a for a in facts.gone if a.name and root(a.name) not in replaced]
    parts = [*map(_growth, grown[:_NAMED])]
    if more := len(grown[_NAMED:]):
        parts.append(f"new in {count(more, 'more variable')}")
    if gone:
        names = list(dict.fromkeys(root(array.name) for array in gone))
        shown = _some(names) + ", ..." * (len(names) > _NAMED)
        parts.append(f"gone: {count(len(gone), 'array')}, {amount(size(gone))} ({shown})")
    return f"Since the last look: {'; '.join(parts) or 'the same arrays'}."


def _cached(held: HeldArrays) -> bool:
    """Whether IPython keeps the arrays as results that were displayed."""
    return held.name == "Out" or held.name.startswith("_")


def _growth(held: HeldArrays) -> str:
    """Returns how one variable changed: "losses grew from 5 to 10 arrays, 20 B more"."""
    made = f", made at {listed(held.made, 1)}" if held.made else ""
    if held.before and held.grew > 0:
        more = f"from {held.before:,} to {count(held.arrays, 'array')}, {amount(held.grew)} more"
        return f"{held.name} grew {more}{made}"
    kind = "replaced" if held.grew <= 0 else "new"
    arrays = f"{count(held.new_arrays, 'array')}, {amount(held.new_bytes)}"
    return f"{kind} in {held.name}: {arrays}{made}"


def _arrays(facts: LiveArrays) -> Table:
    """Returns the named arrays; those of one type in one list are one row."""
    rows: dict[tuple[str, ...], list[LiveArray]] = {}
    for array in facts.named:
        n = len(array.by_device)
        where = array.sharding or (next(iter(array.by_device)) if n == 1 else f"{n} devices")
        rows.setdefault((_INDEX.sub("[*]", array.name), array.type, where), []).append(array)
    shown = (
        (
            name if len(arrays) > 1 else _all_names(arrays[0].names),
            type,
            len(arrays),
            size(arrays),
            0 if facts.first else sum(array.new for array in arrays),
            where,
            listed(lines(arrays), 1) or "unknown",
        )
        for (name, type, where), arrays in sorted(rows.items(), key=lambda row: -size(row[1]))
    )
    new = NumberColumn("new", lambda n: f"{n:,}" if n else "")
    columns = ("name", "type", NumberColumn("arrays"), _BYTES, new, "where", "made at")
    note = "Bytes are those on all devices."
    return table("Arrays with a name", columns, shown, note, most=_ROWS)


def _all_names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED else listed(names, _NAMED)


def _nameless(facts: LiveArrays) -> Iterator[Table]:
    """Yields the table of arrays without a name, by what keeps them alive."""
    rows: dict[tuple[str, str, str], list[LiveArray]] = {}
    for array in facts.unnamed:
        key = array.holder or "unknown", array.type, array.made or "unknown"
        rows.setdefault(key, []).append(array)
    if rows:
        found = [(*key[:2], len(arrays), size(arrays), key[2]) for key, arrays in rows.items()]
        found.sort(key=lambda row: -row[3])
        columns = ("kept alive by", "type", NumberColumn("arrays"), _BYTES, "made at")
        note = "The nearest object on the way of Python's garbage collector that says what it is."
        title = "Arrays without a name"
        yield table(title, columns, found, note, most=_ROWS, volatile=True)


def _devices(facts: LiveArrays) -> Table:
    rows = []
    for device, held in facts.by_device.items():
        here, nameless = (
            [array.by_device[device] for array in arrays if device in array.by_device]
            for arrays in (facts.arrays, facts.unnamed)
        )
        used = facts.allocated.get(device)
        rows.append((device, len(here), held, len(nameless), sum(nameless), used))
    columns = (
        "device",
        NumberColumn("arrays"),
        _BYTES,
        NumberColumn("without a name"),
        NumberColumn("bytes of these", amount, "bytes"),
        NumberColumn("allocator", amount, "bytes"),
    )
    note = (
        "Without a name: constants that JAX keeps for compiled programs, and what a library or a "
        "running function holds. Allocator: bytes in use by the device's own count."
    )
    return table("All live arrays, by device", columns, rows, note, volatile=True)


def document(facts: LiveArrays) -> Document:
    """Returns the document of one look."""
    named = f"{count(len(facts.named), 'array')} with a name, {amount(size(facts.named))}"
    return Document("arrays", f"live arrays: {named}", tuple(report_blocks(report(facts))))
