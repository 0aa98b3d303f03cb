"""The record of a job: what each of its processes compiled, when, why, and how large it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jaxlens.ir.compile_log import CallEvent, CompileLog
from jaxlens.ir.facts import Memory

RECORD = "the record of a job"
"""What a program of a record was read from, as a noun."""
Place = tuple[int, int]
"""Where a program is in its process's file: offset and length in bytes."""


@dataclass(frozen=True, slots=True)
class RecordedConstant:
    """An array that is part of a program.

    Attributes:
        type: Its type, as text.
        digest: Hash of its values; "" where they were not read: they are large or elsewhere.
    """

    type: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class RecordedCompile:
    """One compile of one process.

    Attributes:
        number: Order in the process, from 1.
        call: The call that compiled: its steps with their seconds, its key, what is new in it.
        start: Seconds from the start of the process's record to its first step.
        state: Whether it failed.
        memory: XLA's sizes; None where it gave none.
        processes: The processes whose devices it is for.
        constants: The arrays that are part of the program, in its order.
        program: A hash of its StableHLO and optimised text, its name in the record; "" for none.
        note: Why there is no capture.
        devices: Ids of its devices, in the order of the program's partitions.
        place: Where its capture is; () where an earlier compile has it, and for none.
    """

    number: int
    call: CallEvent
    start: float
    state: Literal["done", "failed"] = "done"
    memory: Memory | None = None
    processes: tuple[int, ...] = ()
    constants: tuple[RecordedConstant, ...] = ()
    program: str = ""
    note: str = ""
    devices: tuple[int, ...] = ()
    place: tuple[int, ...] = ()

    @property
    def bytes(self) -> int | None:
        """What the program needs of a device's memory, by XLA's sizes; None if they are unknown."""
        return self.memory.needed if self.memory else None


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """One process of a job.

    Attributes:
        index: Its index under `jax.distributed`; 0 without it.
        count: Number of processes of the job, as it saw it.
        host: Name of its machine.
        pid: Its process id there.
        started: When the record began, in seconds since 1970 by the machine's clock.
        devices: Its devices: "4 x NVIDIA H200".
        ended: Whether its record was closed: not where it was killed, or still runs.
        seconds: Seconds from the start of the record until this was written, or to the exception.
        trouble: What went wrong with the record, in sentences.
        start: Identity of the job's start, equal in all of its processes; "" where unknown.
        settings: What should be equal in all processes besides the program: versions of "jax",
            "jaxlib" and "Python", and flags of XLA, "" for none. Empty in older records.
        error: Name of the exception that ended the record; "" for none.
        parent: Process id of the recorded process that started it, itself or by others; 0 for none.
    """

    index: int
    count: int
    host: str
    pid: int
    started: float
    devices: str = ""
    ended: bool = False
    seconds: float = 0.0
    trouble: tuple[str, ...] = ()
    start: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    parent: int = 0


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process with its compiles, in order.

    Attributes:
        folder: Name of its folder in the record.
        process: The process.
        compiles: Its compiles.
        damaged: Names of files that could not be read.
    """

    folder: str
    process: RecordedProcess
    compiles: tuple[RecordedCompile, ...]
    damaged: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds from the start of the record until it was last written."""
        ends = (c.start + c.call.seconds for c in self.compiles)
        return max(self.process.seconds, *ends, 0.0)

    @property
    def log(self) -> CompileLog:
        """The compiles as the log of a watch."""
        return CompileLog(tuple(c.call for c in self.compiles), self.process.trouble)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record of a job.

    Attributes:
        name: Its folder as the user wrote it.
        processes: By index, then by start.
        programs: The captures that are there, by name: the process's folder, the place in a file.
    """

    name: str
    processes: tuple[ProcessRecord, ...]
    programs: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    @property
    def compiles(self) -> tuple[tuple[ProcessRecord, RecordedCompile], ...]:
        """All compiles, each with its process: processes in order, then by number."""
        return tuple((p, c) for p in self.processes for c in p.compiles)
