"""Reads XLA's buffer assignment and live ranges from a dump folder.

An allocation is a block of memory. Values share it at offsets, one after another or, where one
is computed in place of another, at the same time. A live range is given in positions of the
schedule, which has the body of a loop once, at the loop; both of its ends belong to it. The two
files may follow one another in one text.
"""

import re
from dataclasses import dataclass
from typing import Literal

from jaxlens.errors import ReadError
from jaxlens.ir.graph import Type
from jaxlens.ir.hlo.text import read_type

Kind = Literal["parameter", "output", "constant", "thread-local", "temporary"]

_ALLOCATION = re.compile(
    r"allocation (\d{1,18}): (?:0x[0-9a-f]++, )?size (\d{1,18}+)(?:, page \d++)?(.*):$"
)
_PARAMETER = re.compile(r", parameter \d{1,9}, shape \|[^|]*\| at ShapeIndex \{[^{}]*\}")
_OUTPUT = re.compile(r", output shape is \|[^|]*\|")
_VALUE = re.compile(
    r"value: <(\d{1,18}) ([^\s{}]+?)(?:\{([\d,]*)\})?(?: \(phi\))? @(\d+)> "
    r"\(size=(\d{1,18}),offset=(\d{1,18})\): (.+)$"
)
_POSITION = re.compile(r"(\d{1,18}):(\S+)$")
_RANGE = re.compile(r"([^\s{}]+)\{([\d,]*)\}:(\d{1,18})-(\d{1,18})$")
_PEAK = re.compile(r"Live ranges at \d{1,18} \(peak\):$")


@dataclass(frozen=True, slots=True)
class Buffer:
    """The position of a value in an allocation.

    Attributes:
        number: XLA's number of the value.
        instruction: The HLO instruction that defines it.
        index: Its index in the instruction's tuple, "0" or "1,0"; "" for the whole.
        size: Bytes.
        offset: First byte within the allocation.
        type: Its type.
        space: Memory space; 0 is the device's main memory.
    """

    number: int
    instruction: str
    index: str
    size: int
    offset: int
    type: Type
    space: int = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """A block of memory.

    Attributes:
        index: XLA's number.
        size: Bytes.
        kind: Its use. An output's allocation can hold temporaries before.
        live_out: Whether it may hold a result; for a parameter: whether it is donated to one.
        buffers: The values in it.
        note: The rest of its line, as printed.
    """

    index: int
    size: int
    kind: Kind
    live_out: bool
    buffers: tuple[Buffer, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class LiveRange:
    """The positions of the schedule, both included, between which a value's buffer is in use."""

    instruction: str
    index: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Buffers:
    """A buffer assignment, with live ranges where the text has them.

    Attributes:
        allocations: In XLA's order.
        order: The schedule: instructions in execution order.
        ranges: Live ranges.
        unknown: Lines that could not be parsed.
    """

    allocations: tuple[Allocation, ...]
    order: tuple[str, ...] = ()
    ranges: tuple[LiveRange, ...] = ()
    unknown: tuple[str, ...] = ()

    def bytes(self, kind: Kind) -> int:
        """Bytes of all allocations of a kind."""
        return sum(a.size for a in self.allocations if a.kind == kind)


def read(text: str) -> Buffers:
    """Reads a buffer assignment, live ranges, or both.

    Raises:
        ReadError: The text is neither.
    """
    if "BufferAssignment:" not in text and "HloLiveRange" not in text:
        raise ReadError(
            "expected XLA's buffer assignment ('BufferAssignment:') or live ranges "
            f"('HloLiveRange'), got {text.strip()[:40]!r}"
        )
    reader = _Reader()
    for line in text.split("\n"):
        reader.line(line)
    return reader.done()


class _Reader:
    """State while the lines are read."""

    def __init__(self) -> None:
        self.allocations: list[tuple[re.Match[str], list[Buffer]]] = []
        self.order: list[str] = []
        self.ranges: list[LiveRange] = []
        self.in_peak = False
        self.unknown: list[str] = []

    def line(self, line: str) -> None:
        """Reads one line."""
        line = line.strip()
        if not line or line in ("BufferAssignment:", "InstructionSequence:", "BufferLiveRange:"):
            return
        if match := _ALLOCATION.match(line):
            self.allocations.append((match, []))
        elif self.allocations and (match := _VALUE.match(line)):
            self.allocations[-1][1].append(_buffer(match))
        elif match := _RANGE.match(line):
            self.ranges.append(LiveRange(match[1], match[2], int(match[3]), int(match[4])))
        elif match := _POSITION.match(line):
            self.order.append(match[2])
        elif _PEAK.match(line):
            self.in_peak = True  # what XLA says of it is not read
        elif not self.in_peak and not line.startswith("HloLiveRange"):
            self.unknown.append(line)

    def done(self) -> Buffers:
        return Buffers(
            tuple(_allocation(match, tuple(buffers)) for match, buffers in self.allocations),
            tuple(self.order),
            tuple(self.ranges),
            tuple(self.unknown),
        )


def _allocation(match: re.Match[str], buffers: tuple[Buffer, ...]) -> Allocation:
    note = match[3]
    flags = _OUTPUT.sub("", _PARAMETER.sub("", note))
    live_out = "maybe-live-out" in flags
    kind: Kind = "temporary"
    if _PARAMETER.match(note):
        kind = "parameter"
    elif ", constant" in flags:
        kind = "constant"
    elif "thread-local" in flags:
        kind = "thread-local"
    elif live_out or _OUTPUT.match(note):
        kind = "output"
    return Allocation(int(match[1]), int(match[2]), kind, live_out, buffers, note.lstrip(", "))


def _buffer(match: re.Match[str]) -> Buffer:
    name, index, shape = match[2], match[3] or "", match[7]
    number, size, offset, space = (int(match[group]) for group in (1, 5, 6, 4))
    return Buffer(number, name, index, size, offset, read_type(shape) or Type(shape), space)
