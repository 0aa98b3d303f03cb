"""Logs which line of the user's code runs at which time, in one thread."""

import linecache
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from traceback import walk_stack
from types import FrameType
from typing import Any

from jaxlens.interrupts import uninterrupted
from jaxlens.ir.spans import describe
from jaxlens.lines.record import following
from jaxlens.lines.user_frames import Left
from jaxlens.program.python_loops import loops_by_line
from jaxlens.questions.timeline.events import CodeLine

_MOST = 1_000_000  # changes of line; each takes 12 bytes


_loops = lru_cache(maxsize=4)(loops_by_line)


def _code_line(file: str, line: int) -> CodeLine:
    loops = _loops("".join(linecache.getlines(file)))
    in_loop = loops is not None and loops[line] > 0
    place = f"{describe(file).name}:{line}"
    return CodeLine(place, linecache.getline(file, line).strip(), in_loop)


class LineLog:
    """Receives the events of user frames, and answers which line ran at a time.

    Attributes:
        full: Whether later lines were not logged, as there were too many.
    """

    def __init__(self, caller: FrameType | None = None) -> None:
        self.full = False
        self._lines: dict[tuple[str, int], int] = {}  # each with its number
        self._times, self._numbers = array("q"), array("i")
        self._frames: list[tuple[FrameType, int]] = []
        self._known: dict[int, CodeLine] = {}
        self._kept: dict[str, Any] = {}
        self._stop: Callable[[], None] = lambda: None
        self._outer = self._caller(caller)
        self._log(self._outer)

    @uninterrupted
    def logging(self) -> Iterator[None]:
        """Logs the lines of user code that run in the block, in this thread."""
        try:
            with following(self) as self._stop:
                yield
        finally:
            self._frames.clear()

    def forget(self) -> None:
        """Drops the variables that were kept."""
        self._kept = {}

    def at(self, nanoseconds: int) -> CodeLine | None:
        """Returns the line that ran at a time of `time.perf_counter_ns`; None if unknown."""
        index = bisect_right(self._times, nanoseconds) - 1
        number = self._numbers[index] if index >= 0 else -1
        if number >= 0 and number not in self._known:
            self._known[number] = _code_line(*list(self._lines)[number])
        return self._known.get(number)

    def began(self, frame: FrameType, again: bool) -> bool:
        """Follows every user frame; its first line is logged when it runs."""
        if self.full:
            return False
        self._frames.append((frame, self._numbers[-1]))
        return True

    def line(self, frame: FrameType, line: int) -> None:
        """Logs the line that is about to run."""
        number = self._number(frame.f_code.co_filename, line)
        if self._frames and self._frames[-1][0] is frame:
            self._frames[-1] = frame, number
        self._log(number)

    def raised(self, frame: FrameType, kind: type[BaseException]) -> None:
        """Does nothing: the line goes on until another begins."""

    def left(self, frame: FrameType, how: Left, value: Any) -> None:
        """Logs the caller's line, which goes on.

        The variables of the function that jaxlens called are kept: an array that nothing else
        holds could not be waited for at the end of the recording.
        """
        if frame.f_back is not None and describe(frame.f_back.f_code.co_filename).own:
            self._kept = frame.f_locals.copy()
        if any(other is frame for other, _ in self._frames):
            while self._frames.pop()[0] is not frame:
                pass
        self._log(self._frames[-1][1] if self._frames else self._outer)

    def _log(self, number: int) -> None:
        if len(self._times) >= _MOST:
            self.full = True
            self._stop()
            return
        self._times.append(time.perf_counter_ns())
        self._numbers.append(number)

    def _number(self, file: str, line: int) -> int:
        return self._lines.setdefault((file, line), len(self._lines))

    def _caller(self, caller: FrameType | None) -> int:
        """Returns the number of the innermost user line of a stack; -1 for none."""
        for frame, line in walk_stack(caller) if caller is not None else ():
            file = describe(frame.f_code.co_filename)
            if not file.library and not file.own:
                return self._number(frame.f_code.co_filename, line)
        return -1
