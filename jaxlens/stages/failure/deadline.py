"""Work of the user's Python that may take too long, ended in time.

A trial runs the user's function with another value, by which a loop may be a thousand times as
long. Python asks a trace function at every line of the user's: there the time is looked at.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jaxlens.stages.line_trace.user_frames import may_be_users


class LateError(BaseException):
    """The time is over; no Exception, so that the user's code does not catch it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Within it, Python code of this thread raises `LateError` once the time is over."""
    end = time.monotonic() + seconds

    # Raised in the user's frames alone: Python ignores what is raised in a destructor, and asks
    # a trace function that raised no more.
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
