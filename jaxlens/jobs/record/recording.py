"""Records what this process compiles into a folder, while it runs.

The thread that compiles keeps references, and StableHLO, which no other thread may read; a thread
of the recording does the rest. Nothing that goes wrong here reaches the user's call: it is
kept as a sentence, and said at the end.
"""

import os
import platform
import queue
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jaxlib

from jaxlens.call.arguments.inputs import static_text
from jaxlens.compat import coordinator
from jaxlens.compat.events import LOWERING, CompileResult, Stack
from jaxlens.ir.compile_log import LOOPS, CallEvent, CompileStepKind, KeyPart
from jaxlens.ir.record import RecordedCompile, RecordedProcess
from jaxlens.ir.saved.job_files import ProcessFolder
from jaxlens.jobs.record.lowered_program import LoweredProgram
from jaxlens.listen.listen import CompileWatch, PendingCall
from jaxlens.stages.trace.sources import source_text

_DONATED = LOWERING.index("donated_invars")
_PARTS = 500  # parts of a key that are recorded
_LONGEST = 400  # characters of a static value
_DEEPEST = 3  # dataclasses in one another of which each field is a part
_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_WAITING = 32  # compiles that wait to be written
_recordings: Counter[str] = Counter()  # of this process, by the folder's name
_PATIENCE = 0.1  # seconds that a compile waits to be written while XLA compiles another
_WAITS = 30.0  # seconds for the files that are not written yet when the recording ends


