"""What JAX does without a word, in sentences."""

from collections.abc import Iterator

from jaxlens.lenses.silent.facts import Kind, Silent
from jaxlens.report import Finding, Report, Trust

_CURES: dict[Kind, str] = {
    "key": "Give each use a key of its own: `key, now = jax.random.split(key)`, or "
    "`jax.random.fold_in(key, i)` in a loop.",
    "index": 'Where that is meant, `mode="drop"`, `"clip"` or `"fill"` of `.at[...]` says so.',
}
_NONE = (
    "No key is used twice, no index is out of bounds in this run, every array of floats is read, "
    "and no gradient is zero by construction, as far as jaxlens can tell."
)


def report(facts: Silent) -> Report:
    """Returns the sentences: a fault each."""
    return Report("In silence", tuple(findings(facts)))


def findings(facts: Silent) -> Iterator[Finding]:
    """Yields the sentences."""
    if not facts.faults:
        none = (
            _NONE.replace("no index is out of bounds in this run, ", "") if facts.not_run else _NONE
        )
        yield Finding(none)
    told = set[Kind]()
    for fault in facts.faults:
        trust: Trust = "measured" if fault.kind == "index" else "counted"
        yield Finding(fault.sentence, trust, fault.ids, weight=1.0)
        last = fault is [each for each in facts.faults if each.kind == fault.kind][-1]
        if last and fault.kind in _CURES and fault.kind not in told:
            told.add(fault.kind)
            yield Finding(_CURES[fault.kind], trust)
    if facts.not_run:
        yield Finding(f"No index was looked at: {facts.not_run}", "unknown")
    if facts.platform == "cpu":
        yield Finding("On the CPU no operation is known to differ from run to run.", "unknown")
    elif not any(fault.kind == "order" for fault in facts.faults):
        where = "GPU" if facts.platform == "gpu" else facts.platform.upper()
        yield Finding(
            f"Whether an operation differs from run to run on this {where} is unknown.", "unknown"
        )
