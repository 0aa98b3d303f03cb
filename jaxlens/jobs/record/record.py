"""Records what a job compiles.

with jaxlens.record("runs/a"):          # or: jaxlens record -o runs/a train.py
    train(params, data)

What it reads is imported when JAX is; `runs.py` opens the records.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jaxlens.after_import import when_imported
from jaxlens.errors import OptionError
from jaxlens.interrupts import deferred

if TYPE_CHECKING:
    from jaxlens.jobs.record.recording import Recording


_INHERITED = "JAXLENS_RECORD"  # the variable that names the record to processes that a job starts


class JobRecording:
    """A context manager that records what a block compiles; see `record`.

    Attributes:
        path: The folder.
        written: Number of compiles that are in it, of this process and of those that it started,
            once the recording has ended.
        trouble: What went wrong, in sentences.
    """

    def __init__(self, path: Path, megabytes: float, parent: int = 0) -> None:
        self.path = path
        self.written = 0
        self.trouble: list[str] = []
        self._megabytes = megabytes
        self._parent = parent
        self._pid, self._began = os.getpid(), time.time()
        self._recording: Recording | None = None
        self._cancel: Callable[[], None] = lambda: None

    def __enter__(self) -> "JobRecording":
        with deferred(self.stop):
            self.start()
            return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        try:
            self.settle(error)
        finally:
            self.stop()

    def start(self) -> None:
        """Starts the recording once JAX is imported."""
        self._cancel = when_imported("jax", self._start)

    def include_children(self) -> None:
        """Records the Python processes that this one starts too, through their environment."""
        os.environ[_INHERITED] = f"{self._pid}:{self._megabytes}:{self.path}"
        folders = [str(Path(__file__).with_name("children")), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))

    def settle(self, error: BaseException | None) -> None:
        """Writes all so far, as of a process that has ended; what it compiles later is added.

        Args:
            error: The exception that ended it; None for none.
        """
        if self._recording is not None:
            is_exit = isinstance(error, SystemExit) and not error.code
            with _caught(self.trouble):
                name = "" if error is None or is_exit else type(error).__name__
                self._recording.settle(name)

    def stop(self) -> None:
        """Ends the recording, and says what it lacks."""
        self._cancel()
        recording, self._recording = self._recording, None
        if recording is not None:
            with _caught(self.trouble):
                recording.stop()
            self.trouble += recording.problems
        with _caught(self.trouble):
            from jaxlens.ir.saved.job_files import recorded_compiles

            self.written = recorded_compiles(
                self.path,
                lambda p: self._pid in (p["pid"], p.get("parent")) and p["started"] >= self._began,
            )
        if self.trouble:
            with suppress(OSError, ValueError, AttributeError):  # no stderr
                text = f"the record {self.path} is not complete: {'; '.join(self.trouble)}"
                print(f"jaxlens: {text}", file=sys.stderr)

    def _start(self) -> None:
        with _caught(self.trouble):
            from jaxlens.jobs.record.recording import Recording

            parent = self._parent or (self._pid if os.getpid() != self._pid else 0)
            recording = Recording(self.path, int(self._megabytes * 1e6), parent)
            with deferred():
                recording.start()
                self._recording = recording


def follow() -> None:
    """Records this process, which one that is recorded has started."""
    pid, megabytes, path = os.environ[_INHERITED].split(":", 2)
    recording = JobRecording(Path(path), float(megabytes), int(pid))
    when_imported("jax", recording._start)


@contextmanager
def _caught(sentences: list[str]) -> Iterator[None]:
    """Keeps an exception of ours as a sentence: it must not reach the job."""
    try:
        yield
    except Exception as error:
        sentences.append(f"{type(error).__name__}: {error}"[:200])


def record(path: str | os.PathLike[str], *, megabytes: float = 200) -> JobRecording:
    """Records every compile of your functions in a `with` block, into a folder.

        with jaxlens.record("runs/a"):
            train(params, data)

    For each: why it compiled, how long tracing, lowering and compiling took, XLA's sizes and
    costs, and the program itself. Nothing is compiled a second time, and a call that JAX's caches
    serve takes as long as ever. Each process of a job writes into the same folder; records are
    added to those that are there. A thread writes each compile when it ends, so that a killed job
    leaves what it had recorded. What goes wrong is said at the end, on stderr. A child that is
    forked in the block records what it compiles as well. Where hosts have no disk in common, copy
    the folders `process-*` of all into one to compare them.

    Args:
        path: The folder, which is made.
        megabytes: Megabytes of programs that a process writes at most.

    Returns:
        A context manager.

    Raises:
        OptionError: `path` is a file, or the limit is negative.
    """
    root = Path(path)
    if megabytes < 0:
        raise OptionError(f"the limit is 0 or more, got megabytes={megabytes}")
    if root.exists() and not root.is_dir():
        raise OptionError(f"a record is a folder, got the file {str(path)!r}: choose another name")
    return JobRecording(root.absolute(), megabytes)
