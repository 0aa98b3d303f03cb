"""Follows user frames by `sys.settrace`.

Python calls the trace function at the start of every function, also of library functions. Each of
these calls costs as much as a small Python function: it makes tracing by JAX twice as slow.
"""

import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from jaxlens.interrupts import uninterrupted
from jaxlens.lines.user_frames import Left, Listener, is_users, may_be_users

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@uninterrupted
def following(to: Listener) -> Iterator[Callable[[], None]]:
    """Reports events of user frames in this thread; yields a function that stops it early.

    The trace function set before is restored at the end.
    """
    libraries: set[str] = set()
    over = False

    def called(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if name in libraries:
            return None
        if not may_be_users(frame.f_code):
            libraries.add(name)
            return None
        if event != "call" or not is_users(frame):
            return None
        return ran if to.began(frame, _resumes(frame)) else None

    def ran(frame: FrameType, event: str, value: Any) -> Any:
        if over:
            return None  # a generator that outlives the block
        if event == "line":
            to.line(frame, frame.f_lineno)
        elif event == "exception" and not issubclass(value[0], StopIteration):
            to.raised(frame, value[0])
        elif event == "return":
            to.left(frame, _left(frame, value), value)
        return ran

    def stop() -> None:
        nonlocal over
        over = True
        sys.settrace(None)

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield stop
    finally:
        over = True
        sys.settrace(before)


def _left(frame: FrameType, value: Any) -> Left:
    """Returns how a frame is left; a suspended generator is at RESUME from Python 3.12 on."""
    code, at = frame.f_code.co_code, frame.f_lasti
    last = dis.opname[code[at]] if at >= 0 else ""
    if frame.f_code.co_flags & _GENERATORS and last.startswith(("YIELD", "RESUME")):
        return "yield"
    return "raise" if value is None and not last.startswith("RETURN") else "return"


def _resumes(frame: FrameType) -> bool:
    """Whether a call event resumes a generator; RESUME has argument 0 at a function's start."""
    if not frame.f_code.co_flags & _GENERATORS or frame.f_lasti < 0:
        return False
    return bool(frame.f_code.co_code[frame.f_lasti + 1] & 3)
