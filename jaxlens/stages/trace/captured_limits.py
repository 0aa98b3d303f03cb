"""Limits the size of captured arrays with which a program is compiled unchanged.

JAX copies a captured array into the program, XLA copies it again, and computes with it while it
compiles. Measured on XLA:CPU for float32, without and with much of that: 50 MB take 0.4 to 18 s
and 0.2 to 0.5 GB, 200 MB take 2.5 to 12 s and 0.6 to 1.8 GB. Beyond a limit a stand-in is compiled,
which takes the arrays as arguments (`lower.py`).
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jaxlens.errors import LensError
from jaxlens.ir.facts import Constant

# Bytes of captured arrays from which a compile is watched, and from which a stand-in is compiled.
LARGE, MOST = 16 * 2**20, 256 * 10**6
# Memory that lowering and compiling may take, in sizes of the captured arrays: 9 were measured.
COPIES = 10
# Seconds until a line says what the wait is for, and until the stand-in is compiled instead.
SILENT, LONGEST = 2.0, 120.0

_MACHINE = Path("/proc/meminfo")
_CONTAINERS = (  # limit, use and statistics of its memory, in version 2 of cgroups and in 1
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)


class OverdueError(LensError):
    """XLA took longer than the limit."""


def refusal(size: int) -> str:
    """Returns why a program with so many captured bytes gets a stand-in; "" if it does not."""
    if size < LARGE:
        return ""
    if size >= MOST:
        return f"the limit of that is {_bytes(MOST)} here"
    free = available()
    if free is not None and COPIES * size > free:
        return f"that may take {_bytes(COPIES * size)} of memory, and less is free"
    return ""


def overdue() -> str:
    """Returns why a program gets a stand-in whose compile exceeded the time limit."""
    return (
        f"XLA had not done that after {LONGEST:,.0f} s (it cannot be stopped, and goes on in the "
        "background)"
    )


class Waiting:
    """Announces a long compile once, and raises an error at the time limit."""

    def __init__(self, name: str, size: int) -> None:
        self._is_announced = False
        self._notice = (
            f"jaxlens: XLA compiles {name} with {_bytes(size)} of captured arrays in it, as "
            f"jax.jit would; it is waited for {LONGEST:,.0f} s at most"
        )

    def __call__(self, seconds: float) -> None:
        """Called with the seconds since the compile started.

        Raises:
            OverdueError: The time limit is exceeded.
        """
        if seconds > SILENT and not self._is_announced:
            self._is_announced = True
            print(self._notice, file=sys.stderr, flush=True)
        if seconds > LONGEST:
            raise OverdueError(overdue())


def deviation(constants: Sequence[Constant], why: str) -> str:
    """Returns the sentence that says how a stand-in differs from the program that runs."""
    largest = max(constants, key=lambda constant: constant.bytes)
    size, more = _bytes(sum(constant.bytes for constant in constants)), len(constants) - 1
    arrays = f"`{largest.name}` ({largest.type}, {_bytes(largest.bytes)})"
    role, object_pronoun, subject = "an argument", "it", "it is"
    if more:
        arrays += f" and {more:,} other captured array{'s' if more > 1 else ''} ({size} in all)"
        role, object_pronoun, subject = "arguments", "them", "they are"
    return (
        f"from StableHLO on this is a stand-in that takes {arrays} as {role}, where jax.jit "
        f"compiles {object_pronoun} into the program: {why}. In the program that runs {subject} "
        f"among the constants ({size}) and not among the arguments; what XLA folds, and its "
        "temporaries, kernels, compile times and fingerprint, can be others. Passed as "
        f"{role}, {subject} as shown."
    )


def available() -> int | None:
    """Returns the bytes that this process can still allocate; None if unknown."""
    sizes = []
    with suppress(OSError, ValueError, KeyError):
        sizes.append(_numbers(_MACHINE)["MemAvailable:"] * 1024)
    root = Path("/sys/fs/cgroup")
    for limit, used, statistics in _CONTAINERS:
        with suppress(OSError, ValueError):  # there is no container, or its limit is "max"
            free = int((root / limit).read_text()) - int((root / used).read_text())
            # Files that processes of the container have read count as used, and can be dropped.
            sizes.append(max(free + _numbers(root / statistics).get("inactive_file", 0), 0))
    return min(sizes, default=None)


def _numbers(file: Path) -> dict[str, int]:
    """Reads the name and the number at the start of each line."""
    rows = (line.split() for line in file.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1}


def _bytes(size: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size / 1e3:.3g} kB"
