"""What changed between the records of two runs, function by function."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from jaxlens.ir.compile_log import KeyPart, KeyPartKind
from jaxlens.ir.record import RecordedCompile
from jaxlens.jobs.record.facts import FunctionRow, JobFacts, identity
from jaxlens.jobs.record.program_difference import StageOf, differences, parts_differ
from jaxlens.program.sentences import listed
from jaxlens.report import Cell, Finding, Report, Table, amount, count, duration

_FEW = 3  # parts of a key that are named
_RATIO = 1.2  # times of compiles that differ by less are not mentioned

_Key: TypeAlias = tuple[tuple[KeyPartKind, str, str], ...]  # kind, name and text of each part
_Place: TypeAlias = tuple[str, int]  # a process, and which compile of a key it is there
_Compiles: TypeAlias = dict[tuple[_Key, _Place], RecordedCompile]


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """One function in two runs; None where a run did not compile it."""

    name: str
    before: FunctionRow | None
    after: FunctionRow | None
    keys: tuple[str, ...] = ()  # what differs between the keys of the compiles
    programs: tuple[str, ...] = ()  # what differs between programs of one key

    @property
    def is_in_both(self) -> bool:
        """Whether both runs compiled it."""
        return bool(self.before and self.after)

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


def difference(before: JobFacts, after: JobFacts, stage_of: StageOf) -> JobDifference:
    """Compares two records; functions are the same if they have one name.

    Args:
        before: The first.
        after: The second.
        stage_of: Gives a stage of a program of either; called where programs differ.
    """
    left, right = ({f.name: f for f in reversed(job.functions)} for job in (before, after))
    jobs, rows = (before.job.name, after.job.name), []
    for name in dict.fromkeys(f.name for f in (*before.functions, *after.functions)):
        one, two = (_compiles(job, name) for job in (before, after))
        keys = tuple(_keys(one, two, jobs)) if one and two else ()
        programs = _programs(one, two, jobs, stage_of)
        rows.append(FunctionChange(name, left.get(name), right.get(name), keys, programs))
    return JobDifference(before, after, tuple(rows))


def _keys(before: _Compiles, after: _Compiles, names: tuple[str, str]) -> Iterator[str]:
    """Yields what differs between the keys that only one of two runs compiled a function for."""
    keys = [dict.fromkeys(key for key, _ in own) for own in (before, after)]
    alone = [[key for key in own if key not in keys[1 - n]] for n, own in enumerate(keys)]
    if len(alone[0]) == len(alone[1]) == 1:
        left, right = ([KeyPart(n, kind, text) for kind, n, text in own[0]] for own in alone)
        if changed := [*parts_differ(left, right, names)]:
            yield from changed
            return
    texts = [dict.fromkeys(chain.from_iterable(own)) for own in keys]
    new = [[part for part in own if part not in texts[1 - n]] for n, own in enumerate(texts)]
    for job, parts in zip(names, new, strict=True):
        if parts:
            yield f"only {job} has {listed([f'{name} {text}' for _, name, text in parts], _FEW)}"
    if any(alone) and not any(new):
        yield "the same arguments, in another order or combination"


def _programs(
    before: _Compiles, after: _Compiles, names: tuple[str, str], stage_of: StageOf
) -> tuple[str, ...]:
    """Returns what differs in the first programs that are not the same, though their key is."""
    pairs = ((key[1][0], first, after[key]) for key, first in before.items() if key in after)
    others = ((label, a, b) for label, a, b in pairs if identity(a) != identity(b))
    sentences = (tuple(differences(a, b, _of(label, names), stage_of)) for label, a, b in others)
    return next(filter(None, sentences), ())


def _of(label: str, names: tuple[str, str]) -> tuple[str, str]:
    """Returns names of two runs, with the process where it is not the first."""
    where = f"process {label} of " if label != "0" else ""
    return f"{where}{names[0]}", f"{where}{names[1]}"


def _compiles(job: JobFacts, name: str) -> _Compiles:
    """Returns the compiles of a function, by their key, process, and which of this key it is."""
    compiles: _Compiles = {}
    seen: Counter[tuple[str, _Key]] = Counter()
    for row in job.rows:
        if row.function == name:
            key = tuple((part.kind, part.name, part.text) for part in row.compile.call.parts)
            seen[row.label, key] += 1
            compiles[key, (row.label, seen[row.label, key])] = row.compile
    return compiles


def report(found: JobDifference) -> Report:
    """Reports what changed in sentences and a table."""
    a, b = found.before, found.after
    totals = [
        f"{count(j.compiles, 'compile')} in {j.job.name}"
        + (f" ({j.cached:,} from the persistent cache)" if j.cached else "")
        for j in (a, b)
    ]
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
        if _absent(found.before, one) != _absent(found.after, two):
            parts.append(f"compiled by {_processes(two)}, before by {_processes(one)}")
        if not change.same_programs:
            what = "; ".join((*change.keys, *change.programs))
            parts.append(f"its programs differ{f' ({what})' if what else ''}")
        memory, was = amount(two.bytes), amount(one.bytes)
        if memory != was:
            parts.append(f"takes {memory} of memory, was {was}")
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


def _absent(job: JobFacts, row: FunctionRow) -> int:
    return len(job.job.processes) - len(row.compiles)


def _processes(row: FunctionRow) -> str:
    return count(len(row.compiles), "process", "processes")


def _table(found: JobDifference) -> Table:
    rows = tuple(
        (
            Cell(change.name),
            *_pair(change, lambda row: Cell(row.counts)),
            *_pair(change, lambda row: Cell(duration(row.seconds), row.seconds)),
            *_pair(change, lambda row: Cell(amount(row.bytes), row.bytes)),
            Cell("same" if change.same_programs else "other" if change.is_in_both else "-"),
        )
        for change in found.functions
    )
    columns = ("function", "compiles", "then", "time", "then", "memory", "then", "programs")
    note = f"The first is {found.before.job.name}, then {found.after.job.name}."
    if not all(change.same_programs for change in found.functions):
        note += " jaxlens.compare(runs[#].capture, others[#].capture) compares two programs."
    right = (1, 2, 3, 4, 5, 6)
    return Table("Functions of both", columns, rows, note, right=right, volatile_columns=(3, 4))


def _pair(change: FunctionChange, cell: Callable[[FunctionRow], Cell]) -> tuple[Cell, ...]:
    return tuple(cell(row) if row else Cell("-") for row in (change.before, change.after))
