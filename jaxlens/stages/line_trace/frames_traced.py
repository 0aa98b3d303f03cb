"""Follows the user's functions by `sys.settrace`.

Python calls a trace function for every function that begins, a library's too, and each of these
calls costs as much as a small function of Python's: it makes tracing by JAX twice as slow.
"""

import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jaxlens.stages.line_trace.user_frames import Left, Listener, is_users, may_be_users

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@contextmanager
def following(to: Listener) -> Iterator[Callable[[], None]]:
    """Within it, the user's lines in this thread are told; gives a function that ends it early.

    Whoever traced before goes on after it.
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
            return None  # a generator that is still there
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
    """How; a generator that goes on later stands at RESUME from Python 3.12 on."""
    last = _last(frame)
    if frame.f_code.co_flags & _GENERATORS and last.startswith(("YIELD", "RESUME")):
        return "yield"
    return "raise" if value is None and not last.startswith("RETURN") else "return"


def _resumes(frame: FrameType) -> bool:
    """Whether a generator goes on; the argument of RESUME is 0 where a function begins."""
    if not frame.f_code.co_flags & _GENERATORS or frame.f_lasti < 0:
        return False
    return bool(frame.f_code.co_code[frame.f_lasti + 1] & 3)


def _last(frame: FrameType) -> str:
    """The instruction that a frame stands at."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] if frame.f_lasti >= 0 else ""
