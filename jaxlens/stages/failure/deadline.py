"""A time limit for running the user's Python code.

A trial traces the user's function with another value, which may make a loop a thousand times as
long. A trace function, set with `sys.settrace`, checks the clock at every line of user code.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jaxlens.stages.line_trace.user_frames import may_be_users


class LateError(BaseException):
    """The time limit has passed. A BaseException, so that `except Exception` does not catch it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises `LateError` in user code of this thread once the time limit has passed."""
    end = time.monotonic() + seconds

    # LateError is raised in user frames only. In a destructor Python would discard it, and a trace
    # function that has raised once is unset: the limit would be lost.
    def ran(frame: FrameType, event: str, value: Any) -> Any:
        if time.monotonic() > end:
            raise LateError
        return ran

    def called(frame: FrameType, event: str, value: Any) -> Any:
        return ran if may_be_users(frame.f_code) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