class Recording(CompileWatch):
    """A watch that writes each compile of a user's function into a folder.

    Args:
        root: The folder of the job's record, which other processes may write into too.
        most_bytes: The most bytes of programs that are written.
        parent: Process id of the recorded process that started this one; 0 for none.
    """

    def __init__(self, root: Path, most_bytes: int, parent: int) -> None:
        super().__init__()
        self._root, self._most_bytes = root, most_bytes
        self._new_process(parent)

    def _new_process(self, parent: int) -> None:
        """Makes what is of one process: a child that was forked has its parent's, and no thread."""
        self._pid, self._parent = os.getpid(), parent
        self._zero = time.perf_counter()
        _recordings[self._root.name] += 1
        self._job = _recordings[self._root.name]
        self._process = RecordedProcess(
            0, 1, socket.gethostname(), os.getpid(), time.time(), parent=parent
        )
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        # Set while XLA compiles, in which Python has nothing else to do.
        self._compiling = threading.Event()
        self._writer = threading.Thread(target=self._work, name="jaxlens record", daemon=True)
        self._folder: ProcessFolder | None = None
        self._end: dict[str, Any] = {}  # what the process's file says of its end
        self._bytes = 0  # of the programs that are written
        self._written: set[str] = set()  # names of them
        self._sources: dict[str, str] = {}  # texts that are written, by their key
        self._going: WeakKeyDictionary[PendingCall, LoweredProgram] = WeakKeyDictionary()
        self._numbers = count(1)

    def start(self) -> None:
        """Starts the recording and its thread."""
        self._writer.start()
        if self._parent:  # also workers of `multiprocessing` call this, which leave by os._exit
            from multiprocessing.util import Finalize

            Finalize(None, self.stop, exitpriority=-1000)
        super().start()

    def settle(self, error: str) -> None:
        """Writes all so far, or for 30 s, as of a process that ended by an exception, or ""."""
        if os.getpid() != self._pid:  # a child that was forked from the process
            return
        written = threading.Event()
        self._end = {"ended": True, "error": error}
        self._compiling.set()
        if error:  # the process may yet wait for others before it exits
            self._end["seconds"] = time.perf_counter() - self._zero
        for task in (self._write_process, written.set):
            self._queue.put(task)
        if not written.wait(_WAITS):
            self.trouble(f"writing took longer than {_WAITS:.0f} s, and was left")

    def stop(self) -> None:
        """Ends the recording once all is written, or after 30 s."""
        if os.getpid() == self._pid:
            super().stop()
            self._end = {"ended": True, **self._end}
            self._compiling.set()
            self._queue.put(None)
            self._writer.join(_WAITS)
            if self._folder is not None and not self._writer.is_alive():
                self._folder.close()

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong, in sentences."""
        return tuple(sorted(self._troubles))

    # ---- from the threads that compile -------------------------------------------------------

    def add(self, call: PendingCall) -> None:
        """Keeps nothing: a job may compile for days."""

    @property
    def reads_text(self) -> bool:
        """Whether programs are still written."""
        return not self._refused()

    def began(self, kind: CompileStepKind, call: PendingCall, stack: Stack) -> None:
        now = time.perf_counter()
        if os.getpid() != self._pid:
            self._new_process(self._parent or self._pid)
            self.start()
        if call.role == "op" and call.function not in LOOPS:
            return
        if (mine := self._going.get(call)) is None:
            mine = self._going[call] = LoweredProgram(now)
        mine.begun[kind] = now
        if kind != "trace" and stack.program is not None and hasattr(stack.program, "in_avals"):
            donated = (stack.lowering or ())[_DONATED:][:1]
            flags = tuple(bool(flag) for flag in donated[0] or ()) if donated else ()
            mine.jaxpr, mine.donated = stack.program, flags or mine.donated
        if kind == "compile":
            self._compiling.set()
            mine.number, mine.devices = next(self._numbers), stack.devices
            mine.note = self._refused()

    def ended(
        self, kind: CompileStepKind, call: PendingCall, compiled: CompileResult | None
    ) -> None:
        mine = self._going.get(call)
        if mine is not None:
            now = time.perf_counter()
            mine.seconds[kind] = now - mine.begun.pop(kind, now)
        if kind != "compile":
            return
        if not self._end:
            self._compiling.clear()
        self._going.pop(call, None)
        if mine is None or not mine.number:
            return
        mine.key, mine.text = call.parts, call.text
        failed = bool(call.steps[-1].failed)
        note = "" if failed else "JAX did not show the program"
        if compiled is not None:
            note = "" if mine.text else mine.note or "its program could not be read"
        if note:
            self.trouble(f"a program is left out: {note}")
        data = RecordedCompile(
            mine.number,
            _event(call, mine),
            mine.start - self._zero,
            "failed" if failed else "done",
            processes=tuple(sorted({device.process_index for device in mine.devices})),
            note=note,
            devices=tuple(device.id for device in mine.devices),
        )
        executable = None if note or compiled is None else compiled.executable
        self._queue.put(lambda: self._write(data, mine, executable))

    def _refused(self) -> str:
        """Returns why a program is not recorded; "" if it is."""
        if self._bytes >= self._most_bytes:
            size = f"{self._most_bytes / 1e6:g} MB of programs"
            return f"{size} are in the record, its limit (raise --megabytes)"
        return "too many programs waited to be written" if self._queue.qsize() > _WAITING else ""

    # ---- in the thread -----------------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            self._compiling.wait(_PATIENCE)
            self._safely(task)
        self._safely(self._write_process)

    def _safely(self, task: Callable[[], object]) -> None:
        try:
            task()
        except Exception as error:  # of the disk, of JAX, of ours: the job goes on
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.trouble(f"{type(error).__name__}: {reason or 'no reason given'}"[:200])

    def _write(self, data: RecordedCompile, lowered: LoweredProgram, executable: Any) -> None:
        """Writes a compile, and its program if there is none of that text."""
        folder = self._to_folder()
        if executable is not None:
            data = self._with_program(folder, data, lowered, executable)
        folder.write_compile(data)

    def _with_program(
        self, folder: ProcessFolder, data: RecordedCompile, lowered: LoweredProgram, executable: Any
    ) -> RecordedCompile:
        """Writes the program; returns the data with XLA's sizes, and the program's name."""
        # Imported here, while JAX compiles, and not as a job starts.
        from jaxlens.jobs.record.compiled_program import CompiledProgram

        program = CompiledProgram(data.call, lowered, executable, self._source)
        data = replace(data, memory=program.memory())
        try:
            constants, name = program.hashed_constants(), program.digest
            parts = {} if name in self._written else program.parts()
        except Exception as error:  # of XLA, or of a version of JAX that has other attributes
            note = f"its program could not be read: {type(error).__name__}: {error}"
            return replace(data, note=note[:200])
        data = replace(data, constants=constants, program=name)
        if not parts:
            return data
        place = folder.write_program(parts)
        self._bytes += place[1]
        self._written.add(name)
        return replace(data, place=place)

    def _source(self, key: str) -> str:
        """Returns where the text of a file or cell is, which is written once."""
        if key not in self._sources:
            self._sources[key] = self._to_folder().write_source(source_text(key))
        return self._sources[key]

    def _to_folder(self) -> ProcessFolder:
        """Returns the process's folder, made when there is something to write into it."""
        if self._folder is None:
            # A backend exists by now: asking earlier would make one, before the script has
            # called `jax.distributed.initialize`.
            devices = jax.local_devices()
            index, processes = jax.process_index(), jax.process_count()
            named = f"{len(devices)} x {devices[0].device_kind}"
            self._process = process = replace(
                self._process,
                index=index,
                count=processes,
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
        return f"{job}-{self._job}" if job else ""

    def _write_process(self) -> None:
        if self._folder is None:
            return
        self._process = replace(
            self._process,
            **{"seconds": time.perf_counter() - self._zero, **self._end},
            trouble=self.problems,
        )
        self._folder.write_process(self._process)


def _event(call: PendingCall, mine: LoweredProgram) -> CallEvent:
    """Returns a call that has ended: with times that no clock's jump changes, static values whole.

    Of its key the first parts are kept.
    """
    event = call.frozen(mine.number)
    steps = tuple(
        replace(step, seconds=mine.seconds.get(step.kind, step.seconds)) for step in event.steps
    )
    statics = call.key.statics if call.key is not None else {}
    parts: list[KeyPart] = []
    for part in event.parts[:_PARTS]:
        is_known = part.kind == "static" and part.name in statics
        parts += _whole(part, statics[part.name]) if is_known else [part]
    return replace(event, steps=steps, parts=tuple(parts[:_PARTS]))


def _whole(part: KeyPart, value: Any, depth: int = 0) -> Iterator[KeyPart]:
    """Yields a static value in a longer text: a dataclass, such as a config, by its fields."""
    if is_dataclass(value) and not isinstance(value, type) and depth < _DEEPEST:
        for one in fields(value):
            inner = replace(part, name=f"{part.name}.{one.name}")
            yield from _whole(inner, getattr(value, one.name, None), depth + 1)
        return
    yield replace(part, text=static_text(value, _LONGEST))


def _settings() -> dict[str, str]:
    """Returns the versions and flags that make other programs of the same StableHLO."""
    versions = {
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "Python": platform.python_version(),
    }
    return versions | {name: os.environ.get(name, "") for name in _FLAGS}
