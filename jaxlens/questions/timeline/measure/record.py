"""Runs code under JAX's profiler, and says what it dispatched and where it waited.

Times, waits and executions come from the profiler; the line of each comes from a log of the lines
that Python ran, by the same clock. Nothing of JAX runs otherwise than it would; the profiler and
the log make it a little slower.
"""

import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import FrameType

import jax

from jaxlens import compat
from jaxlens.interrupts import deferred, undoing
from jaxlens.questions.timeline.events import RunTimeline
from jaxlens.questions.timeline.measure import read_profile
from jaxlens.questions.timeline.measure.line_log import LineLog
from jaxlens.stages.compile.profile import Session

_MARKS = 5


class TimelineRecording:
    """A context manager that records one run; `timeline` is known once it is left.

    An error in the recording is never raised in the run: what is missing says why.

    Args:
        caller: The frame whose line counts until a line of the user's begins; None for none.
    """

    def __init__(self, caller: FrameType | None = None) -> None:
        self._session = Session(host_level=2)
        self._log = LineLog(caller)
        self._marks: list[tuple[int, int]] = []
        self._stack = ExitStack()
        self._start = self._seconds = 0
        self._data = b""
        self._timeline: RunTimeline | None = None

    def __enter__(self) -> "TimelineRecording":
        with deferred(self.__exit__):
            self._session.start()
            if not self._session.note:
                self._stack.callback(compat.mark_waits(read_profile.WAIT))
                self._mark()
                self._stack.enter_context(self._log.logging())
            self._start = time.perf_counter_ns()
            return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._timeline is None:
                self._seconds = time.perf_counter_ns() - self._start
                self._pause()
                if not self._session.note:
                    _drain()
            self._stop()
        except BaseException:  # an interrupt, which may come at the line above too
            self._stop()
            raise
        if self._timeline is None:
            self._timeline = self._read(self._data)

    @undoing
    def _pause(self) -> None:
        self._stack.close()

    @undoing
    def _stop(self) -> None:
        self._stack.close()
        self._log.forget()
        self._data += self._session.stop()

    @property
    def timeline(self) -> RunTimeline:
        """What happened in the block."""
        return self._timeline or RunTimeline(0.0, unknown="it is still running")

    def _mark(self) -> None:
        """Puts events into the profile at times that are known by Python's clock too."""
        for _ in range(_MARKS):
            before = time.perf_counter_ns()
            with jax.profiler.TraceAnnotation(read_profile.MARK):
                self._marks.append((before, time.perf_counter_ns()))

    def _read(self, data: bytes) -> RunTimeline:
        whole = RunTimeline(self._seconds * 1e-9, unknown=self._session.note)
        if not data:
            return whole
        try:
            events = read_profile.read(data)
        except Exception as error:  # a profile of a later version
            return replace(whole, unknown=f"the profile cannot be read: {error}")
        if len(events.marks) != len(self._marks):
            return replace(whole, unknown="the profiler recorded nothing of Python's thread")
        # A mark lies between two times of Python's clock. The largest of the lower bounds lets
        # lines begin early rather than late, so that a line owns what it starts with.
        pairs = zip(events.marks, self._marks, strict=True)
        shift = max(event - after for event, (_, after) in pairs)
        origin = self._start + shift
        end = origin + self._seconds
        run = read_profile.run_of(events, lambda t: self._log.at(int(t - shift)), origin, end)
        late = "the lines of what came late: too many lines ran" * self._log.full
        return replace(run, unknown=late)


def _drain() -> None:
    """Waits until the devices have done what was dispatched, so that the profile has all of it."""
    arrays = jax.live_arrays()  # type: ignore[no-untyped-call]
    for array in arrays:
        with suppress(Exception):  # an error of a program is raised where the user reads it
            array.block_until_ready()
