"""Limits the size of captured arrays with which a program is lowered and compiled.

JAX copies a captured array into the program, XLA copies it again, and computes with it while it
compiles. Measured on XLA:CPU for float32, without and with much of that: 50 MB take 0.4 to 18 s
and 0.2 to 0.5 GB, 200 MB take 2.5 to 12 s and 0.6 to 1.8 GB. Beyond a limit only the jaxpr is
shown: the same function with the arrays as arguments has all stages.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jaxlens.ir.facts import Constant

# Bytes of captured arrays from which memory is looked at, and from which nothing is compiled.
LARGE, MOST = 16 * 2**20, 256 * 10**6
# Memory that lowering and compiling may take, in sizes of the captured arrays: 9 were measured.
COPIES = 10

_MACHINE = Path("/proc/meminfo")
_CONTAINERS = (  # limit, use and statistics of its memory, in version 2 of cgroups and in 1
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)


def limit(size: int) -> str:
    """Returns why so many captured bytes are not compiled; "" if they are."""
    if size < LARGE:
        return ""
    if size >= MOST:
        return f"more than the {_bytes(MOST)} that are compiled here"
    free = available()
    if free is not None and COPIES * size > free:
        return f"which may take {_bytes(COPIES * size)} of memory, more than is free"
    return ""


def refusal(name: str, constants: Sequence[Constant], why: str) -> str:
    """Returns the message for a program that is not lowered, with what to do."""
    largest = max(constants, key=lambda constant: constant.bytes)
    size, more = _bytes(sum(constant.bytes for constant in constants)), len(constants) - 1
    arrays = f"`{largest.name}` ({largest.type}, {_bytes(largest.bytes)})"
    if more:
        arrays += f" and {more:,} other captured array{'s' if more > 1 else ''} ({size} in all)"
    return (
        f"jax.jit would copy {arrays} into the program of {name}, {why}: pass "
        f"{'them as arguments' if more else 'it as an argument'}; the jaxpr is there"
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
