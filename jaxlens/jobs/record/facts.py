"""The figures of a job's record."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.record import JobRecord, ProcessRecord, RecordedCompile
from jaxlens.jobs.record.program_difference import StageOf
from jaxlens.jobs.record.program_file import recorded
from jaxlens.jobs.record.same_program import (
    Mismatch,
    attempts,
    mismatch,
    other_settings,
    together,
)
from jaxlens.program.recompile_causes import place


@dataclass(frozen=True)
class CompileRow:
    """One compile with its process.

    Attributes:
        job: The record.
        process: The process.
        label: Its name in tables: "0", "0 (2)" for the second start of process 0, "0.1" for the
            first process that it started.
        compile: What is recorded of it.
        start: Seconds from the start of the first process to the first step, by the clocks of
            their hosts.
    """

    job: JobRecord
    process: ProcessRecord
    label: str
    compile: RecordedCompile
    start: float

    @property
    def function(self) -> str:
        """Name of the function, with the transform that ran it op by op."""
        return self.compile.call.name

    @property
    def reason(self) -> str:
        """Why it compiled: what differs from the nearest earlier call, in one line."""
        return self.compile.call.reason

    @property
    def seconds(self) -> float:
        """Seconds of tracing, lowering and compiling."""
        return self.compile.call.seconds

    @property
    def bytes(self) -> int | None:
        """What the program takes of a device's memory, by XLA's sizes."""
        return self.compile.bytes

    @cached_property
    def capture(self) -> Capture:
        """The program, with every stage that the record has.

        Raises:
            UnavailableError: The record has no program of this compile.
        """
        name = self.compile.program
        if not name or name not in self.job.programs:
            note = self.compile.note or "the job ended before it was written"
            raise UnavailableError(f"the record has no program of this compile: {note}")
        return recorded(self.job, name)

    def __repr__(self) -> str:
        where = f"process {self.process.process.index}"
        return f"<compile {self.compile.number} of {self.function} in {where}: {self.reason}>"


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """What was compiled of one function.

    Attributes:
        name: Its name.
        defined: Where it is defined: "train.py:12"; "" where unknown.
        compiles: Number of compiles in each process that compiled it.
        again: Recompiles in all processes: compiles for another key than an earlier one.
        seconds: Seconds of all steps in all processes.
        bytes: The most memory that one of its programs takes; None where that is unknown.
        programs: Fingerprints of its distinct programs.
    """

    name: str
    defined: str
    compiles: tuple[int, ...]
    again: int
    seconds: float
    bytes: int | None
    programs: frozenset[str]

    @property
    def counts(self) -> str:
        """Compiles in a process: "3", or "2 to 4" where processes differ."""
        least, most = min(self.compiles), max(self.compiles)
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The figures of a job's record.

    Attributes:
        job: The record.
        rows: All compiles, in order of their start.
        functions: By seconds, longest first.
        seconds: Seconds of all steps of all compiles.
        together: Programs that all compiled together, in the process with most of them.
        compared: Processes that were compared.
        mismatch: The first program that was not the same in all processes; None if all were.
        settings: Versions and flags that differ between processes of one start, a text each.
        labels: Names of the processes by their folders, as in the rows.
        pages: Addresses of pages about programs, by the program's name, which the tables link to.
    """

    job: JobRecord
    rows: tuple[CompileRow, ...]
    functions: tuple[FunctionRow, ...]
    seconds: float
    together: int
    compared: int
    mismatch: Mismatch | None
    settings: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)

    @property
    def cached(self) -> int:
        """Number of compiles that the persistent cache served."""
        return sum(row.compile.call.loaded for row in self.rows)


def facts(job: JobRecord, stage_of: StageOf) -> JobFacts:
    """Returns the figures of a record.

    Args:
        job: The record.
        stage_of: Gives a stage of a program; called where processes differ.
    """
    starts = attempts(job)
    labels = _labels(starts)
    first = min((p.process.started for p in job.processes if p.process.started), default=0.0)
    rows = [
        CompileRow(job, p, labels[p.folder], c, max(p.process.started - first, 0.0) + c.start)
        for p, c in job.compiles
    ]
    rows.sort(key=lambda row: (row.start, row.process.process.index))
    found = (mismatch(start, stage_of, labels) for start in starts)
    return JobFacts(
        job,
        tuple(rows),
        tuple(_functions(rows)),
        sum(row.seconds for row in rows),
        max((len(together(p)) for p in job.processes), default=0),
        max(map(len, starts), default=0),
        next(filter(None, found), None),
        tuple(text for start in starts for text in other_settings(start, labels)),
        labels,
    )


def identity(compile: RecordedCompile) -> str:
    """The fingerprint of a program, and the hashes of the arrays that are part of it."""
    return " ".join((compile.call.program, *(one.digest for one in compile.constants)))


def _labels(starts: Sequence[Sequence[ProcessRecord]]) -> dict[str, str]:
    """Names each process by its index, those of a later start by the start's number too.

    The processes that process 0 started, such as a pool's, are 0.1, 0.2 and so on.
    """
    jobs = [start for start in starts if not start[0].process.parent]
    labels = {
        p.folder: f"{p.process.index} ({n})" if n > 1 else str(p.process.index)
        for n, start in enumerate(jobs, 1)
        for p in start
    }
    parents = {(p.process.host, p.process.pid): labels[p.folder] for start in jobs for p in start}
    numbers: Counter[str] = Counter()
    for child in (p for start in starts for p in start if p.process.parent):
        parent = parents.get((child.process.host, child.process.parent), str(child.process.index))
        numbers[parent] += 1
        labels[child.folder] = f"{parent}.{numbers[parent]}"
    return labels


def _functions(rows: Iterable[CompileRow]) -> list[FunctionRow]:
    by_name: dict[tuple[str, str], list[CompileRow]] = {}
    for row in rows:
        by_name.setdefault((row.function, place(row.compile.call.defined)), []).append(row)
    functions = []
    for (name, defined), own in by_name.items():
        sizes = [row.bytes for row in own if row.bytes is not None]
        functions.append(
            FunctionRow(
                name,
                defined,
                tuple(Counter(row.label for row in own).values()),
                sum(bool(row.compile.call.changes) for row in own),
                sum(row.seconds for row in own),
                max(sizes, default=None),
                frozenset(identity(row.compile) for row in own if row.compile.call.program),
            )
        )
    return sorted(functions, key=lambda function: -function.seconds)
