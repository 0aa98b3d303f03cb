"""Compares what the processes of one job compiled together, after the fact.

Under `jax.distributed` all processes must run the same programs in the same order; where one does
not, all wait in a collective. A program that is for the devices of several processes is compiled by
each of them, so the first compile that differs names what went apart.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.record import JobRecord, ProcessRecord, RecordedCompile
from jaxlens.jobs.record.program_difference import (
    StageOf,
    differences,
    other_constants,
    other_devices,
)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first program that two processes of one job did not compile alike.

    Attributes:
        position: Its position among the programs of several processes, from 1.
        left: The process with the lowest index.
        right: A process that differs from it.
        first: What the one compiled there; None for nothing.
        second: What the other compiled there; None for nothing.
        groups: The names of processes by what they compiled there: the left one's, the right
            one's, then others.
        where: Where a program that only one of the two compiled lies: "after step"; "" if the
            other compiled nothing later.
        differences: What differs, a sentence each; the first is the cause, as far as is known.
    """

    position: int
    left: ProcessRecord
    right: ProcessRecord
    first: RecordedCompile | None
    second: RecordedCompile | None
    groups: tuple[tuple[str, ...], ...]
    where: str
    differences: tuple[str, ...]

    @property
    def function(self) -> str:
        """Name of the function."""
        compile = self.first or self.second
        return compile.call.function if compile else ""

    @property
    def last(self) -> RecordedCompile | None:
        """The last program that the process compiled with others which has none there."""
        shared = together(self.left if self.first is None else self.right)
        return shared[-1] if shared else None


@dataclass(frozen=True, slots=True)
class StartComparison:
    """What the processes of one start did not compile alike.

    Attributes:
        mismatch: The first program that is not the same, in which they can wait for each other.
        settings: The versions and flags that differ, a text each.
    """

    mismatch: Mismatch | None
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Unlike:
    """Two programs at one point of two sequences of compiles; None for none.

    Attributes:
        at: Index of the point in both sequences, which are equal before it.
    """

    at: int
    first: RecordedCompile | None
    second: RecordedCompile | None


def attempts(job: JobRecord) -> list[tuple[ProcessRecord, ...]]:
    """Returns the processes of each start of the job, in order: a folder may have several.

    Where a start has no identity (an older record, a JAX without a store), the n-th processes of
    each index are one.
    """
    starts: dict[tuple[int, str, int], list[ProcessRecord]] = {}
    seen: Counter[tuple[int, int]] = Counter()
    for process in job.processes:
        index, count, start = process.process.index, process.process.count, process.process.start
        if not start:
            seen[count, index] += 1
        starts.setdefault((count, start, 0 if start else seen[count, index]), []).append(process)
    return sorted(map(tuple, starts.values()), key=lambda start: start[0].process.started)


def parts(start: Sequence[ProcessRecord]) -> Iterator[tuple[ProcessRecord, ...]]:
    """Yields the processes of programs that the first one takes no part in: a stage, an actor."""
    for indices in sorted({c.processes for p in start[1:] for c in together(p)}):
        part = tuple(p for p in start if p.process.index in indices)
        if start[0] not in part and len(part) > 1:
            yield part


def together(process: ProcessRecord) -> tuple[RecordedCompile, ...]:
    """Returns the compiles of programs that are for devices of several processes."""
    return tuple(c for c in process.compiles if len(c.processes) > 1)


def compared(
    processes: Sequence[ProcessRecord], stage_of: StageOf, labels: Mapping[str, str]
) -> StartComparison:
    """Compares the processes of one start with the first of them.

    Args:
        processes: The processes.
        stage_of: Gives a stage of a program.
        labels: The processes' names by their folders.
    """
    left, *rest = sorted(processes, key=lambda p: p.process.index)
    first_unlike: dict[str, tuple[_Unlike, str]] = {}  # with where it is, by the right one's folder
    for right in rest:
        both = {left.process.index, right.process.index}
        shared = [[c for c in together(p) if both <= {*c.processes}] for p in (left, right)]
        if (unlike := _first_unlike(*shared)) is not None:
            first_unlike[right.folder] = unlike, _where(unlike, *shared)
    settings = tuple(_other_settings(left, rest, labels))
    found = _mismatch(left, rest, first_unlike, stage_of, labels) if first_unlike else None
    return StartComparison(found, settings)


