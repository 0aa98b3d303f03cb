"""What JAX does without a word, in sentences."""

from collections.abc import Iterator

from jaxlens.questions.silent.facts import Silent
from jaxlens.questions.silent.faults import Kind
from jaxlens.render.document import Block, Findings, Tabs
from jaxlens.report import Finding, Report, Trust
from jaxlens.views.listings.panes import jaxpr_tab

_CURES: dict[Kind, str] = {
    "key": "Give each use a key of its own: `key, now = jax.random.split(key)`, or "
    "`jax.random.fold_in(key, i)` in a loop.",
    "index": 'Where that is meant, `mode="drop"`, `"clip"` or `"fill"` says so in functions that '
    "take a mode, as `.at[...]` does.",
}
_IN_BOUNDS = "no index is clamped or dropped unasked in this run, "
_NONE = (
    f"In `{{}}` no key is used twice, {_IN_BOUNDS}every array of floats is read, and no gradient "
    "is zero by construction, as far as jaxlens can tell."
)


def report(facts: Silent) -> Report:
    """Returns the sentences: a fault each."""
    return Report("In silence", tuple(findings(facts)))


def findings(facts: Silent) -> Iterator[Finding]:
    """Yields the sentences."""
    if not facts.faults:
        none = _NONE.replace(_IN_BOUNDS, "") if facts.not_run else _NONE
        yield Finding(none.format(facts.subject().program.name))
    last = {fault.kind: fault for fault in facts.faults}
    for fault in facts.faults:
        trust: Trust = "measured" if fault.kind in ("index", "size") else "counted"
        yield Finding(fault.sentence, trust, fault.ids, weight=1.0)
        if fault is last[fault.kind] and fault.kind in _CURES:
            yield Finding(_CURES[fault.kind])
    if facts.not_run:
        yield Finding(f"No index was looked at: {facts.not_run}.", "unknown")
    where = facts.platform.upper()
    if facts.platform == "cpu":
        yield Finding("On the CPU no operation is known to differ from run to run.", "unknown")
    elif "order" not in last:
        text = f"Whether an operation differs from run to run on this {where} is unknown"
        if facts.platform == "gpu":
            text += "; XLA_FLAGS=--xla_gpu_deterministic_ops=true forbids those that do"
        yield Finding(f"{text}.", "unknown")


def blocks(facts: Silent, full: bool = False) -> list[Block]:
    """Returns the sentences, and the jaxpr that they are linked to."""
    listing = jaxpr_tab(facts.subject(), full, in_text=full)
    return [Findings(report(facts).findings), Tabs((listing,))]
