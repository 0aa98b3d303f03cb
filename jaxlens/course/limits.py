"""Limits on the time, memory and output of an answer, which a learner has just written.

Time and memory are those of the process that judges it, which are checked from outside: XLA does
not respond to interrupts, and fails under a limit on its address space.
"""

import io
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from jaxlens.errors import LensError

MEMORY = 1_500_000_000  # bytes that an answer may take
_PRINTED = 4_000  # characters
_TICK = 0.05  # seconds between two looks
_BUSY = 2.5  # more seconds for a process that has no CPU to itself


class LimitError(LensError):
    """An answer took too long, or too much memory."""


class Limit:
    """Raises, when it is called, where a process has taken too much since this was made.

    Args:
        pid: The process.
        seconds: Its time, where it has a CPU to itself.
        memory: The growth of its resident memory, in bytes.
    """

    def __init__(self, pid: int, seconds: float, memory: int = MEMORY) -> None:
        self._pid, self._seconds, self._memory = pid, seconds, memory
        self._start = self._looked = time.monotonic()
        self._bytes, self._work = used(pid)

    def __call__(self) -> None:
        """Looks, unless the last look was a moment ago.

        Raises:
            LimitError: It took too much.
        """
        now = time.monotonic()
        if now - self._looked < _TICK:
            return
        self._looked, took = now, now - self._start
        size, work = used(self._pid)
        if size - self._bytes > self._memory:
            raise LimitError(
                f"it was stopped as it took more than {self._memory / 1e9:.1f} GB of memory; is an "
                "array larger than it need be?"
            )
        worked = work - self._work if work else took
        if took > self._seconds + (0.0 if worked > self._seconds else _BUSY):
            raise LimitError(
                f"it was stopped as it took more than {self._seconds:g} s; is there a loop without "
                "end?"
            )


def used(pid: int) -> tuple[int, float]:
    """Returns a process's resident memory in bytes, and its CPU seconds; 0 for what is unknown."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            fields = stat.read_text().rpartition(")")[2].split()
            pages, ticks = int(fields[21]), int(fields[11]) + int(fields[12])
            return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")
        command = ["ps", "-o", "rss=", "-p", str(pid)]
        return int(subprocess.run(command, capture_output=True, timeout=1).stdout) * 1024, 0.0
    return 0, 0.0


class Beginning(io.TextIOBase):
    """Passes on the beginning of what is printed.

    Args:
        to: Where it goes.
    """

    def __init__(self, to: TextIO) -> None:
        self._to, self._left = to, _PRINTED

    def write(self, text: str) -> int:
        """Passes on what there is room for, and says once that there is more."""
        if self._left >= 0:
            self._to.write(text[: self._left])
            self._left -= len(text)
            if self._left < 0:
                self._to.write(f"\n... only the first {_PRINTED:,} characters are shown\n")
        return len(text)
