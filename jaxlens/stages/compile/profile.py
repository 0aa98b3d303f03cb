"""Profiles a compile with JAX's profiler and reads the trace events, without TensorBoard.

XLA annotates its pipelines, passes and code generation; a profiler session records these events.
A process can have one session. While the user's own runs, there is no profile.
"""

import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import uuid4

import jax

from jaxlens import compat
from jaxlens.errors import first_line
from jaxlens.interrupts import deferred, undoing
from jaxlens.ir.facts import CONVERSION, Part, Profile
from jaxlens.stages.compile.dump_files import remove

BUSY = "a profiler session of yours is running, and a process can have one: end it, and look again"
IDLE = (
    "libtpu is loaded in this process, which has no TPU: JAX's profiler could end the process; "
    "look in a process that compiles for no TPU"
)
GRAPH = "command_buffer"
"""What the `hlo_op` of a kernel begins with that a GPU launches as part of a CUDA graph."""
_EMPTY = "this compiler tells the profiler nothing of what it does"
_PASSES = "hlo_pass_pipeline.cc"
_BACKEND = "backend_compile_and_load"
_KERNEL = "FusionCompiler::Compile"
_PREFIX, _SUFFIX = "__compute_module_", "_kernel_module"  # around a kernel's name
_LLVM_TASK = "TaskDispatcher::dispatch"
_QUIET = ("ThreadpoolListener", "RunInvariantCheckers")


class Session:
    """One profiler session around a compile.

    As a context manager it starts on entry and stops on an error; the caller stops it otherwise.

    Args:
        host_level: How much the profiler records of the host; 3 includes XLA's passes.

    Attributes:
        note: Why there is no profile; "" otherwise.
    """

    def __init__(self, host_level: int = 3) -> None:
        self.note = ""
        self._host_level = host_level
        self._path = ""
        self._over = False
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.stop()

    def start(self) -> None:
        """Starts the session; sets `note` if it cannot start."""
        if compat.has_idle_tpu_plugin():
            self.note = IDLE
            return
        profiler: Any = jax.profiler
        options = profiler.ProfileOptions()
        options.python_tracer_level, options.host_tracer_level = 0, self._host_level
        with deferred(self.stop), self._lock:
            if self._over:  # interrupted before it began
                return
            path = str(Path(tempfile.gettempdir(), f"jaxlens-profile-{uuid4().hex}"))
            try:
                profiler.start_trace(path, profiler_options=options)
                self._path = path
            except Exception as error:
                line = first_line(error)
                self.note = BUSY if "already" in line or "one profile" in line else line
            finally:
                if not self._path:
                    compat.take_session(path)

    @undoing
    def stop(self) -> bytes:
        """Ends the session if it runs; sets `note` if it has no profile.

        Returns:
            The serialized XSpace, b"" if there is none.
        """
        with self._lock:
            path, self._path, self._over = self._path, "", True
        if not path:
            return b""
        session, profiler = compat.take_session(path), cast("Any", jax.profiler)
        try:
            if session is not None:
                return cast("bytes", session.stop())
            profiler.stop_trace()  # writes the profile
            return b"".join(file.read_bytes() for file in Path(path).rglob("*.xplane.pb"))
        except Exception as error:
            self.note = first_line(error)
            return b""
        finally:
            remove(Path(path))


def read(data: bytes, module: str, seconds: float, note: str = "") -> Profile:
    """Reads the parts of one module's compile from a serialized profile.

    Args:
        data: The result of `Session.stop`.
        module: The HLO module's name ("jit_step").
        seconds: Wall clock of the compile.
        note: Why there is no profile; "" otherwise.
    """
    lines = list(_lines(data)) if data else []
    main = _main(lines, module)
    if main is None:
        return Profile(seconds, (), note or _EMPTY)
    tree = _Tree()
    tree.add(main, False)
    low, high = main[0].start, max(event.end for event in main)
    for line in lines:
        if line is not main and any(e.name in (_KERNEL, _LLVM_TASK) for e in line):
            tree.add([e for e in line if low <= e.start <= high], True)
    return Profile(seconds, (*tree.parts(), *_conversion(lines, main[0], tree)))


