"""Reports a job's record: whether processes agree, why functions recompiled, what took long."""

from collections.abc import Iterator, Sequence

from jaxlens.ir.record import ProcessRecord, RecordedCompile
from jaxlens.jobs.record.facts import CompileRow, FunctionRow, JobFacts
from jaxlens.jobs.record.same_program import Mismatch, attempts
from jaxlens.program.recompile_causes import answers, place, step_cells
from jaxlens.program.sentences import listed, ordinal
from jaxlens.report import (
    Cell,
    CellLink,
    Finding,
    Report,
    Table,
    amount,
    barred,
    cells,
    count,
    duration,
)

_ROWS = 200  # compiles in the table
_SOURCES = 3  # functions that are named
_PROCESSES = 50  # processes in the table


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
        findings.insert(0, _none(job))
    tables = [_functions(job.functions), _compiles(job)] if job.rows else []
    return Report("Record", tuple(findings), (*tables, _processes(job)))


def _none(job: JobFacts) -> Finding:
    """Returns why there is no compile: a process that was killed may have had some."""
    if all(p.process.ended for p in job.job.processes):
        return Finding("No function of the user's was compiled.")
    return Finding(
        "The record has no compile, and processes that did not end, whose last one may be lost.",
        "unknown",
    )


def _same(job: JobFacts) -> Iterator[Finding]:
    """Yields whether the processes compiled the same programs."""
    if job.compared < 2 or not job.together:
        return
    yield from _settings(job)
    if job.mismatch is None:
        programs = count(job.together, "program")
        what = "The StableHLO is the same" if job.settings else "It is the same program"
        text = f"{what} on every host: {job.compared} processes compiled "
        yield Finding(f"{text}{programs} together, in one order.", "compared")
        return
    yield Finding(_apart(job.mismatch), "compared")


def _settings(job: JobFacts) -> Iterator[Finding]:
    """Yields the versions and flags that differ."""
    if job.settings:
        text = "The processes differ in what should be equal on all hosts"
        yield Finding(f"{text}: {'; '.join(job.settings)}.", "compared")


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
        run = [p for p in start if not p.process.ended]
        waits = " The others may wait for it in a collective." if run else ""
        for p in start:
            name, at = f"Process {job.labels[p.folder]}", duration(p.seconds)
            if p.process.error:
                text = f"{name} ended with {p.process.error}"
                yield Finding(text, "counted", tail=f", after {at}.{waits}")


def _called(compile: RecordedCompile) -> str:
    """Returns a function with the line of its call, as many are lambdas."""
    line = place(compile.call.line)
    return f"{compile.call.function} ({line})" if line else compile.call.function


def _processes_named(labels: Sequence[str]) -> str:
    return f"process{'es' * (len(labels) > 1)} {listed(labels)}"


def _apart(found: Mismatch) -> str:
    groups = [_processes_named(group) for group in found.groups]
    program = f"the {ordinal(found.position)} program that they compile together"
    head = "It is not the same program on every host: "
    compile = found.first or found.second
    if compile is not None and (found.first is None or found.second is None):
        there, absent = (groups[1], groups[0]) if found.second else (groups[0], groups[1])
        if not found.where:
            last = f"; the last one of {absent} is {_called(found.last)}" if found.last else ""
            called = f"{program}, {_called(compile)}"
            return f"{head}{absent} did not get to {called}, as {there} did{last}."
        why = f" ({compile.call.reason})" if compile.call.changes else ""
        called = f"{_called(compile)}, {found.where}{why}"
        return f"{head}{there} compiled one program more than {absent}, {called}."
    what = "; ".join(found.differences) or "only its fingerprint is known"
    if len(groups) > 1:
        groups = [g + " (alike)" * (len(n) > 1) for g, n in zip(groups, found.groups, strict=True)]
    return f"{head}{program}, {found.function}, differs between {listed(groups)}: {what}."


