"""Writes a record in a thread of its own."""

import os
import queue
import shlex
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import jax

from jaxlens.errors import UnavailableError
from jaxlens.ir.record import RecordedCompile, RecordedProcess
from jaxlens.ir.saved.job_files import ProcessFolder
from jaxlens.stages.record.compiled_program import CompiledProgram

_MOST = 10_000  # compiles that are recorded; of more, the number is
_TICK = 1.0  # seconds; a compile that takes longer is written while it goes on
_WAITING = 16 << 20  # characters of programs that wait to be written
_ONE = 16 << 20  # characters of one program
_KEPT = 1000  # compiles that are kept for when the disk has room again
_SELDOM = 10.0  # seconds between two writes of what the process is


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """How many programs one process writes, and how many bytes of them."""

    programs: int = 200
    bytes: int = 200_000_000

    def refused(self, written: tuple[int, int], waiting: int) -> str:
        """Returns why one more program is not recorded; "" if it is.

        Args:
            written: Number and bytes of the programs that are written.
            waiting: Characters of those that wait.
        """
        if written[0] >= self.programs:
            return f"{self.programs} programs are in the record, its limit"
        if written[1] >= self.bytes:
            return f"{self.bytes / 1e6:.0f} MB of programs are in the record, its limit"
        return "too many programs waited to be written" if waiting > _WAITING else ""


@dataclass(slots=True)
class Pending:
    """A compile that has ended, and is not written yet.

    Attributes:
        data: What is known of it so far.
        program: The program; None if there is none to write.
    """

    data: RecordedCompile
    program: CompiledProgram | None = None


@dataclass(slots=True)
class _Written:
    """What was written so far, and what could not be."""

    compiles: int = 0
    programs: int = 0
    bytes: int = 0
    left_out: int = 0
    kept: list[RecordedCompile] = field(default_factory=list)


