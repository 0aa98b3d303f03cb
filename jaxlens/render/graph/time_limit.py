"""Interrupts a call that takes too long, without a new thread for each of many short calls."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LINGER = 5.0  # seconds for which the idle thread waits for another call


class Alarm:
    """A thread that watches one call at a time; it exits after `_LINGER` seconds without one."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._watcher: threading.Thread | None = None
        self._ring: Callable[[], object] | None = None
        self._due = self._wakes = 0.0

    @contextmanager
    def after(self, seconds: float, ring: Callable[[], object]) -> Iterator[None]:
        """Calls `ring` from another thread if the block takes longer than `seconds`."""
        with self._change:
            self._ring, self._due = ring, time.monotonic() + seconds
            # After a fork the child has the object, but the thread does not run.
            if self._watcher is None or not self._watcher.is_alive():
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                self._watcher.start()
            elif self._due < self._wakes:
                self._change.notify()
        try:
            yield
        finally:
            with self._change:
                self._ring = None

    def _watch(self) -> None:
        with self._change:
            while True:
                now = time.monotonic()
                if self._ring is not None and now >= self._due:
                    self._ring()
                    self._ring = None
                # Short calls do not wake this thread; `after` does if it would wake too late.
                self._wakes = self._due + (0.0 if self._ring is not None else _LINGER)
                if self._wakes <= now:
                    self._watcher = None
                    return
                self._change.wait(self._wakes - now)