def _longest(job: JobFacts) -> Iterator[Finding]:
    """Yields the function whose compiles took longest."""
    if job.functions and job.seconds:
        first, recorded = job.functions[0], sum(p.seconds for p in job.job.processes)
        took = f"{duration(first.seconds)} of {duration(job.seconds)}"
        several = ", both summed over processes" if len(job.job.processes) > 1 else ""
        tail = f": {took} for all, in {duration(recorded)} that were recorded{several}."
        yield Finding(f"{first.name} took longest to compile.", "measured", tail=tail)
    if job.cached:
        loaded = (
            f"{job.cached:,} of {count(job.compiles, 'program')} came from the persistent cache"
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
    rows = tuple(
        (
            *cells(f.name, f.defined, f.counts, f.again, len(f.programs)),
            Cell(duration(f.seconds), f.seconds),
            Cell(amount(f.bytes), f.bytes),
        )
        for f in functions
    )
    columns = ("function", "defined at", "compiles a process", "recompiles", "programs")
    note = (
        "Time: tracing, lowering and compiling in all processes. Memory: XLA's arguments, results "
        "and temporaries of its largest program, on one device. Programs: by their StableHLO and "
        "constants; one that several lines call has a file for each."
    )
    shown, right = barred(rows, (5,), (6,)), (2, 3, 4, 5, 6)
    heads = (*columns, "time", "memory")
    return Table("Functions", heads, shown, note, right=right, volatile_columns=(5,))


def _compiles(job: JobFacts) -> Table:
    rows = tuple((*_row(n, row), _program(row, job)) for n, row in enumerate(job.rows[:_ROWS]))
    times = ("begins", "trace", "lower", "compile")
    columns = ("#", "process", "function", "called at", *times, "memory", "why", "program")
    left = len(job.rows) - len(rows)
    note = "jaxlens.runs(...)[#].capture opens a program."
    note += f" {left:,} more compiles are left out." if left else ""
    if job.pages:
        folder = next(iter(job.pages.values())).partition("/")[0]
        note += f" This page needs {folder} beside it: {count(len(job.pages), 'program')}."
    shown, right = barred(rows, (5, 6, 7), (8,)), (0, 4, 5, 6, 7, 8)
    return Table("Compiles", columns, shown, note, right=right, volatile_columns=(4, 5, 6, 7))


def _row(number: int, row: CompileRow) -> tuple[Cell, ...]:
    call = row.compile.call
    state = "failed; " if row.compile.state == "failed" else ""
    disk = "from the persistent cache; " if call.loaded else ""
    return (
        *cells(number, row.label, row.function, place(call.line)),
        Cell(duration(row.start), row.start),
        *step_cells(call),
        Cell(amount(row.compile.bytes) if row.compile.memory else "", row.compile.bytes),
        Cell(f"{state}{disk}{call.reason}"),
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
    shown = job.job.processes[:_PROCESSES]
    rows = tuple(_process_row(job.labels[p.folder], p) for p in shown)
    columns = ("process", "host", "pid", "devices", "compiles", "recorded", "state")
    left = len(job.job.processes) - len(shown)
    notes = [f"{left:,} more processes are left out."] if left else []
    if any(p.process.parent for p in shown):
        note = "0.1 is a process that process 0 started; a pool terminates its workers, whose last "
        notes.insert(0, f"{note}compile may be missing.")
    note = " ".join(notes)
    return Table("Processes", columns, rows, note, right=(2, 4, 5), volatile_columns=(1, 2, 5))


def _process_row(label: str, record: ProcessRecord) -> tuple[Cell, ...]:
    p = record.process
    state = f"ended with {p.error}" if p.error else "ended"
    return (
        *cells(label, p.host, str(p.pid), p.devices, len(record.compiles)),
        Cell(duration(record.seconds), record.seconds),
        Cell(state if p.ended else "did not end, or still runs"),
    )
