"""What a call is looked up by in JAX's caches, and whether it would be found."""

from collections.abc import Sequence

from jaxlens.ir.compile_log import CallKey, DiskKey, KeyPart
from jaxlens.lenses.recompile.verdict import sentence
from jaxlens.report import Cell, Finding, Report, Table, Trust

_DIGITS = 16
KINDS = {
    "function": "function",
    "input": "array",
    "static": "static value",
    "structure": "containers",
    "option": "jit's option",
    "setting": "setting",
    "mesh": "mesh",
}


def key(call: CallKey) -> Report:
    """The verdict, what differs from the nearest earlier key, and the key part by part."""
    verdict = call.verdict
    trust: Trust = "unknown" if verdict.hit is None else "compared"
    reasons = verdict.reasons if verdict.hit is False and verdict.earlier else ()
    findings = (Finding(sentence(verdict), trust), *(Finding(text, trust) for text in reasons))
    tables = (key_table(call.parts, f"The key of {call.function}"),) if call.parts else ()
    return Report("Key", findings, tables)


def key_table(parts: Sequence[KeyPart], title: str = "") -> Table:
    """A key, part by part: what it is, its value, where an array lies and what holds it."""
    columns = {
        "part": [part.name for part in parts],
        "kind": [KINDS[part.kind] for part in parts],
        "value": [part.text for part in parts],
        "lies": [part.place for part in parts],
        "held as": [part.holder for part in parts],
    }
    told = {name: texts for name, texts in columns.items() if any(texts)}
    rows = (tuple(map(Cell, row)) for row in zip(*told.values(), strict=True))
    return Table(title, tuple(told), tuple(rows))


def disk_table(key: DiskKey) -> Table:
    """The key of the persistent cache, part by part: hashes, to be held against another process."""
    rows = tuple((Cell(name), Cell(digest[:_DIGITS])) for name, digest in key.parts)
    note = "equal hashes are equal parts, in any process"
    title = "The key that the persistent cache was asked by"
    return Table(title, ("part", "hash"), rows, note, volatile=True)