class Writer:
    """A queue of compiles, and the thread that writes them.

    Args:
        root: The folder of the record.
        limits: How much is written at most.
        command: The command line of the process.
    """

    def __init__(self, root: Path, limits: RecordLimits, command: str) -> None:
        self._root = root
        self._limits = limits
        self._started, self._zero = time.time(), time.perf_counter()
        words = command or shlex.join(sys.argv)
        self._process = RecordedProcess(
            0, 1, socket.gethostname(), os.getpid(), self._started, words[:2000], jax.__version__
        )
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="jaxlens record", daemon=True)
        self._folder: ProcessFolder | None = None
        self._done = _Written()
        self._going: dict[int, RecordedCompile] = {}
        self._shown: set[int] = set()  # compiles that were written while they went on
        self._operations: Counter[str] = Counter()
        self._operation_seconds = 0.0
        self._troubles: dict[str, int] = {}
        self._lock = threading.Lock()
        self._counted = 0  # compiles when the process was written
        self.waiting = 0

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Waits until all is written, at most for so long."""
        self._queue.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._trouble(f"writing took longer than {seconds:.0f} s, and was left")

    @property
    def written(self) -> int:
        """Number of compiles that are written."""
        return self._done.compiles

    @property
    def programs(self) -> tuple[int, int]:
        """Number and bytes of the programs that are written."""
        return self._done.programs, self._done.bytes

    @property
    def trouble(self) -> tuple[str, ...]:
        """What went wrong, in sentences; what went wrong often, once."""
        return tuple(f"{text} ({n} times)" if n > 1 else text for text, n in self._troubles.items())

    # ---- from the threads that compile -------------------------------------------------------

    def begins(self, compile: RecordedCompile) -> None:
        """A compile begins."""
        if compile.number <= _MOST:
            self._going[compile.number] = compile

    def since(self, moment: float) -> float:
        """Returns the seconds from the start of the record to a moment of `time.perf_counter`."""
        return moment - self._zero

    def ends(self, compile: Pending) -> None:
        """A compile has ended."""
        if compile.data.number > _MOST:
            with self._lock:
                self._done.left_out += 1
            return
        self._count(len(compile.program.text) if compile.program else 0)
        self._queue.put(lambda: self._write(compile))

    def operation(self, name: str, seconds: float) -> None:
        """JAX compiled a function of its own."""
        with self._lock:
            self._operations[name] += 1
            self._operation_seconds += seconds

    def _count(self, characters: int) -> None:
        with self._lock:
            self.waiting += characters

    # ---- in the thread -----------------------------------------------------------------------

    def _work(self) -> None:
        last = time.perf_counter()
        while True:
            with suppress(queue.Empty):
                task = self._queue.get(timeout=_TICK)
                if task is None:
                    break
                self._safely(task)
            if time.perf_counter() - last >= _TICK:
                self._safely(self._write_going)
                last = time.perf_counter()
        self._safely(self._write_kept)
        self._safely(lambda: self._write_process(ended=True))

    def _safely(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception as error:  # of the disk, of JAX, of ours: the job goes on
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._trouble(f"{type(error).__name__}: {reason or 'no reason given'}"[:200])

    def _trouble(self, text: str) -> None:
        with self._lock:
            self._troubles[text] = self._troubles.get(text, 0) + 1

    def _write(self, compile: Pending) -> None:
        data, program = compile.data, compile.program
        self._going.pop(data.number, None)
        try:
            if program is not None:
                data = _described(data, program)
            self._save(data)
            if program is not None and data.program:
                self._write_program(program)
        finally:
            self._count(-len(program.text) if program else 0)

    def _save(self, data: RecordedCompile) -> None:
        """Writes a compile; keeps it for later if the disk is full."""
        try:
            self._to_folder().write_compile(data)
        except OSError:
            if len(self._done.kept) < _KEPT:
                self._done.kept.append(data)
            raise
        if data.number not in self._shown:
            self._done.compiles += 1
        self._shown.discard(data.number)

    def _write_program(self, program: CompiledProgram) -> None:
        folder = self._to_folder()
        if not folder.has_program(program.digest):
            data = program.file()
            folder.write_program(program.digest, data)
            self._done.programs += 1
            self._done.bytes += len(data)

    def _write_going(self) -> None:
        """Writes the compiles that go on for a while, and what was kept."""
        now = time.perf_counter() - self._zero
        for number, data in list(self._going.items()):
            if number not in self._shown and now - data.start > _TICK:
                self._to_folder().write_compile(data)
                self._shown.add(number)
                self._done.compiles += 1
        self._write_kept()
        counted = self._done.compiles + sum(self._operations.values())
        if counted != self._counted and now - self._process.seconds > _SELDOM:
            self._write_process()
            self._counted = counted

    def _write_kept(self) -> None:
        while self._done.kept:
            self._to_folder().write_compile(self._done.kept[0])
            self._done.kept.pop(0)
            self._done.compiles += 1

    def _to_folder(self) -> ProcessFolder:
        """Returns the process's folder, made when there is something to write into it."""
        if self._folder is None:
            # A backend exists by now: asking earlier would make one, before the script has
            # called `jax.distributed.initialize`.
            devices = jax.local_devices()
            index, count = jax.process_index(), jax.process_count()
            named = f"{len(devices)} x {devices[0].device_kind}"
            self._process = replace(self._process, index=index, count=count, devices=named)
            process = self._process
            self._folder = ProcessFolder(self._root, index, process.host, process.pid)
            self._write_process()
        return self._folder

    def _write_process(self, ended: bool = False) -> None:
        if self._folder is None:
            return
        with self._lock:
            operations = dict(self._operations.most_common(50))
            seconds = self._operation_seconds
        self._process = replace(
            self._process,
            ended=ended,
            seconds=time.perf_counter() - self._zero,
            operations=operations,
            operation_seconds=seconds,
            left_out=self._done.left_out,
            trouble=self.trouble,
        )
        self._folder.write_process(self._process)


def _described(data: RecordedCompile, program: CompiledProgram) -> RecordedCompile:
    """Returns the data with XLA's figures, and the program's name if it is to be written."""
    cost: Mapping[str, float] = {}
    with suppress(UnavailableError):
        cost = program.cost()
    data = replace(
        data,
        memory=program.memory(),
        cost={name: cost[name] for name in ("flops", "bytes accessed") if name in cost},
        platform=program.platform,
    )
    try:
        if program.size > _ONE:
            note = f"its text has {program.size / 1e6:.0f} MB, more than the limit"
            return replace(data, note=note)
        constants = program.hashed_constants()
        return replace(data, constants=constants, program=program.digest, note="")
    except Exception as error:  # of XLA, or of a version of JAX that has other attributes
        note = f"its program could not be read: {type(error).__name__}: {error}"
        return replace(data, note=note[:200])
