"""Records what this process compiles into a folder, while it runs.

The thread that compiles keeps references and prints StableHLO, which no other thread may read; a
thread of the recording does the rest. Nothing that goes wrong here reaches the user's call: it is
kept as a sentence, and said at the end.
"""

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from jaxlens.call.arguments.inputs import static_text
from jaxlens.compat.events import LOWERING, CompileResult, Stack
from jaxlens.ir.compile_log import LOOPS, CallEvent, CompileStepKind, KeyPart
from jaxlens.ir.record import RecordedCompile
from jaxlens.jobs.record.lowered_program import LoweredProgram
from jaxlens.jobs.record.writer import Writer
from jaxlens.keys.jax_key import JaxKey
from jaxlens.listen.listen import CompileWatch
from jaxlens.listen.pending_call import PendingCall

_DONATED = LOWERING.index("donated_invars")
_ELIDED = 16  # elements of a constant that are printed
_PARTS = 500  # parts of a key that are recorded
_DEEPEST = 3  # dataclasses in one another of which each field is a part
_WAITS = 30.0  # seconds for the files that are not written yet when the recording ends


class Recording(CompileWatch):
    """A watch that writes each compile of a user's function into a folder.

    Args:
        root: The folder of the job's record, which other processes may write into too.
        programs: The most programs that are written.
        most_bytes: The most bytes of them.
        parent: Process id of the recorded process that started this one; 0 for none.
    """

    def __init__(self, root: Path, programs: int, most_bytes: int, parent: int) -> None:
        super().__init__()
        self._limits = root, programs, most_bytes
        self._new_process(parent)

    def _new_process(self, parent: int) -> None:
        """Makes what is of one process: a child that was forked has its parent's, and no thread."""
        self._pid, self._parent = os.getpid(), parent
        self._writer = Writer(*self._limits, parent)
        self._going: WeakKeyDictionary[PendingCall, LoweredProgram] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._number = 0

    def start(self) -> None:
        """Starts the recording and its thread."""
        self._writer.start()
        if self._parent:  # also workers of `multiprocessing` call this, which leave by os._exit
            Finalize(None, self.stop, exitpriority=-1000)
        super().start()

    def settle(self, error: str) -> None:
        """Writes all so far, or for 30 s, as of a process that ended by an exception, or ""."""
        if os.getpid() == self._pid:  # not in a child that was forked from the process
            self._writer.settle(error, _WAITS)

    def stop(self) -> None:
        """Ends the recording once all is written, or after 30 s."""
        if os.getpid() == self._pid:
            super().stop()
            self._writer.stop(_WAITS)

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong, in sentences."""
        return (*sorted(self._troubles), *self._writer.trouble)

    @property
    def written(self) -> int:
        """Number of compiles that are written."""
        return len(self._writer.files)

    def add(self, call: PendingCall) -> None:
        """Keeps nothing: a job may compile for days."""

    def began(self, kind: CompileStepKind, call: PendingCall, stack: Stack) -> None:
        now = time.perf_counter()
        if os.getpid() != self._pid:
            self._new_process(self._parent or self._pid)
            self.start()
        if call.role == "op" and call.function not in LOOPS:
            return
        mine = self._going.setdefault(call, LoweredProgram(now))
        mine.begun[kind] = now
        if kind != "trace" and stack.program is not None and hasattr(stack.program, "in_avals"):
            donated = (stack.lowering or ())[_DONATED:][:1]
            flags = tuple(bool(flag) for flag in donated[0] or ()) if donated else ()
            mine.jaxpr, mine.donated = stack.program, flags or mine.donated
        if kind == "compile":
            with self._lock:
                self._number += 1
                number = self._number
            mine.data = RecordedCompile(
                number,
                _shortened(call.frozen(number), call.key),
                self._writer.since(mine.start),
                processes=tuple(sorted({device.process_index for device in stack.devices})),
                devices=tuple(device.id for device in stack.devices),
            )

    def ended(
        self, kind: CompileStepKind, call: PendingCall, compiled: CompileResult | None
    ) -> None:
        mine = self._going.get(call)
        if mine is not None:
            now = time.perf_counter()
            mine.seconds[kind] = now - mine.begun.pop(kind, now)
        if kind != "compile":
            return
        self._going.pop(call, None)
        if mine is None or mine.data is None:
            return
        data = _finished(call, mine, mine.data)
        if compiled is not None:
            mine.key, mine.devices = call.parts, compiled.devices
            note = self._writer.refused()
            try:
                mine.text = "" if note else _text(compiled.module)
            except Exception as error:  # of MLIR: the compile is recorded without its program
                note = f"its program could not be read: {type(error).__name__}: {error}"[:200]
            data = replace(data, note=note)
        is_whole = compiled is not None and not data.note
        self._writer.ends(data, mine if is_whole else None, compiled and compiled.executable)


def _finished(call: PendingCall, mine: LoweredProgram, data: RecordedCompile) -> RecordedCompile:
    """Returns the data of a compile that has ended, with times that no clock's jump changes."""
    event = call.frozen(data.number)
    steps = tuple(
        replace(step, seconds=mine.seconds.get(step.kind, step.seconds)) for step in event.steps
    )
    shown = replace(data.call, steps=steps, layer=event.layer, program=event.program)
    if steps[-1].failed:
        return replace(data, call=shown, state="failed")
    return replace(data, call=shown, note="JAX did not show the program")


def _text(module: Any) -> str:
    """Returns the StableHLO of a module, in the thread that compiles it; "" for none."""
    if module is None:
        return ""
    return str(
        module.operation.get_asm(
            large_elements_limit=_ELIDED, enable_debug_info=True, assume_verified=True
        )
    )


def _shortened(event: CallEvent, key: JaxKey | None) -> CallEvent:
    """Returns the call with the first parts of its key, static values in the parts they have."""
    statics = key.statics if key is not None else {}
    parts: list[KeyPart] = []
    for part in event.parts[:_PARTS]:
        is_known = part.kind == "static" and part.name in statics
        parts += _whole(part, statics[part.name]) if is_known else [part]
    return replace(event, parts=tuple(parts[:_PARTS]))


def _whole(part: KeyPart, value: Any, depth: int = 0) -> Iterator[KeyPart]:
    """Yields a static value so that what its short text leaves out differs if it does.

    A dataclass, such as a model's configuration, is one part a field. Long strings and tuples have
    a hash; not objects, whose text may differ between processes where they are equal.
    """
    if is_dataclass(value) and not isinstance(value, type) and depth < _DEEPEST:
        for one in fields(value):
            inner = replace(part, name=f"{part.name}.{one.name}")
            yield from _whole(inner, getattr(value, one.name, None), depth + 1)
        return
    text = static_text(value)
    if "..." in text and _is_plain(value):
        text += f" (hash {hashlib.sha256(ascii(value).encode()).hexdigest()[:8]})"
    yield replace(part, text=text)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)
