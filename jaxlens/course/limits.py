"""Limits on the time and memory of a check, which runs code that a learner has just written."""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jaxlens.errors import LensError
from jaxlens.interrupts import deferred

_TICK = 0.05  # seconds between two looks
_STUCK = (
    "The answer was interrupted as {}, but it still runs within XLA, which does not look for "
    "interrupts: is there a while_loop without end? Restart the kernel."
)
_PATIENCE = 3.0  # seconds that a call into XLA has to end after the interrupt
_BUSY = 4  # times the limit, for a process that waits for others


class LimitError(LensError):
    """A check took too long, or too much memory."""


@contextmanager
def limited(seconds: float, memory: int = 1_500_000_000) -> Iterator[None]:
    """Interrupts the block if it takes too long or the process grows too much.

    The interrupt is Python's own, as from the keyboard, so a call into XLA ends first; if it does
    not end soon, a line on stderr says that only a new kernel helps. The limit works on the main
    thread only.

    Args:
        seconds: Limit of the block's duration, where the process has a CPU to itself.
        memory: Limit of the growth of the process's resident memory, in bytes.

    Raises:
        LimitError: The block was interrupted for one of the two.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    done, reason = threading.Event(), list[str]()
    before, start, work = resident(), time.monotonic(), time.process_time()

    def is_late() -> bool:
        """Whether the time is up; a busy machine has longer, as this process works less."""
        took = time.monotonic() - start
        return took > seconds and (time.process_time() - work > seconds or took > _BUSY * seconds)

    def watch() -> None:
        while not done.wait(_TICK):
            if is_late():
                reason.append(f"it took more than {seconds:g} s")
            elif resident() - before > memory:
                reason.append(f"it took more than {memory / 1e9:.1f} GB of memory")
            if reason:
                _thread.interrupt_main()
                if not done.wait(_PATIENCE):
                    print(_STUCK.format(reason[0]), file=sys.stderr, flush=True)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    handler = signal.getsignal(signal.SIGINT)
    try:
        try:
            if handler is signal.SIG_IGN:  # as in a background job of a shell: none would arrive
                signal.signal(signal.SIGINT, signal.default_int_handler)
            watcher.start()
            yield
        finally:
            with deferred():
                done.set()
                if watcher.ident is not None:
                    watcher.join()  # an interrupt that was sent arrives inside the outer block
            if handler is signal.SIG_IGN:
                signal.signal(signal.SIGINT, handler)
    except KeyboardInterrupt:
        if not reason:
            raise  # the user's own
        raise LimitError(
            f"the answer was stopped as {reason[0]}; is there a loop that grows?"
        ) from None


def resident() -> int:
    """Returns the resident memory of this process in bytes; its peak where only that is known."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    table = Path("/proc/self/statm")
    if table.exists():
        return int(table.read_text().split()[1]) * resource.getpagesize()
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
