"""Runs uninterruptible work in a thread, so that KeyboardInterrupt reaches the caller at once."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

from jaxlens import compat, progress
from jaxlens.interrupts import deferred, undoing

T = TypeVar("T")
_POLL = 0.5  # seconds
_LOOK = 0.01  # seconds between two looks for a file that XLA writes
_STACK = 64 << 20  # deep programs recurse in XLA; threads get half a megabyte on macOS


class Abandon:
    """Signals to a worker thread that its caller no longer waits.

    Attributes:
        asked: Whether the caller has stopped waiting.
        cleanup: Set by the worker; the caller calls it when it stops waiting.
    """

    def __init__(self) -> None:
        self.asked = False
        self.cleanup: Callable[[], None] = lambda: None


class Background(Generic[T]):
    """A function call in a thread of its own, whose result the caller can wait for.

    The thread is no daemon: an exiting process waits for XLA rather than killing it inside C++.
    """

    def __init__(self, work: Callable[[Abandon], T]) -> None:
        """Starts the work."""
        self._abandon = Abandon()
        self._done = threading.Event()
        self._values: list[T] = []
        self._errors: list[BaseException] = []
        context, as_here = copy_context(), compat.settings_here()

        def run() -> None:
            try:
                with as_here():
                    self._values.append(context.run(work, self._abandon))
            except BaseException as error:
                self._errors.append(error)
            finally:
                self._done.set()

        thread = threading.Thread(target=run, name="jaxlens compile")
        with deferred(self.abandon):
            size = threading.stack_size(_STACK)
            try:
                thread.start()
            finally:
                threading.stack_size(size)

    def result(self) -> T:
        """Waits for the work, and returns its result or raises its error."""
        try:
            # Not `join`: after an interrupted join Python 3.11 takes the thread for finished.
            while not self._done.wait(_POLL):  # no timeout: no interrupt on Windows
                progress.idle()
        except BaseException:
            self.abandon()
            raise
        if self._errors:
            raise self._errors[0]
        return self._values[0]

    def wait_for(self, ready: Callable[[], bool]) -> bool:
        """Waits until a condition is met or the work has ended; returns whether it was met."""
        try:
            while not ready():
                if self._done.wait(_LOOK):
                    return ready()
                progress.idle()
        except BaseException:
            self.abandon()
            raise
        return True

    def done(self) -> bool:
        """Whether the work has ended."""
        return self._done.is_set()

    @undoing
    def abandon(self) -> None:
        """Signals that the caller no longer waits; does nothing if the work has ended."""
        if not self._done.is_set():
            self._abandon.asked = True
            self._abandon.cleanup()


def interruptible(work: Callable[[Abandon], T]) -> T:
    """Runs `work` in a thread, so that an interrupt reaches the caller while XLA is busy."""
    return Background(work).result()
