"""Runs uninterruptible work in a thread, so that KeyboardInterrupt reaches the caller at once."""

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

from jaxlens.stages import compat

T = TypeVar("T")
_POLL = 0.5  # seconds
_STACK = 64 << 20  # deep programs recurse in XLA; threads get half a megabyte on macOS


class Abandon:
    """Signals to a worker thread that its caller no longer waits.

    Attributes:
        asked: Whether the caller has stopped waiting.
        cleanup: Called by the caller at that moment; the worker sets it.
    """

    def __init__(self) -> None:
        self.asked = False
        self.cleanup: Callable[[], None] = lambda: None


def interruptible(
    work: Callable[[Abandon], T], waiting: Callable[[float], None] | None = None
) -> T:
    """Runs `work` in a thread, so that an interrupt reaches the caller while XLA is busy.

    Args:
        work: The function to run.
        waiting: Called twice a second with the elapsed seconds; an exception from it ends the
            waiting like an interrupt.

    The thread is no daemon: an exiting process waits for XLA rather than killing it inside C++.
    """
    abandon, done = Abandon(), threading.Event()
    values: list[T] = []
    errors: list[BaseException] = []
    context, as_here = copy_context(), compat.settings_here()

    def run() -> None:
        try:
            with as_here():
                values.append(context.run(work, abandon))
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, name="jaxlens compile")
    try:  # from here on an interrupt has work to abandon
        size = threading.stack_size(_STACK)
        try:
            thread.start()
        finally:
            threading.stack_size(size)
        start = time.perf_counter()
        # Not `join`: after an interrupted join Python 3.11 takes the thread for finished.
        while not done.wait(_POLL):  # no timeout: no interrupt on Windows
            if waiting is not None:
                waiting(time.perf_counter() - start)
    except BaseException:
        abandon.asked = True
        abandon.cleanup()
        raise
    if errors:
        raise errors[0]
    return values[0]
