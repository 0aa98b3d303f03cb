"""Reports a job's record: whether processes agree, why functions recompiled, what took long."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from jaxlens.ir.record import ProcessRecord
from jaxlens.jobs.record.facts import CompileRow, FunctionRow, JobFacts
from jaxlens.jobs.record.same_program import Mismatch, attempts
from jaxlens.program.recompile_causes import answers, place, step_cells
from jaxlens.program.sentences import listed, ordinal
from jaxlens.render.document import Document
from jaxlens.report import (
    Cell,
    CellLink,
    Finding,
    NumberColumn,
    Report,
    Table,
    amount,
    count,
    duration,
    table,
)
from jaxlens.views.report_blocks import report_blocks

_ROWS = 200  # compiles in the table
_PROCESSES = 50  # processes in the table
_Columns: TypeAlias = list[str | NumberColumn]
_MEMORY = NumberColumn("memory", amount, "memory")


def document(job: JobFacts) -> Document:
    """Returns the document of a record."""
    pids = {(p.process.host, p.process.pid) for p in job.job.processes}
    processes = count(len(pids), "process", "processes")
    taken = f"record {job.job.name}: {count(len(job.rows), 'compile')} in {processes}"
    return Document("record", taken, tuple(report_blocks(report(job))))


def report(job: JobFacts) -> Report:
    """Reports a record in sentences and tables."""
    findings = [
        *_same(job),
        *_absent(job),
        *_ends(job),
        *_longest(job),
        *_recompiled(job),
        *_failed(job),
        *_trouble(job),
    ]
    if not job.rows:
        findings.insert(0, Finding("No compile of a function of the user's was recorded."))
    tables = [_functions(job.functions), _compiles(job)] if job.rows else []
    return Report("Record", tuple(findings), (*tables, _processes(job)))


def _same(job: JobFacts) -> Iterator[Finding]:
    """Yields whether the processes compiled the same programs, with the same settings."""
    if job.compared < 2 or not job.together:
        return
    if job.settings:
        text = "The processes differ in what should be equal on all hosts"
        yield Finding(f"{text}: {'; '.join(job.settings)}.", "compared")
    programs = f"{job.compared} processes compiled {count(job.together, 'program')}"
    same = "The StableHLO is the same" if job.settings else "It is the same program"
    text = f"{same} on every host: {programs} together, in one order."
    text = _apart(job.mismatch) if job.mismatch else text
    yield Finding(text, "compared")


def _absent(job: JobFacts) -> Iterator[Finding]:
    """Yields which starts lack processes, as each host may write to a disk of its own."""
    for start in attempts(job.job):
        if len(start) < start[0].process.count:
            names = _processes_named([job.labels[p.folder] for p in start])
            text = f"The record has only {names} of {start[0].process.count}: the others wrote "
            text += "nothing here; copy their process-* and programs into it to compare them."
            yield Finding(text, "counted")


def _ends(job: JobFacts) -> Iterator[Finding]:
    """Yields which processes ended by an exception."""
    for start in attempts(job.job):
        if len(start) < 2:
            continue
        waits = " The others may wait for it in a collective."
        for p in start:
            if p.process.error:
                text = f"Process {job.labels[p.folder]} ended with {p.process.error}"
                yield Finding(text, "counted", tail=f", after {duration(p.seconds)}.{waits}")


def _processes_named(labels: Sequence[str]) -> str:
    return f"process{'es' * (len(labels) > 1)} {listed(labels)}"


def _apart(found: Mismatch) -> str:
    groups = [_processes_named(group) for group in found.groups]
    program = f"the {ordinal(found.position)} program that they compile together, {found.function}"
    head = "It is not the same program on every host: "
    if found.first is None or found.second is None:
        absent, there = groups[:2] if found.second else groups[1::-1]
        return f"{head}{absent} did not get to {program}, as {there} did."
    what = "; ".join(found.differences) or "only its fingerprint is known"
    return f"{head}{program}, differs between {listed(groups)}: {what}."


def _longest(job: JobFacts) -> Iterator[Finding]:
    """Yields the function whose compiles took longest."""
    if job.functions and job.seconds:
        first = job.functions[0]
        tail = f": {duration(first.seconds)} of {duration(job.seconds)} for all, in all processes."
        yield Finding(f"{first.name} took longest to compile.", "measured", tail=tail)
    if job.cached:
        loaded = (
            f"{job.cached:,} of {count(len(job.rows), 'program')} came from the persistent cache"
        )
        yield Finding(f"{loaded}, where the time of compile is that of loading.")


def _recompiled(job: JobFacts) -> Iterator[Finding]:
    """Yields why functions recompiled in the process that recompiled most."""
    processes = job.job.processes
    most = max(processes, key=lambda p: len(p.log.recompiles), default=None)
    if most is None or not most.log.recompiles:
        return
    where = f"in process {most.process.index}" if len(processes) > 1 else ""
    yield from answers(most.log, where)


def _failed(job: JobFacts) -> Iterator[Finding]:
    """Yields which compiles failed."""
    failed = [row for row in job.rows if row.compile.state == "failed"]
    if failed:
        names = [f"{r.function} ({r.compile.call.steps[-1].failed})" for r in failed]
        yield Finding(f"{count(len(failed), 'compile')} failed: {listed(names)}.")


def _trouble(job: JobFacts) -> Iterator[Finding]:
    for process in job.job.processes:
        label = f"process {process.process.index}"
        for text in process.process.trouble:
            yield Finding(f"The record of {label} is not complete: {text}.", "unknown")
        if process.damaged:
            text = f"Files of {label} could not be read: {listed(process.damaged)}."
            yield Finding(text, "unknown")


def _functions(functions: Sequence[FunctionRow]) -> Table:
    rows = (
        (f.name, f.defined, f.counts, f.again, len(f.programs), f.seconds, f.bytes)
        for f in functions
    )
    counts = map(NumberColumn, ("compiles a process", "recompiles", "programs"))
    columns: _Columns = [
        "function",
        "defined at",
        *counts,
        NumberColumn("time", duration, "time"),
        _MEMORY,
    ]
    note = (
        "Time: tracing, lowering and compiling in all processes. Memory: XLA's arguments, results "
        "and temporaries of its largest program, on one device. Programs: by their StableHLO and "
        "constants; one that several lines call has a file for each."
    )
    return replace(table("Functions", columns, rows, note), volatile_columns=(5,))


def _compiles(job: JobFacts) -> Table:
    steps = (
        NumberColumn(kind, duration, "time", none="") for kind in ("trace", "lower", "compile")
    )
    columns: _Columns = [NumberColumn("#"), "process", "function", "called at"]
    columns += [NumberColumn("begins", duration), *steps, _MEMORY, "why", "program"]
    rows = ((n, *_row(row), _program(row, job)) for n, row in enumerate(job.rows))
    note = "jaxlens.runs(...)[#].capture opens a program. Begins: by the clocks of the hosts."
    if job.pages:
        folder = next(iter(job.pages.values())).partition("/")[0]
        note += f" This page needs {folder} beside it: {count(len(job.pages), 'program')}."
    shown = table("Compiles", columns, rows, note, most=_ROWS, rest=" compiles are left out")
    return replace(shown, volatile_columns=(4, 5, 6, 7))


def _row(row: CompileRow) -> tuple[object, ...]:
    call = row.compile.call
    state = "failed; " if row.compile.state == "failed" else ""
    disk = "from the persistent cache; " if call.loaded else ""
    return (
        row.label,
        row.function,
        place(call.line),
        row.start,
        *step_cells(call),
        row.bytes if row.compile.memory else "",
        f"{state}{disk}{call.reason}",
    )


def _program(row: CompileRow, job: JobFacts) -> Cell:
    name = row.compile.program
    if not name:
        return Cell(row.compile.note)
    if name not in job.job.programs:
        return Cell("not written")
    page = job.pages.get(name)
    return Cell(name[:8], links=(CellLink(name[:8], page),) if page else ())


def _processes(job: JobFacts) -> Table:
    rows = (_process_row(job.labels[p.folder], p) for p in job.job.processes)
    columns: _Columns = [
        "process",
        "host",
        NumberColumn("pid", str),
        "devices",
        NumberColumn("compiles"),
    ]
    columns += [NumberColumn("recorded", duration), "state"]
    rest = " processes are left out"
    shown = table("Processes", columns, rows, most=_PROCESSES, rest=rest)
    return replace(shown, volatile_columns=(1, 2, 5))


def _process_row(label: str, record: ProcessRecord) -> tuple[object, ...]:
    p = record.process
    state = f"ended with {p.error}" if p.error else "ended"
    state = state if p.ended else "did not end, or still runs"
    return label, p.host, p.pid, p.devices, len(record.compiles), record.seconds, state
