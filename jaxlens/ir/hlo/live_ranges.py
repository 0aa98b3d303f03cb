"""What is in memory when: XLA's live ranges laid over its buffer assignment.

Arguments and constants are there from start to end, since the caller holds them; a result from
when it is written on; a temporary while it is needed. Values in one place, such as one that is
made in the place of another, count once. Each memory space of a device (its main memory, a TPU's
on-chip memory) is looked at by itself.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jaxlens.ir.hlo.buffers import Allocation, Buffer, Buffers, Kind

_COLOR = re.compile(r"\bcolor (\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class Held:
    """A value in memory, from one position of the order to another, both included.

    Attributes:
        buffer: The value and where it lies.
        kind: What it is there for. A value that is gone before the end is a temporary, though it
            may lie where a result lies later.
        holder: What its allocation is for.
        allocation: XLA's number of that.
        start: The first position.
        end: The last.
    """

    buffer: Buffer
    kind: Kind
    holder: Kind
    allocation: int
    start: int
    end: int

    @property
    def place(self) -> tuple[int, int]:
        """Allocation and offset; values of one place share it."""
        return self.allocation, self.buffer.offset


@dataclass(frozen=True, slots=True)
class Live:
    """All that is ever in memory, and the moment when it is most.

    Attributes:
        held: Every value with its time.
        bytes: In use at the worst moment, all kinds together; at most `reserved`.
        reserved: What the program takes from start to end: the sizes of all allocations.
        position: The first position where so much is in use.
        instruction: What runs there.
        at_peak: What is in use there, largest first; of values in one place the largest.
        unplaced: Values without a live range, which are not counted.
        end: The last position.
    """

    held: tuple[Held, ...]
    bytes: int
    reserved: int
    position: int
    instruction: str
    at_peak: tuple[Held, ...]
    unplaced: int
    end: int

    def at(self, kind: Kind) -> int:
        """Bytes of one kind at the peak."""
        return sum(one.buffer.size for one in self.at_peak if one.kind == kind)


def spaces(buffers: Buffers) -> tuple[int, ...]:
    """Memory spaces beside main memory in which a program has values."""
    used = {b.space for a in buffers.allocations if _is_own(a) for b in a.buffers}
    return tuple(sorted(used - {0}))


def live(buffers: Buffers, space: int = 0) -> Live | None:
    """Where a program needs most memory; None without live ranges.

    Args:
        buffers: Both of XLA's texts, read.
        space: Which memory; 0 is the device's main memory.
    """
    if not buffers.ranges:
        return None
    end = max(len(buffers.order) - 1, max(r.end for r in buffers.ranges))
    held, unplaced = _held(buffers, end, space)
    always = sum(one.buffer.size for one in held if one.kind in ("parameter", "constant"))
    moving = [one for one in held if one.kind not in ("parameter", "constant")]
    most, position = max(_in_use(moving), key=lambda use: (use[0], -use[1]), default=(0, 0))
    at: dict[tuple[int, int], Held] = {}
    for one in sorted(held, key=lambda one: one.buffer.size):
        if one.start <= position <= one.end:
            at[one.place] = one
    shown = sorted(at.values(), key=lambda one: (-one.buffer.size, one.buffer.number))
    name = buffers.order[position] if position < len(buffers.order) else ""
    reserved = sum(a.size for a in buffers.allocations if _counts(a, space))
    return Live(tuple(held), always + most, reserved, position, name, tuple(shown), unplaced, end)


def _is_own(allocation: Allocation) -> bool:
    return allocation.kind != "thread-local"


def _counts(allocation: Allocation, space: int) -> bool:
    """Whether it is the program's own, in that memory, which an allocation's color names too."""
    color = _COLOR.search(allocation.note)
    used = {buffer.space for buffer in allocation.buffers} or {int(color[1]) if color else 0}
    return _is_own(allocation) and space in used


def _held(buffers: Buffers, end: int, space: int) -> tuple[list[Held], int]:
    ranges = {(r.instruction, r.index): r for r in buffers.ranges}
    last = len(buffers.order) - 1  # results live on to it, or behind it
    kind: Kind
    held: list[Held] = []
    unplaced = 0
    for allocation in buffers.allocations:
        if not _counts(allocation, space):
            continue
        if allocation.kind in ("parameter", "constant"):
            # The whole of it, all the time: a donated one holds a result in the same place.
            first = max(allocation.buffers[:1], key=lambda b: b.size, default=None)
            if first is not None:
                kind = allocation.kind
                held.append(Held(first, kind, kind, allocation.index, 0, end))
            continue
        for buffer in allocation.buffers:
            found = ranges.get((buffer.instruction, buffer.index))
            if buffer.space != space:
                continue
            unplaced += found is None
            if found is not None and found.start <= found.end:
                kind = "temporary" if found.end < last else allocation.kind
                one = Held(buffer, kind, allocation.kind, allocation.index, found.start, found.end)
                held.append(one)
    return held, unplaced


def _in_use(held: Iterable[Held]) -> Iterator[tuple[int, int]]:
    """Bytes in use and the position, wherever a value begins or ends."""
    events: list[tuple[int, int, tuple[int, int], int]] = []
    for one in held:
        events.append((one.start, 0, one.place, one.buffer.size))
        events.append((one.end + 1, -1, one.place, one.buffer.size))
    sizes: dict[tuple[int, int], list[int]] = defaultdict(list)
    total = 0
    for position, ends, place, size in sorted(events):
        here = sizes[place]
        total -= max(here, default=0)
        if ends:
            here.remove(size)
        else:
            here.append(size)
        total += max(here, default=0)
        yield total, position