class _Event(NamedTuple):
    start: float
    end: float
    name: str
    kind: str
    module: str


def _lines(data: bytes) -> Iterator[list[_Event]]:
    """Yields the events of each thread, enclosing events before the enclosed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a class of the bindings
        planes = jax.profiler.ProfileData.from_serialized_xspace(data).planes
        for plane in planes:
            for line in plane.lines:
                events = [_event(e) for e in line.events if not e.name.startswith(_QUIET)]
                if events:
                    yield sorted(events, key=lambda e: (e.start, -e.end))


def _event(event: Any) -> _Event:
    stats = {key: value for key, value in event.stats if key in ("module", "_src", "name")}
    name, module = str(event.name), str(stats.get("module", ""))
    kind = "step"
    if str(stats.get("_src", "")).endswith(_PASSES):
        kind = "pipeline"
        name = name.removesuffix(f" ({module})")
    elif name == _KERNEL:
        kind, name = "kernel", module.removesuffix(_SUFFIX).removeprefix(_PREFIX)
    start = float(event.start_ns)
    return _Event(start, start + float(event.duration_ns), name, kind, module)


def _main(lines: Iterable[list[_Event]], module: str) -> list[_Event] | None:
    """Returns the events of the thread that ran the module's passes, during its compile."""
    for line in lines:
        pipelines = [e for e in line if e.kind == "pipeline" and e.module == module]
        if pipelines:
            low, high = pipelines[0].start, pipelines[-1].end
            low, high = next(
                ((e.start, e.end) for e in line if e.start <= low and e.end >= high), (low, high)
            )
            return [e for e in line if low <= e.start and e.end <= high]
    return None


def _conversion(lines: Iterable[list[_Event]], first: _Event, tree: "_Tree") -> Iterator[Part]:
    """Yields the conversion of StableHLO to HLO, for which XLA records no event.

    It runs between the start of `backend_compile_and_load` and the first event inside it, so that
    gap is its time.
    """
    events = list(chain.from_iterable(lines))
    backend = (e for e in events if e.name == _BACKEND and e.start <= first.start < e.end)
    for whole in islice(backend, 1):
        inner = (e.start for e in events if whole.start < e.start < whole.end)
        begun = min(inner, default=whole.start)
        yield Part(CONVERSION, "step", (begun - whole.start) * 1e-9, inside=tree.number(whole.name))


class _Tree:
    """Parts summed over events: events with the same name and the same parent are one part."""

    def __init__(self) -> None:
        self._rows: list[list[Any]] = []
        self._numbers: dict[tuple[int, str, str, bool], int] = {}

    def add(self, events: Iterable[_Event], aside: bool) -> None:
        """Adds the events of one thread, enclosing events before the enclosed.

        A stack of (part, end, kind) holds the open events. An event's parent is the top of the
        stack after all events that ended before its start are popped.
        """
        stack: list[tuple[int, float, str]] = []
        for event in events:
            while stack and stack[-1][1] <= event.start:
                stack.pop()
            kind = event.kind
            if kind == "step" and stack and stack[-1][2] == "pipeline":
                kind = "pass"
            elif kind == "step" and stack and stack[-1][2] in ("pass", "kernel"):
                continue  # but a pass may run a pipeline of its own
            inside = stack[-1][0] if stack else -1
            key = inside, event.name, kind, aside
            number = self._numbers.setdefault(key, len(self._rows))
            if number == len(self._rows):
                self._rows.append([event.name, kind, 0.0, 0, inside, aside])
            self._rows[number][2] += (event.end - event.start) * 1e-9
            self._rows[number][3] += 1
            stack.append((number, event.end, kind))

    def number(self, name: str) -> int:
        """Returns the index of the top-level part of that name; -1 for none."""
        outer = (n for n, row in enumerate(self._rows) if row[0] == name and row[4] == -1)
        return next(outer, -1)

    def parts(self) -> Iterator[Part]:
        for row in self._rows:
            yield Part(*row)
