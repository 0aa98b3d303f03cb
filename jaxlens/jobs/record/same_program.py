"""Compares what the processes of one job compiled together, after the fact.

Under `jax.distributed` all processes must run the same programs in the same order; where one does
not, all wait in a collective. A program that is for the devices of several processes is compiled by
each of them, so the first compile that differs names what went apart.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from jaxlens.ir.record import JobRecord, ProcessRecord, RecordedCompile
from jaxlens.jobs.record.program_difference import (
    StageOf,
    differences,
    other_constants,
    other_devices,
)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first program that the processes of one job did not compile alike.

    Attributes:
        position: Its position among the programs of these processes, from 1.
        first: What the process with the lowest index compiled there; None for nothing.
        second: What another process compiled there; None for nothing.
        groups: The names of processes by what they compiled there: the first one's, the second
            one's, then others.
        differences: What differs, a sentence each; the first is the cause, as far as is known.
    """

    position: int
    first: RecordedCompile | None
    second: RecordedCompile | None
    groups: tuple[tuple[str, ...], ...]
    differences: tuple[str, ...]

    @property
    def function(self) -> str:
        """Name of the function."""
        compile = self.first or self.second
        return compile.call.function if compile else ""


def attempts(job: JobRecord) -> list[tuple[ProcessRecord, ...]]:
    """Returns the processes of each start of the job, in order: a folder may have several.

    Where a start has no identity (no `jax.distributed`, a JAX without a store), the n-th processes
    of each index are one.
    """
    starts: dict[tuple[int, str, int], list[ProcessRecord]] = {}
    seen: Counter[tuple[int, int]] = Counter()
    for process in job.processes:
        index, count, start = process.process.index, process.process.count, process.process.start
        if not start:
            seen[count, index] += 1
        starts.setdefault((count, start, 0 if start else seen[count, index]), []).append(process)
    return sorted(map(tuple, starts.values()), key=lambda start: start[0].process.started)


def together(process: ProcessRecord) -> tuple[RecordedCompile, ...]:
    """Returns the compiles of programs that are for devices of several processes."""
    return tuple(c for c in process.compiles if len(c.processes) > 1)


def mismatch(
    start: Sequence[ProcessRecord], stage_of: StageOf, labels: Mapping[str, str]
) -> Mismatch | None:
    """Returns the first program that is not the same, in which processes can wait for each other.

    Processes that share programs, such as those of one stage of a pipeline, are compared with each
    other.

    Args:
        start: The processes of one start.
        stage_of: Gives a stage of a program.
        labels: The processes' names by their folders.
    """
    shared = {compile.processes for process in start for compile in together(process)}
    for indices in sorted(shared, key=lambda indices: (-len(indices), indices)):
        members = [process for process in start if process.process.index in indices]
        members.sort(key=lambda process: process.process.index)
        programs = ([c for c in together(p) if {*indices} <= {*c.processes}] for p in members)
        for position, row in enumerate(zip_longest(*programs), 1):
            groups: list[list[int]] = []
            for n, compile in enumerate(row):
                alike = next((g for g in groups if _is_same(row[g[0]], compile)), None)
                if alike is None:
                    groups.append([n])
                else:
                    alike.append(n)
            if len(groups) > 1:
                names = [[labels[members[n].folder] for n in group] for group in groups]
                first, second, *_ = (row[group[0]] for group in groups)
                pair = f"process {names[0][0]}", f"process {names[1][0]}"
                found = tuple(differences(first, second, pair, stage_of))
                return Mismatch(position, first, second, tuple(map(tuple, names)), found)
    return None


def _is_same(first: RecordedCompile | None, second: RecordedCompile | None) -> bool:
    """Whether two compiles are of the same program, as far as both records tell."""
    if first is None or second is None:
        return first is second
    if (first.call.function, first.call.program) != (second.call.function, second.call.program):
        return False
    return not any(of(first, second, ("", "")) for of in (other_constants, other_devices))


def other_settings(start: Sequence[ProcessRecord], labels: Mapping[str, str]) -> Iterator[str]:
    """Yields the settings in which a process differs from the first, by the first that does."""
    left, *rest = start
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