def _mismatch(
    left: ProcessRecord,
    rest: Sequence[ProcessRecord],
    first_unlike: Mapping[str, tuple[_Unlike, str]],
    stage_of: StageOf,
    labels: Mapping[str, str],
) -> Mismatch:
    """Returns the earliest difference, and which processes compiled the same there.

    Args:
        left: The process that the others are compared with.
        rest: The others.
        first_unlike: The first difference of each, and where it is, by the process's folder.
        stage_of: Gives a stage of a program.
        labels: The processes' names by their folders.
    """
    folder, (unlike, where) = min(first_unlike.items(), key=lambda row: row[1][0].at)
    right = next(p for p in rest if p.folder == folder)
    groups: dict[object, list[str]] = {None: [], _there(unlike): []}
    for p in (left, *rest):
        other = first_unlike.get(p.folder, (None, ""))[0]
        is_here = other is not None and other.at == unlike.at
        groups.setdefault(_there(other) if is_here else None, []).append(labels[p.folder])
    names = f"process {labels[left.folder]}", f"process {labels[right.folder]}"
    return Mismatch(
        unlike.at + 1,
        left,
        right,
        unlike.first,
        unlike.second,
        tuple(map(tuple, groups.values())),
        where,
        tuple(differences(unlike.first, unlike.second, names, stage_of)),
    )


def _other_settings(
    left: ProcessRecord, rest: Sequence[ProcessRecord], labels: Mapping[str, str]
) -> Iterator[str]:
    """Yields the settings in which a process differs from the first, by the first that does."""
    for name, value in left.process.settings.items():
        for right in rest:
            other = right.process.settings.get(name, value)
            if _effective(value) != _effective(other):
                here, there = (f"process {labels[p.folder]}" for p in (left, right))
                yield f"{name} is {value or 'unset'} in {here}, {other or 'unset'} in {there}"
                break


def _effective(flags: str) -> list[str]:
    """Returns flags without their order, and without folders of dumps, which change no program."""
    return sorted(flag for flag in flags.split() if not flag.startswith("--xla_dump_to"))


def _there(unlike: _Unlike | None) -> object:
    """Returns what is equal for processes that compiled the same instead of the left one's."""
    second = unlike.second if unlike else None
    return (second and (*_ident(second), second.devices), unlike and unlike.first is None)


def _where(
    unlike: _Unlike, left: Sequence[RecordedCompile], right: Sequence[RecordedCompile]
) -> str:
    """Returns where a program of one sequence lies; "" if nothing follows in the other one."""
    others, at = (left if unlike.first is None else right), unlike.at
    if at >= len(others):
        return ""
    return f"after {others[at - 1].call.function}" if at else f"before {others[0].call.function}"


def _first_unlike(
    left: Sequence[RecordedCompile], right: Sequence[RecordedCompile]
) -> _Unlike | None:
    """Returns the first point at which two sequences differ; None if they are equal.

    A program that one of the two compiled more is one that the other does not have from there on,
    while it has the one after.
    """
    at = 0
    for first, second in zip(left, right, strict=False):
        if _ident(first) != _ident(second):
            break
        if _differs_besides(first, second):
            return _Unlike(at, first, second)
        at += 1
    if at == max(len(left), len(right)):
        return None
    if at == min(len(left), len(right)):
        return _Unlike(at, next(iter(left[at:]), None), next(iter(right[at:]), None))
    first, second = left[at], right[at]
    for same in (_ident, _function):
        is_later = same(first) in map(same, right[at:]), same(second) in map(same, left[at:])
        if is_later == (True, False):
            return _Unlike(at, None, second)
        if is_later == (False, True):
            return _Unlike(at, first, None)
        if any(is_later):
            break
    return _Unlike(at, first, second)


def _function(compile: RecordedCompile) -> str:
    return compile.call.function


def _ident(compile: RecordedCompile) -> tuple[str, str]:
    return compile.call.function, compile.call.program


def _differs_besides(first: RecordedCompile, second: RecordedCompile) -> bool:
    """Whether two programs of the same text are not the same program."""
    return bool(other_constants(first, second, ("", "")) or other_devices(first, second, ("", "")))
