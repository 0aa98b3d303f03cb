"""Memory over time: XLA's live ranges applied to its buffer assignment.

Arguments and constants are live from start to end, since the caller owns them; a result from its
definition on; a temporary during its live range. Values at one place, such as one computed in place
of another, count once. Each memory space of a device (its main memory, a TPU's on-chip memory) is
analysed by itself.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jaxlens.ir.facts import Memory
from jaxlens.ir.hlo.buffers import Allocation, Buffer, Buffers, Kind
from jaxlens.report import total

_COLOR = re.compile(r"\bcolor (\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A value in memory, from one position of the schedule to another, both included.

    Attributes:
        buffer: The value and its position in the allocation.
        kind: Its use. A value that is dead before the end is a temporary, though its allocation may
            hold a result later.
        holder: The use of its allocation.
        allocation: XLA's number of the allocation.
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
        """Allocation and offset, which values at one place share."""
        return self.allocation, self.buffer.offset


@dataclass(frozen=True, slots=True)
class Live:
    """All live values, and the peak.

    Attributes:
        values: Every value with its live range.
        bytes: Bytes in use at the peak, all kinds together; at most `reserved`.
        reserved: Sizes of all allocations, which the program has from start to end.
        position: The first position of the peak.
        instruction: The instruction that runs there.
        at_peak: The values in use there, largest first; of values at one place the largest.
        end: The last position.
    """

    values: tuple[LiveValue, ...]
    bytes: int
    reserved: int
    position: int
    instruction: str
    at_peak: tuple[LiveValue, ...]
    end: int


def spaces(buffers: Buffers) -> tuple[int, ...]:
    """Memory spaces beside main memory in which a program has values."""
    own = (a for a in buffers.allocations if a.kind != "thread-local")
    used = {buffer.space for allocation in own for buffer in allocation.buffers}
    return tuple(sorted(used - {0}))


def live(buffers: Buffers, space: int = 0) -> Live | None:
    """The memory of a program over time, and its peak; None without live ranges.

    Args:
        buffers: Both of XLA's texts, read.
        space: Which memory; 0 is the device's main memory.
    """
    if not buffers.ranges:
        return None
    end = max(len(buffers.order) - 1, max(r.end for r in buffers.ranges))
    values = _live_values(buffers, end, space)
    always = sum(value.buffer.size for value in values if value.kind in ("parameter", "constant"))
    moving = [value for value in values if value.kind not in ("parameter", "constant")]
    most, position = max(in_use(moving), key=lambda use: (use[0], -use[1]), default=(0, 0))
    at: dict[tuple[int, int], LiveValue] = {}
    for value in sorted(values, key=lambda value: value.buffer.size):
        if value.start <= position <= value.end:
            at[value.place] = value
    shown = sorted(at.values(), key=lambda value: (-value.buffer.size, value.buffer.number))
    name = buffers.order[position] if position < len(buffers.order) else ""
    reserved = sum(a.size for a in buffers.allocations if _counts(a, space))
    return Live(tuple(values), always + most, reserved, position, name, tuple(shown), end)


def _counts(allocation: Allocation, space: int) -> bool:
    """Whether an allocation is the program's own and in that space, which its color names too."""
    color = _COLOR.search(allocation.note)
    used = {buffer.space for buffer in allocation.buffers} or {int(color[1]) if color else 0}
    return allocation.kind != "thread-local" and space in used


def _live_values(buffers: Buffers, end: int, space: int) -> list[LiveValue]:
    ranges = {(r.instruction, r.index): r for r in buffers.ranges}
    last = len(buffers.order) - 1  # results live on to it, or behind it
    kind: Kind
    values: list[LiveValue] = []
    for allocation in buffers.allocations:
        if not _counts(allocation, space):
            continue
        if allocation.kind in ("parameter", "constant"):
            # All of it, from start to end: a donated one holds a result at the same place.
            kind = allocation.kind
            for buffer in allocation.buffers[:1]:
                values.append(LiveValue(buffer, kind, kind, allocation.index, 0, end))
            continue
        for buffer in allocation.buffers:
            live_range = ranges.get((buffer.instruction, buffer.index))
            if buffer.space != space:
                continue
            if live_range is not None and live_range.start <= live_range.end:
                holder, start, stop = allocation.kind, live_range.start, live_range.end
                kind = "temporary" if stop < last else holder
                values.append(LiveValue(buffer, kind, holder, allocation.index, start, stop))
    return values


def in_use(values: Iterable[LiveValue]) -> Iterator[tuple[int, int]]:
    """Bytes in use, and the position, at each end of a live range.

    Several values can be at one place at a time, which counts as the largest of them.
    """
    events: list[tuple[int, int, tuple[int, int], int]] = []
    for value in values:
        events.append((value.start, 0, value.place, value.buffer.size))
        events.append((value.end + 1, -1, value.place, value.buffer.size))
    sizes: dict[tuple[int, int], list[int]] = defaultdict(list)
    total = 0
    for position, ends, place, size in sorted(events):
        in_place = sizes[place]
        total -= max(in_place, default=0)
        if ends:
            in_place.remove(size)
        else:
            in_place.append(size)
        total += max(in_place, default=0)
        yield total, position


def reserved(sizes: Memory, assignment: Buffers | None, ranges: Live | None) -> int | None:
    """Returns the bytes that a program allocates from start to end; None where unknown."""
    whole = total((sizes.arguments, sizes.outputs, sizes.temporaries))
    if whole is None:
        return None
    whole += (assignment.bytes("constant") if assignment else 0) - (sizes.aliases or 0)
    # On some devices XLA's sizes omit tables of pointers.
    return max(whole, ranges.bytes if ranges else 0)
