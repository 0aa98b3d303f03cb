"""Shows the step that jaxlens is working on, its elapsed time, and its time in the last call.

A step that takes more than a second shows in the display of `front_end`, or in a terminal as a
tqdm bar on stderr. The display is cleared when the work is done: no progress is written to a file,
a saved notebook or a pipe.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Protocol

from jaxlens.interrupts import uninterrupted

SILENT = 1.0  # seconds before anything shows
_EVERY = 0.5  # seconds between two updates


class Task:
    """A step that has started.

    Args:
        name: A sentence without its period, such as "XLA compiles step".
        detail: Returns the current part of the step, such as a pass; "" if it is unknown.
        last: Seconds that the last step of this name took in this process; None if there was none.
        whole: Whether it shows in place of the steps within it.
    """

    def __init__(
        self,
        name: str,
        detail: Callable[[], str] = lambda: "",
        last: float | None = None,
        whole: bool = False,
    ) -> None:
        self.name, self.detail, self.last, self.whole = name, detail, last, whole
        self._begun = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._begun

    @property
    def sentence(self) -> str:
        """The name and the current detail."""
        detail = self.detail()
        return f"{self.name}: {detail}" if detail else self.name


class Display(Protocol):
    """Shows the current step to the user."""

    def show(self, step: Task) -> None:
        """Shows a step, or updates it; called in the progress thread."""

    def clear(self) -> None:
        """Removes the step; called in the same thread."""


class TerminalBar:
    """A bar of tqdm on stderr, which leaves no line behind."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._step: Task | None = None

    def show(self, step: Task) -> None:
        """Shows or updates the bar; it has a length if a step of this name was done before."""
        from tqdm import tqdm

        if step is not self._step:
            self.clear()
            known = "{desc}: {percentage:.0f} %|{bar}| {elapsed} (last time {total:.0f} s)"
            form = known if step.last else "{desc}: {elapsed}"
            self._bar = tqdm(
                desc=step.sentence, total=step.last, bar_format=form, leave=False, file=sys.stderr
            )
            self._bar.start_t -= step.seconds
            self._step = step
        self._bar.set_description_str(step.sentence, refresh=False)
        self._bar.n = min(step.seconds, step.last or 0)
        self._bar.refresh()

    def clear(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.close()
        self._bar = self._step = None


def _terminal() -> Display | None:
    with suppress(AttributeError, ValueError):  # there is no stderr, or it is closed
        return TerminalBar() if sys.stderr.isatty() else None
    return None


front_end: Callable[[], Display | None] | None = None
"""Returns the display of a front end; None, or a result of None, for the terminal."""

_lock = threading.Lock()
_steps: list[Task] = []  # those that have begun, the current one last
_last: dict[str, float] = {}
_ticker: "_Ticker | None" = None


class _Ticker:
    """Shows the current step from a thread, until `end`."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.shows = False
        self._over = threading.Event()
        run = copy_context().run
        name = "jaxlens progress"
        self._thread = threading.Thread(target=run, args=(self._tick,), name=name, daemon=True)
        self._thread.start()

    def _tick(self) -> None:
        wait = SILENT
        while not self._over.wait(wait):
            wait = _EVERY
            with suppress(Exception):  # a display that fails must not disturb the work
                step = current()
                if step is not None:
                    self.display.show(step)
                    self.shows = True
        if self.shows:
            with suppress(Exception):
                self.display.clear()

    def end(self) -> None:
        """Ends the thread, and waits until the display is cleared."""
        self._over.set()
        self._thread.join(5)


def current() -> Task | None:
    """Returns the latest step that has not ended, or the one that it is a part of, or None."""
    with _lock:
        whole = (step for step in _steps if step.whole)
        return next(whole, _steps[-1] if _steps else None)


def shown() -> Display | None:
    """Returns the display if it shows a step; None in the first second of a step."""
    ticker = _ticker  # the thread of a compile may end it meanwhile
    return ticker.display if ticker is not None and ticker.shows else None


def begin(
    name: str, detail: Callable[[], str] = lambda: "", whole: bool = False
) -> Callable[[bool], None]:
    """Starts a step, and returns the function that ends it.

    That function takes whether the step was completed; if so, its seconds are kept for `Task.last`.
    """
    global _ticker
    step = Task(name, detail, _last.get(name), whole)
    with _lock:
        _steps.append(step)
        if _ticker is None:
            display = (front_end and front_end()) or _terminal()
            _ticker = _Ticker(display) if display is not None else None

    def end(done: bool) -> None:
        global _ticker
        with _lock:
            if step not in _steps:
                return
            _steps.remove(step)
            ticker = None if _steps else _ticker
            if ticker is not None:
                _ticker = None
        if done:
            _last[name] = step.seconds
        if ticker is not None:
            ticker.end()

    return end


@uninterrupted
def step(name: str, detail: Callable[[], str] = lambda: "", whole: bool = False) -> Iterator[None]:
    """Shows a step while the block runs, after its first second; see `Task`."""
    end, done = begin(name, detail, whole), False
    try:
        yield
        done = True
    finally:
        end(done)


_idle: list[Callable[[], None]] = []


@uninterrupted
def when_idle(work: Callable[[], None]) -> Iterator[None]:
    """Calls `work` at most once, from `idle`, if the block waits while a step is shown."""
    _idle.append(work)
    try:
        yield
    finally:
        if work in _idle:
            _idle.remove(work)


def idle() -> None:
    """Runs the function of `when_idle`; called by the main thread while it waits for another."""
    if _idle and shown() is not None and threading.current_thread() is threading.main_thread():
        work = _idle.pop()
        with suppress(Exception):  # what shows meanwhile must not end the work that is waited for
            work()
