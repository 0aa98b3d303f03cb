"""What changed between the records of two runs, function by function."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jaxlens.ir.compile_log import KeyPart
from jaxlens.lenses.record.facts import FunctionRow, JobFacts
from jaxlens.lenses.record.program_difference import parts_differ
from jaxlens.lenses.sentences import listed
from jaxlens.report import Cell, Finding, Report, Table, amount, count, duration

_FEW = 3  # parts of a key that are named
_RATIO = 1.2  # times of compiles that differ by less are not mentioned

_Key: TypeAlias = tuple[tuple[str, str, str], ...]  # kind, name and text of each part


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """One function in two runs; None where a run did not compile it."""

    name: str
    before: FunctionRow | None
    after: FunctionRow | None
    keys: tuple[str, ...] = ()  # what differs between the keys of the compiles

    @property
    def same_programs(self) -> bool:
        """Whether both runs compiled the same programs, by their fingerprints."""
        return bool(self.before and self.after and self.before.programs == self.after.programs)


@dataclass(frozen=True, slots=True)
class JobDifference:
    """What changed between two runs.

    Attributes:
        before: The figures of the first.
        after: Those of the second.
        functions: In the first's order, then those that only the second has.
    """

    before: JobFacts
    after: JobFacts
    functions: tuple[FunctionChange, ...]


def difference(before: JobFacts, after: JobFacts) -> JobDifference:
    """Compares two records; functions are the same if they have one name."""
    left, right = ({f.name: f for f in reversed(job.functions)} for job in (before, after))
    names = dict.fromkeys(f.name for f in (*before.functions, *after.functions))
    rows = (
        FunctionChange(n, left.get(n), right.get(n), tuple(_keys(before, after, n))) for n in names
    )
    return JobDifference(before, after, tuple(rows))


def _keys(before: JobFacts, after: JobFacts, name: str) -> Iterator[str]:
    """Yields what differs between the keys that only one of two runs compiled a function for."""
    left, right = ({_key(p): p for p in _parts(job, name)} for job in (before, after))
    names = before.job.name, after.job.name
    alone = [
        [parts for key, parts in own.items() if key not in others]
        for own, others in ((left, right), (right, left))
    ]
    if [len(keys) for keys in alone] == [1, 1]:
        yield from parts_differ(alone[0][0], alone[1][0], names)
        return
    # First what changed in all keys, such as each weight of a wider model. What then remains of a
    # key is compared alone, or the weights would be repeated for each of the keys.
    shared = [_shared(left), _shared(right)]
    changed = {p[:2] for p in shared[0]} & {p[:2] for p in shared[1]}
    changed -= {p[:2] for p in shared[0] & shared[1]}
    parts = [
        [p for p in next(iter(keys.values()), ()) if _of(p) in changed] for keys in (left, right)
    ]
    yield from parts_differ(parts[0], parts[1], names)
    same = shared[0] & shared[1]
    rests = [
        dict.fromkeys(
            tuple(p for p in key if p not in same and p[:2] not in changed) for key in keys
        )
        for keys in (left, right)
    ]
    for job, own, others in zip(names, rests, reversed(rests), strict=True):
        texts = [_few([f"{n} {text}" for _, n, text in rest]) for rest in own if rest not in others]
        if any(texts):
            yield f"only {job} has {listed([text for text in texts if text])}"


def _shared(keys: Collection[_Key]) -> set[tuple[str, str, str]]:
    """Returns the parts that all keys have."""
    return set.intersection(*map(set, keys)) if keys else set()


def _few(texts: Sequence[str]) -> str:
    return listed(texts, _FEW) if len(texts) > _FEW else ", ".join(texts)


def _of(part: KeyPart) -> tuple[str, str]:
    return part.kind, part.name


def _parts(job: JobFacts, name: str) -> list[tuple[KeyPart, ...]]:
    return [row.compile.call.parts for row in job.rows if row.function == name]


def _key(parts: Sequence[KeyPart]) -> _Key:
    return tuple((part.kind, part.name, part.text) for part in parts)


def report(found: JobDifference) -> Report:
    """Reports what changed in sentences and a table."""
    a, b = found.before, found.after
    totals = [f"{count(j.compiles, 'compile')} in {j.job.name}" for j in (a, b)]
    several = max(len(j.job.processes) for j in (a, b)) > 1
    tail = f": {duration(a.seconds)} and {duration(b.seconds)}"
    tail += ", summed over processes." if several else "."
    head = Finding(f"{totals[0]}, {totals[1]}.", "counted", tail=tail)
    return Report("What changed", (head, *_findings(found)), (_table(found),))


def _findings(found: JobDifference) -> Iterator[Finding]:
    for job, row in ((found.before, "after"), (found.after, "before")):
        alone = [c.name for c in found.functions if getattr(c, row) is None]
        if alone:
            yield Finding(f"Only {job.job.name} compiled {listed(alone)}.", "compared")
    same = True
    for change in found.functions:
        one, two = change.before, change.after
        if one is None or two is None:
            same = False
            continue
        parts = []
        if one.counts != two.counts:
            each = "in each process " if max(len(one.compiles), len(two.compiles)) > 1 else ""
            parts.append(f"compiled {each}{_times(two)}, before {_times(one)}")
        if not change.same_programs:
            keys = f" ({'; '.join(change.keys)})" if change.keys else ""
            parts.append(f"its programs are others{keys}")
        if one.bytes != two.bytes:
            parts.append(f"takes {amount(two.bytes)} of memory, was {amount(one.bytes)}")
        ratio = two.seconds / one.seconds if one.seconds else 1.0
        took = f"; {duration(two.seconds)}, was {duration(one.seconds)}."
        if parts:
            same = False
            tail = "" if 1 / _RATIO < ratio < _RATIO else took
            yield Finding(f"{change.name}: {'; '.join(parts)}.", "compared", tail=tail)
    if same:
        yield Finding("Both compiled the same programs, equally often.", "compared")


def _times(row: FunctionRow) -> str:
    return "once" if row.counts == "1" else f"{row.counts} times"


def _table(found: JobDifference) -> Table:
    rows = tuple(
        (
            Cell(change.name),
            *_pair(change, lambda row: Cell(row.counts)),
            *_pair(change, lambda row: Cell(duration(row.seconds), row.seconds)),
            *_pair(change, lambda row: Cell(amount(row.bytes), row.bytes)),
            Cell("same" if change.same_programs else "other"),
        )
        for change in found.functions
    )
    columns = ("function", "compiles", "then", "time", "then", "memory", "then", "programs")
    note = f"The first is {found.before.job.name}, then {found.after.job.name}."
    right = (1, 2, 3, 4, 5, 6)
    return Table("Functions of both", columns, rows, note, volatile=True, right=right)


def _pair(change: FunctionChange, cell: Callable[[FunctionRow], Cell]) -> tuple[Cell, ...]:
    return tuple(cell(row) if row else Cell("-") for row in (change.before, change.after))
