"""Records what a job compiles.

with jaxlens.record("runs/a"):          # or: jaxlens record -o runs/a train.py
    train(params, data)

What it reads is imported when JAX is; `recorded.py` opens the records.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jaxlens.errors import OptionError
from jaxlens.ir.saved.job_files import recorded_compiles
from jaxlens.stages.record.when_imported import when_imported

if TYPE_CHECKING:
    from jaxlens.stages.record.recording import Recording


class JobRecording:
    """A context manager that records what a block compiles; see `record`.

    Attributes:
        path: The folder.
        written: Number of compiles that are in it, once the block has ended.
    """

    def __init__(self, path: Path, programs: int, megabytes: float) -> None:
        self.path = path
        self.written = 0
        self._limits = programs, int(megabytes * 1e6)
        self._recording: Recording | None = None
        self._cancel: Callable[[], None] = lambda: None
        self._trouble: list[str] = []

    def __enter__(self) -> "JobRecording":
        with _caught(self._trouble):
            if there := recorded_compiles(self.path):
                _say(
                    f"{self.path} already has {there} compile{'s' * (there > 1)}, to which this "
                    "run's are added; name another folder to keep them apart"
                )
        self._cancel = when_imported("jax", self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._cancel()
        recording, self._recording = self._recording, None
        if recording is not None:
            with _caught(self._trouble):
                is_exit = isinstance(error, SystemExit) and not error.code
                recording.end("" if kind is None or is_exit else kind.__name__)
            self._trouble += recording.problems
            self.written = recording.written
        if self._trouble:
            _say(f"the record {self.path} is not complete: {'; '.join(self._trouble)}")

    def _start(self) -> None:
        with _caught(self._trouble):
            from jaxlens.stages.record.recording import Recording

            recording = Recording(self.path, *self._limits)
            recording.start()
            self._recording = recording


def _say(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # no stderr
        print(f"jaxlens: {text}", file=sys.stderr)


@contextmanager
def _caught(sentences: list[str]) -> Iterator[None]:
    """Keeps an exception of ours as a sentence: it must not reach the job."""
    try:
        yield
    except Exception as error:
        sentences.append(f"{type(error).__name__}: {error}"[:200])


def record(
    path: str | os.PathLike[str], *, programs: int = 200, megabytes: float = 200
) -> JobRecording:
    """Records every compile of your functions in a `with` block, into a folder.

        with jaxlens.record("runs/a"):
            train(params, data)

    For each: why it compiled, how long tracing, lowering and compiling took, XLA's sizes and
    costs, and the program itself. Nothing is compiled a second time, and a call that JAX's caches
    serve takes as long as ever. Each process of a job writes into the same folder; records are
    added to those that are there. Files are written in a thread, each whole or not at all, so that
    a killed job leaves what it had recorded. What goes wrong is said at the end, on stderr.
    Calls of `jax.pmap` are not recorded. Where hosts have no disk in common, copy the folders
    `process-*` and `programs` of all into one to compare them.

    Args:
        path: The folder, which is made.
        programs: Number of distinct programs that a process writes at most.
        megabytes: Megabytes of them that a process writes at most.

    Returns:
        A context manager.

    Raises:
        OptionError: `path` is a file, or a limit is negative.
    """
    root = Path(path)
    if programs < 0 or megabytes < 0:
        raise OptionError(f"limits are 0 or more, got programs={programs}, megabytes={megabytes}")
    if root.exists() and not root.is_dir():
        raise OptionError(f"a record is a folder, got the file {str(path)!r}: choose another name")
    return JobRecording(root.absolute(), programs, megabytes)
