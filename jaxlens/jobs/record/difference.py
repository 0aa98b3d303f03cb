"""What changed between the records of two runs, function by function."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from jaxlens.ir.record import RecordedCompile
from jaxlens.jobs.record.disk_miss import disk_misses
from jaxlens.jobs.record.facts import FunctionRow, JobFacts, identity
from jaxlens.jobs.record.program_difference import StageOf, differences
from jaxlens.program.sentences import listed
from jaxlens.render.document import Document
from jaxlens.report import Finding, NumberColumn, Report, Table, amount, count, duration, table
from jaxlens.views.report_blocks import report_blocks

_FEW = 3  # parts of a key that are named
_FIGURES = {
    "counts": ("compiles", None),
    "seconds": ("time", duration),
    "bytes": ("memory", amount),
}


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """One function in two runs; None where a run did not compile it."""

    name: str
    before: FunctionRow | None
    after: FunctionRow | None
    differences: tuple[str, ...] = ()  # of their programs

    @property
    def runs(self) -> tuple[FunctionRow | None, FunctionRow | None]:
        """The function in both runs."""
        return self.before, self.after

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
        misses: Functions for which the second did not find a program in the persistent cache that
            the first asked too, by the cause.
    """

    before: JobFacts
    after: JobFacts
    functions: tuple[FunctionChange, ...]
    misses: Mapping[str, Sequence[str]] = field(default_factory=dict)


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
        one, two = (
            [row.compile for row in job.rows if row.function == name] for job in (before, after)
        )
        found = tuple(_differences(one, two, jobs, stage_of)) if one and two else ()
        rows.append(FunctionChange(name, left.get(name), right.get(name), found))
    return JobDifference(before, after, tuple(rows), disk_misses(before, after))


def _differences(
    before: list[RecordedCompile],
    after: list[RecordedCompile],
    names: tuple[str, str],
    stage_of: StageOf,
) -> Iterator[str]:
    """Yields what differs between the programs that only one of two runs compiled."""
    both = before, after
    known = [set(map(identity, run)) for run in both]
    alone = [[c for c in run if identity(c) not in known[1 - n]] for n, run in enumerate(both)]
    if not any(alone):
        return
    pairs = product(alone[0] or before, alone[1] or after)
    one_key = next((pair for pair in pairs if pair[0].call.parts == pair[1].call.parts), None)
    if one_key or all(alone):
        yield from differences(*(one_key or (alone[0][0], alone[1][0])), names, stage_of)
        return
    texts = [dict.fromkeys(f"{p.name} {p.text}" for c in run for p in c.call.parts) for run in both]
    for n, name in enumerate(names):
        if new := [text for text in texts[n] if text not in texts[1 - n]]:
            yield f"only {name} has {listed(new, _FEW)}"


def document(found: JobDifference) -> Document:
    """Returns the document of what changed between two records."""
    taken = f"records {found.before.job.name} and {found.after.job.name}"
    return Document("record", taken, tuple(report_blocks(report(found))))


def report(found: JobDifference) -> Report:
    """Reports what changed in sentences and a table."""
    a, b = found.before, found.after
    totals = [
        f"{count(len(j.rows), 'compile')} in {j.job.name}"
        + (f" ({j.cached:,} from the persistent cache)" if j.cached else "")
        for j in (a, b)
    ]
    tail = f": {duration(a.seconds)} and {duration(b.seconds)}, summed over processes."
    head = Finding(f"{totals[0]}, {totals[1]}.", "counted", tail=tail)
    return Report("What changed", (head, *_findings(found)), (_table(found),))


def _findings(found: JobDifference) -> Iterator[Finding]:
    for cause, names in found.misses.items():
        of = listed(list(dict.fromkeys(names)), _FEW)
        yield Finding(f"The persistent cache did not have {of} of {found.after.job.name}: {cause}.")
    for job, row in ((found.before, "after"), (found.after, "before")):
        alone = [c.name for c in found.functions if getattr(c, row) is None]
        if alone:
            yield Finding(f"Only {job.job.name} compiled {listed(alone)}.", "compared")
    changed = {c.name: [*_changes(c)] for c in found.functions}
    for name, parts in changed.items():
        if parts:
            yield Finding(f"{name}: {'; '.join(parts)}.", "compared")
    if not any(changed.values()) and all(all(c.runs) for c in found.functions):
        yield Finding("Both compiled the same programs, equally often.", "compared")


def _changes(change: FunctionChange) -> Iterator[str]:
    """Yields what changed of a function that both runs compiled."""
    one, two = change.before, change.after
    if one is None or two is None:
        return
    counts = [sum(row.compiles) for row in (one, two)]
    if counts[0] != counts[1]:
        yield f"compiled {_times(counts[1])}, before {_times(counts[0])}"
    if not change.same_programs:
        what = "; ".join(change.differences)
        yield f"its programs differ{f' ({what})' if what else ''}"
    memory, was = amount(two.bytes), amount(one.bytes)
    if memory != was:
        yield f"takes {memory} of memory, was {was}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _table(found: JobDifference) -> Table:
    rows = (
        (
            change.name,
            *(row and getattr(row, name) for name in _FIGURES for row in change.runs),
            "same" if change.same_programs else "other" if all(change.runs) else "-",
        )
        for change in found.functions
    )
    columns = [
        NumberColumn(heading, write, none="-")
        for first, write in _FIGURES.values()
        for heading in (first, "then")
    ]
    note = f"The first is {found.before.job.name}, then {found.after.job.name}."
    if not all(change.same_programs for change in found.functions):
        note += " jaxlens.compare(runs[#].capture, others[#].capture) compares two programs."
    shown = table("Functions of both", ["function", *columns, "programs"], rows, note)
    return replace(shown, volatile_columns=(3, 4))
