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
_PARAMETER = re.compile(r", parameter (\d{1,9}), shape \|[^|]*\| at ShapeIndex \{[^{}]*\}")
_OUTPUT = re.compile(r", output shape is \|[^|]*\|")
_VALUE = re.compile(
    r"value: <(\d{1,18}) ([^\s{}]+?)(?:\{([\d,]*)\})?( \(phi\))? @(\d+)> "
    r"\(size=(\d{1,18}),offset=(\d{1,18})\): (.+)$"
)
_POSITION = re.compile(r"(\d{1,18}):(\S+)$")
_RANGE = re.compile(r"([^\s{}]+)\{([\d,]*)\}:(\d{1,18})-(\d{1,18})$")
_PEAK = re.compile(r"Live ranges at (\d{1,18}) \(peak\):$")
_LIVE = re.compile(r"([^\s{}]+)\{([\d,]*)\}: (\d{1,18}) bytes")


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
        phi: Whether it merges values of several instructions (the state of a loop).
        space: Memory space; 0 is the device's main memory.
    """

    number: int
    instruction: str
    index: str
    size: int
    offset: int
    type: Type
    phi: bool = False
    space: int = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """A block of memory.

    Attributes:
        index: XLA's number.
        size: Bytes.
        kind: Its use. An output's allocation can hold temporaries before.
        parameter: Number of its parameter; None for other kinds.
        live_out: Whether it may hold a result; for a parameter: whether it is donated to one.
        buffers: The values in it.
        note: The rest of its line, as printed.
    """

    index: int
    size: int
    kind: Kind
    parameter: int | None
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
        peak_at: The position of XLA's peak, arguments and results included; None without live
            ranges.
        at_peak: The values in use there: instruction, index and bytes.
        breakdown: XLA's own tree of the peak by op_name, as printed.
        unknown: Lines that could not be parsed.
    """

    allocations: tuple[Allocation, ...]
    order: tuple[str, ...] = ()
    ranges: tuple[LiveRange, ...] = ()
    peak_at: int | None = None
    at_peak: tuple[tuple[str, str, int], ...] = ()
    breakdown: tuple[str, ...] = ()
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
        self.peak_at: int | None = None
        self.at_peak: list[tuple[str, str, int]] = []
        self.breakdown: list[str] = []
        self.unknown: list[str] = []

    def line(self, line: str) -> None:
        """Reads one line; blanks at its ends matter in the breakdown alone."""
        printed, line = line.rstrip(), line.strip()
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
        elif match := _PEAK.match(line):
            self.peak_at = int(match[1])
        elif self.peak_at is not None and (match := _LIVE.match(line)):
            self.at_peak.append((match[1], match[2], int(match[3])))
        elif self.breakdown or line.startswith("Stack trace breakdown"):
            self.breakdown.append(printed)
        elif not line.startswith("HloLiveRange"):
            self.unknown.append(line)

    def done(self) -> Buffers:
        return Buffers(
            tuple(_allocation(match, tuple(buffers)) for match, buffers in self.allocations),
            tuple(self.order),
            tuple(self.ranges),
            self.peak_at,
            tuple(self.at_peak),
            tuple(self.breakdown),
            tuple(self.unknown),
        )


def _allocation(match: re.Match[str], buffers: tuple[Buffer, ...]) -> Allocation:
    note = match[3]
    parameter = _PARAMETER.match(note)
    flags = _OUTPUT.sub("", _PARAMETER.sub("", note))
    live_out = "maybe-live-out" in flags
    kind: Kind = "temporary"
    if parameter:
        kind = "parameter"
    elif ", constant" in flags:
        kind = "constant"
    elif "thread-local" in flags:
        kind = "thread-local"
    elif live_out or _OUTPUT.match(note):
        kind = "output"
    number = int(parameter[1]) if parameter else None
    size = int(match[2])
    return Allocation(int(match[1]), size, kind, number, live_out, buffers, note.lstrip(", "))


def _buffer(match: re.Match[str]) -> Buffer:
    name, index, shape = match[2], match[3] or "", match[8]
    number, size, offset, space = (int(match[group]) for group in (1, 6, 7, 5))
    type_ = read_type(shape) or Type(shape)
    return Buffer(number, name, index, size, offset, type_, bool(match[4]), space)
