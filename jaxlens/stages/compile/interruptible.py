"""Work that Python cannot stop, done so that an interrupt still reaches the user at once."""

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

from jaxlens.stages import compat

T = TypeVar("T")
_POLL = 0.5  # seconds
_STACK = 64 << 20  # deep programs recurse in XLA; threads get half a megabyte on macOS


class Abandon:
    """Says between two threads that nobody waits any more.

    Attributes:
        asked: Set by the thread that no longer waits.
        cleanup: What it may clean up at once.
    """

    def __init__(self) -> None:
        self.asked = False
        self.cleanup: Callable[[], None] = lambda: None


class _Outcome(Generic[T]):
    """What a thread returned or raised."""

    def __init__(self) -> None:
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()


def interruptible(
    work: Callable[[Abandon], T], waiting: Callable[[float], None] | None = None
) -> T:
    """Runs work in a thread, so that an interrupt reaches the caller while XLA is busy.

    Args:
        work: What is done.
        waiting: Is called with the seconds that it has lasted, time and again; what it raises
            ends the waiting as an interrupt does.

    The thread is no daemon: a process that ends waits for XLA rather than cutting it off in C++.
    """
    abandon, outcome = Abandon(), _Outcome[T]()
    context, as_here = copy_context(), compat.settings_here()

    def run() -> None:
        try:
            with as_here():
                outcome.value = context.run(work, abandon)
        except BaseException as error:
            outcome.error = error
        finally:
            outcome.done.set()

    thread = threading.Thread(target=run, name="jaxlens compile")
    try:  # from here on an interrupt finds something to abandon
        size = threading.stack_size(_STACK)
        try:
            thread.start()
        finally:
            threading.stack_size(size)
        start = time.perf_counter()
        # Not by joining: an interrupted join makes Python 3.11 forget that the thread lives.
        while not outcome.done.wait(_POLL):  # without a limit, Windows would not see the interrupt
            if waiting is not None:
                waiting(time.perf_counter() - start)
    except BaseException:
        abandon.asked = True
        abandon.cleanup()
        raise
    if outcome.error is not None:
        raise outcome.error
    return outcome.value  # type: ignore[return-value]
