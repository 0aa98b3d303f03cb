"""Writes a record in a thread of its own."""

import os
import platform
import queue
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jaxlib

from jaxlens.compat import coordinator
from jaxlens.ir.record import RecordedCompile, RecordedProcess
from jaxlens.ir.saved.job_files import ProcessFolder
from jaxlens.jobs.record.lowered_program import LoweredProgram

_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_WAITING = 32  # compiles that wait to be written
_recordings: Counter[str] = Counter()  # of this process, by the folder's name


class Writer:
    """A queue of compiles, and the thread that writes them.

    Args:
        root: The folder of the record.
        programs: The most programs that are written.
        most_bytes: The most bytes of them.
        parent: Process id of the recorded process that started this one; 0 for none.

    Attributes:
        files: Numbers of the compiles that have a file.
    """

    def __init__(self, root: Path, programs: int, most_bytes: int, parent: int) -> None:
        self._root, self._programs, self._most_bytes = root, programs, most_bytes
        self._zero = time.perf_counter()
        _recordings[root.name] += 1
        self._number = _recordings[root.name]
        self._process = RecordedProcess(
            0, 1, socket.gethostname(), os.getpid(), time.time(), parent=parent
        )
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="jaxlens record", daemon=True)
        self._folder: ProcessFolder | None = None
        self.files: set[int] = set()
        self._end: dict[str, Any] = {}  # what the process's file says of its end
        self._sizes: list[int] = []  # bytes of the programs that are written
        self._troubles: Counter[str] = Counter()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def settle(self, error: str, seconds: float) -> None:
        """Waits until all is written, as of a process that ended, at most for so long."""
        written = threading.Event()
        self._end = {"ended": True, "error": error}
        if error:  # the process may yet wait for others before it exits
            self._end["seconds"] = time.perf_counter() - self._zero
        for task in (self._write_process, written.set):
            self._queue.put(task)
        if not written.wait(seconds):
            self._trouble(f"writing took longer than {seconds:.0f} s, and was left")

    def stop(self, seconds: float) -> None:
        """Ends the thread once all is written, at most after so long."""
        self._end = {"ended": True, **self._end}
        self._queue.put(None)
        self._thread.join(seconds)

    @property
    def trouble(self) -> tuple[str, ...]:
        """What went wrong, in sentences; what went wrong often, once."""
        return tuple(f"{text} ({n} times)" if n > 1 else text for text, n in self._troubles.items())

    # ---- from the threads that compile -------------------------------------------------------

    def since(self, moment: float) -> float:
        """Returns the seconds from the start of the record to a moment of `time.perf_counter`."""
        return moment - self._zero

    def refused(self) -> str:
        """Returns why a program is not recorded; "" if it is."""
        if len(self._sizes) >= self._programs:
            return f"{self._programs} programs are in the record, its limit (raise --programs)"
        if sum(self._sizes) >= self._most_bytes:
            size = f"{self._most_bytes / 1e6:.0f} MB of programs"
            return f"{size} are in the record, its limit (raise --megabytes)"
        return "too many programs waited to be written" if self._queue.qsize() > _WAITING else ""

    def ends(
        self, compile: RecordedCompile, lowered: LoweredProgram | None, executable: Any
    ) -> None:
        """A compile has ended; the program is None if there is none to write."""
        if lowered is None and compile.note:
            self._trouble(f"a program is left out: {compile.note}")
        self._queue.put(lambda: self._write(compile, lowered, executable))

    # ---- in the thread -----------------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            self._safely(task)
        self._safely(self._write_process)

    def _safely(self, task: Callable[[], object]) -> None:
        try:
            task()
        except Exception as error:  # of the disk, of JAX, of ours: the job goes on
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._trouble(f"{type(error).__name__}: {reason or 'no reason given'}"[:200])

    def _trouble(self, text: str) -> None:
        with self._lock:
            self._troubles[text] += 1

    def _write(
        self, data: RecordedCompile, lowered: LoweredProgram | None, executable: Any
    ) -> None:
        """Writes a compile, and its program if there is none of that text."""
        folder = self._to_folder()
        if lowered is not None:
            data = self._with_program(folder, data, lowered, executable)
        folder.write_compile(data)
        self.files.add(data.number)
        self._write_process()

    def _with_program(
        self, folder: ProcessFolder, data: RecordedCompile, lowered: LoweredProgram, executable: Any
    ) -> RecordedCompile:
        """Writes the program; returns the data with XLA's sizes, and the program's name."""
        # Imported here, while JAX compiles, and not as a job starts.
        from jaxlens.jobs.record.compiled_program import CompiledProgram

        program = CompiledProgram(data.call, lowered, executable)
        data = replace(data, memory=program.memory())
        try:
            constants, name = program.hashed_constants(), program.digest
            content = b"" if folder.has_program(name) else program.file()
        except Exception as error:  # of XLA, or of a version of JAX that has other attributes
            note = f"its program could not be read: {type(error).__name__}: {error}"
            return replace(data, note=note[:200])
        if content:
            folder.write_program(name, content)
            self._sizes.append(len(content))
        return replace(data, constants=constants, program=name)

    def _to_folder(self) -> ProcessFolder:
        """Returns the process's folder, made when there is something to write into it."""
        if self._folder is None:
            # A backend exists by now: asking earlier would make one, before the script has
            # called `jax.distributed.initialize`.
            devices = jax.local_devices()
            index, count = jax.process_index(), jax.process_count()
            named = f"{len(devices)} x {devices[0].device_kind}"
            self._process = process = replace(
                self._process,
                index=index,
                count=count,
                devices=named,
                start=self._start(),
                settings=_settings(),
            )
            self._folder = ProcessFolder(self._root, index, process.host, process.pid)
            self._write_process()
        return self._folder

    def _start(self) -> str:
        """Returns the identity of this recording in all processes of the job; "" without a store.

        The first process that asks publishes it. It does not contain the folder's name, which may
        differ between hosts that share no disk.
        """
        coordinator.publish("jaxlens/job", uuid.uuid4().hex[:12])
        job = coordinator.published("jaxlens/job")
        return f"{job}-{self._number}" if job else ""

    def _write_process(self) -> None:
        if self._folder is None:
            return
        self._process = replace(
            self._process,
            **{"seconds": time.perf_counter() - self._zero, **self._end},
            trouble=self.trouble,
        )
        self._folder.write_process(self._process)


def _settings() -> dict[str, str]:
    """Returns the versions and flags that make other programs of the same StableHLO."""
    versions = {
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "Python": platform.python_version(),
    }
    return versions | {name: os.environ.get(name, "") for name in _FLAGS}
