"""Follows user frames by `sys.monitoring` (Python 3.12 and later).

The first PY_START event of a library's code object disables the event for that code object, so
library code then runs at full speed. LINE events are enabled for the user's code objects only.
Debuggers and coverage tools keep working, whether they use `sys.monitoring` or `sys.settrace`.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from jaxlens.interrupts import uninterrupted
from jaxlens.lines.user_frames import Left, Listener, is_users, may_be_users

_MONITORING: Any = getattr(sys, "monitoring", None)
_FREE = (4, 3)  # tool ids that Python does not reserve for debuggers, coverage or profilers
_EVERYWHERE = ("PY_START", "PY_RESUME", "PY_THROW", "RAISE", "PY_UNWIND")
_IN_USERS = ("LINE", "JUMP", "PY_RETURN", "PY_YIELD")


def tool() -> int | None:
    """Reserves a free tool id, which `following` releases; None if there is none."""
    for number in _FREE if _MONITORING else ():
        with suppress(ValueError):  # in use by another tool
            _MONITORING.use_tool_id(number, "jaxlens")
            return number
    return None


@uninterrupted
def following(to: Listener, number: int) -> Iterator[Callable[[], None]]:
    """Reports events of user frames in this thread; yields a function that stops it early.

    Args:
        to: Receives the events.
        number: The tool id that `tool` reserved.
    """
    followed = _Followed(to, number)
    events = {name: getattr(_MONITORING.events, name) for name in (*_EVERYWHERE, *_IN_USERS)}
    try:
        _MONITORING.restart_events()  # enables events that the last user of the tool id disabled
        for name, event in events.items():
            _MONITORING.register_callback(number, event, getattr(followed, f"on_{name.lower()}"))
        _MONITORING.set_events(number, sum(events[name] for name in _EVERYWHERE))
        yield followed.stop
    finally:
        followed.stop()
        for event in events.values():
            _MONITORING.register_callback(number, event, None)
        _MONITORING.restart_events()  # enables those that `DISABLE` switched off here
        _MONITORING.free_tool_id(number)


class _Followed:
    """Callbacks of `sys.monitoring`: the method `on_` plus the event's name for each event.

    The interpreter calls them directly, so `sys._getframe(1)` in a callback is the frame of the
    event.
    """

    def __init__(self, to: Listener, number: int) -> None:
        self._to = to
        self._number = number
        self._thread = threading.get_ident()
        self._codes: dict[int, CodeType] = {}
        self._frames: set[FrameType] = set()
        self._lines: dict[int, dict[int, int]] = {}  # by code object and offset

    def stop(self) -> None:
        """Disables all events of the tool id."""
        _MONITORING.set_events(self._number, 0)
        for code in self._codes.values():
            _MONITORING.set_local_events(self._number, code, 0)
        self._codes.clear()
        self._frames.clear()

    def on_py_start(self, code: CodeType, _: int) -> Any:
        return self._began(code, sys._getframe(1), False)

    def on_py_resume(self, code: CodeType, _: int) -> Any:
        return self._began(code, sys._getframe(1), True)

    def on_py_throw(self, code: CodeType, _: int, __: BaseException) -> None:
        self._began(code, sys._getframe(1), True)

    def _began(self, code: CodeType, frame: FrameType, again: bool) -> Any:
        if not may_be_users(code):
            return _MONITORING.DISABLE
        if threading.get_ident() != self._thread or not is_users(frame):
            return None
        if self._to.began(frame, again):
            self._frames.add(frame)
            if id(code) not in self._codes:
                self._codes[id(code)] = code
                events = sum(getattr(_MONITORING.events, name) for name in _IN_USERS)
                _MONITORING.set_local_events(self._number, code, events)
        return None

    def on_line(self, _: CodeType, line: int) -> None:
        frame = sys._getframe(1)
        if frame in self._frames:
            self._to.line(frame, line)

    def on_jump(self, code: CodeType, start: int, end: int) -> Any:
        """Reports each iteration of a one-line loop as a line event, as `sys.settrace` does."""
        lines = self._lines.get(id(code))
        if lines is None:
            lines = self._lines[id(code)] = _lines(code)
        if end > start or lines.get(start) != lines.get(end):
            return _MONITORING.DISABLE  # a jump to another line has its own LINE event
        frame = sys._getframe(1)
        if frame in self._frames:
            self._to.line(frame, lines[end])
        return None

    def on_raise(self, _: CodeType, __: int, error: BaseException) -> None:
        frame = sys._getframe(1)
        if frame in self._frames and not isinstance(error, StopIteration):
            self._to.raised(frame, type(error))

    def on_py_return(self, _: CodeType, __: int, value: Any) -> None:
        self._left(sys._getframe(1), "return", value)

    def on_py_yield(self, _: CodeType, __: int, value: Any) -> None:
        self._left(sys._getframe(1), "yield", value)

    def on_py_unwind(self, _: CodeType, __: int, ___: BaseException) -> None:
        self._left(sys._getframe(1), "raise", None)

    def _left(self, frame: FrameType, how: Left, value: Any) -> None:
        if frame in self._frames:
            self._frames.discard(frame)
            self._to.left(frame, how, value)


def _lines(code: CodeType) -> dict[int, int]:
    """Returns the line number of each instruction, by offset."""
    return {
        offset: line
        for start, end, line in code.co_lines()
        if line is not None
        for offset in range(start, end, 2)
    }
