"""Reports whether a call hits JAX's caches, and its cache key."""

from collections.abc import Sequence
from itertools import repeat

from jaxlens.ir.compile_log import CallKey, KeyPart
from jaxlens.ir.facts import Verdict
from jaxlens.report import Finding, Report, Table, Trust, count, saves, table

_KINDS = {
    "function": "function",
    "input": "array",
    "static": "static value",
    "structure": "containers",
    "option": "jit's option",
    "setting": "setting",
    "mesh": "mesh",
}
_WORK = {
    "trace": "it is traced, lowered and compiled",
    "compile": "it is lowered and compiled again; tracing is served from the cache",
}


def verdict_report(verdict: Verdict) -> Report:
    """Reports whether a call hits the caches, then each difference from the nearest key.

    If the verdict is unknown, the first sentence is the reason.
    """
    trust: Trust = "unknown" if verdict.hit is None else "compared"
    reasons = verdict.reasons if verdict.hit is not None and verdict.earlier else ()
    texts = (sentence(verdict), *reasons)
    # A call that misses though the function was called before costs a compile; one reason leads.
    again = saves(1, 1) if verdict.hit is False and verdict.earlier else 0.0
    leading = [again if n < 2 else 0.0 for n in range(len(texts))]
    found = map(Finding, texts, repeat(trust), repeat(()), repeat(""), leading)
    return Report("Cache", tuple(found))


def key_report(key: CallKey) -> Report:
    """Reports the verdict, the differences from the nearest earlier key, and the key's parts."""
    tables = (key_table(key.parts, f"The key of {key.function}"),) if key.parts else ()
    return Report("Key", verdict_report(key.verdict).findings, tables)


def sentence(verdict: Verdict) -> str:
    """Returns the verdict in one sentence."""
    signatures = f"the function has {count(verdict.earlier, 'earlier call signature')}"
    if verdict.hit is None:
        return f"Cache: {'; '.join(verdict.reasons) or 'not known for this call'}."
    if verdict.hit:
        return f"Cache: this call would hit; nothing would be traced or compiled ({signatures})."
    if not verdict.earlier:
        return "Cache: this call would miss; this function was never called before."
    work = _WORK.get(verdict.layer, "it is compiled")
    return f"Cache: this call would miss: {work} ({signatures})."


def key_table(parts: Sequence[KeyPart], title: str = "") -> Table:
    """Returns a table of a key's parts: kind, value, and of arrays their devices and class."""
    columns = {
        "part": [part.name for part in parts],
        "kind": [_KINDS[part.kind] for part in parts],
        "value": [part.text for part in parts],
        "lies": [part.place for part in parts],
        "held as": [part.holder for part in parts],
    }
    filled = {name: texts for name, texts in columns.items() if any(texts)}
    return table(title, tuple(filled), zip(*filled.values(), strict=True))
