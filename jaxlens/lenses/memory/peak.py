"""The moment when a program needs most memory, and who owns what is there.

`peak` is what is in use at the worst moment of XLA's order of instructions: arguments and
constants all the time, results from when they are written, temporaries while they are needed;
values that share a place count once. XLA's heap simulator counts the temporaries in the same way
when it packs them. `reserved` is what the program takes from start to end: XLA sets the memory of
all temporaries aside before it begins, and packing leaves gaps.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from jaxlens.captures import Capture
from jaxlens.errors import LensError, why_unavailable
from jaxlens.ir.graph import Span
from jaxlens.ir.hlo import buffers, memory_spaces
from jaxlens.ir.hlo.buffers import Kind as Allocated
from jaxlens.ir.hlo.live_ranges import Live, LiveValue, live
from jaxlens.ir.hlo.live_ranges import spaces as live_spaces
from jaxlens.lenses.constants.names import CapturedNames
from jaxlens.lenses.memory.buffer_origins import Maker, Makers
from jaxlens.lenses.memory.residuals import Saved, saved
from jaxlens.lenses.program.kernels import inside
from jaxlens.lenses.program.parameters import inputs_of
from jaxlens.lenses.sentences import lines_of
from jaxlens.links.instruction_atoms import TRIVIAL

Kind = Literal["argument", "result", "constant", "temporary"]
_KINDS: Mapping[Allocated, Kind] = {
    "parameter": "argument",
    "output": "result",
    "constant": "constant",
    "temporary": "temporary",
}
_WORTH = 0.02  # share of the peak from which a value without a line is looked up in the links


@dataclass(frozen=True, slots=True)
class Owned:
    """A value in memory and the line that it belongs to.

    Attributes:
        name: XLA's name of the value, or the user's: of an argument, or of a captured array.
        type: Its type as text.
        bytes: Its size.
        kind: What it is to the caller.
        line: The source line that made it; "" where none is known.
        span: The same as a span.
        instruction: The instruction that made it, where links lead.
        saved: Whether autodiff keeps it for the backward pass.
        stacked: Whether a loop stacks it, a row a trip.
        start: First position of the order where it is there.
        end: The last.
    """

    name: str
    type: str
    bytes: int
    kind: Kind
    line: str
    span: Span | None
    instruction: str
    saved: bool
    stacked: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Space:
    """A memory of the device beside its main memory, such as a TPU's on-chip memory.

    Attributes:
        number: As in `S(1)`.
        name: "VMEM".
        peak: Bytes in use there at the worst moment for it.
        reserved: Bytes of it that the program takes from start to end.
        instruction: What runs at that moment.
        at_peak: What is in use there then, largest first.
        by_line: The same in bytes by source line, largest first.
    """

    number: int
    name: str
    peak: int
    reserved: int
    instruction: str
    at_peak: tuple[Owned, ...]
    by_line: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """A program's memory; sizes in bytes, per device, of its main memory but for `spaces`.

    Attributes:
        peak: In use at the worst moment, all kinds together; None where XLA gives no live ranges.
        reserved: What the program takes from start to end; None where that is not known.
        arguments: Of the inputs.
        outputs: Of the results, those in donated inputs too.
        temporaries: XLA's scratch memory, all of it.
        aliases: Of inputs that hold results.
        constants: Of arrays that are part of the program.
        instruction: What runs at the peak; "" where that is not known.
        runs: The source line of that; "" where it has none.
        at_peak: What is in use there, largest first.
        by_line: Bytes at the peak by source line, largest first; "" collects what no line owns,
            and arguments are left out.
        saved: What autodiff keeps for the backward pass.
        unplaced: Values without a live range, which are not counted.
        memory: What the main memory is called.
        spaces: The device's other memories, as far as the program uses them.
        missing: Why there is no peak; "" where there is one, or XLA gives no live ranges.
    """

    peak: int | None
    reserved: int | None
    arguments: int | None
    outputs: int | None
    temporaries: int | None
    aliases: int | None
    constants: int
    instruction: str
    runs: str
    at_peak: tuple[Owned, ...]
    by_line: Mapping[str, int]
    saved: Saved
    unplaced: int = 0
    memory: str = "main memory"
    spaces: tuple[Space, ...] = ()
    missing: str = ""

    def kind(self, kind: Kind) -> int:
        """Bytes of one kind at the peak."""
        return sum(one.bytes for one in self.at_peak if one.kind == kind)


def memory_use(capture: Capture) -> MemoryUse:
    """Works a capture's memory out.

    Raises:
        UnavailableError: The backend gives no sizes.
    """
    sizes = capture.memory
    kept = saved(capture)
    found, constants = None, 0
    at: tuple[Owned, ...] = ()
    assigned = read(capture)
    if assigned is not None:
        constants = assigned.bytes("constant")
        found = live(assigned)
    runs = ""
    if found is not None:
        at = owners(capture, found, found.at_peak, kept)
        runs = _line_of(capture, found.instruction)
    whole = _whole(sizes.arguments, sizes.outputs, sizes.temporaries)
    reserved = None if whole is None else whole - (sizes.aliases or 0) + constants
    if reserved is not None and found is not None:
        reserved = max(reserved, found.bytes)  # XLA leaves tables of pointers out on some devices
    return MemoryUse(
        found.bytes if found else None,
        reserved,
        sizes.arguments,
        sizes.outputs,
        sizes.temporaries,
        sizes.aliases,
        constants,
        found.instruction if found else "",
        runs,
        at,
        _by_line(at),
        kept,
        found.unplaced if found else 0,
        memory_spaces.name(0, capture.program.target.platform),
        spaces(capture, assigned, kept) if assigned is not None else (),
        "" if found else why_unavailable(lambda: capture.buffers),
    )


def _by_line(held: Iterable[Owned]) -> dict[str, int]:
    by_line: Counter[str] = Counter()
    for one in held:
        if one.kind != "argument":
            by_line[one.line] += one.bytes
    return dict(by_line.most_common())


def spaces(capture: Capture, assigned: buffers.Buffers, kept: Saved) -> tuple[Space, ...]:
    """What a program has in memories beside the device's main memory."""
    used = []
    for number in live_spaces(assigned):
        found = live(assigned, number)
        if found is not None:
            at = owners(capture, found, found.at_peak, kept)
            name = memory_spaces.name(number, capture.program.target.platform)
            used.append(
                Space(
                    number, name, found.bytes, found.reserved, found.instruction, at, _by_line(at)
                )
            )
    return tuple(used)


def _whole(*sizes: int | None) -> int | None:
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _line_of(capture: Capture, instruction: str) -> str:
    module = capture.optimized.module
    node = next((n for n in module.nodes() if n.id == instruction), None)
    if node is None:
        return ""
    return str(node.owner) if node.owner else next(iter(lines_of(inside(node, module))), "")


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is in memory when, for a chart.

    Attributes:
        live: XLA's live ranges over its buffers.
        values: Those worth drawing, with their owners, in the order of `held`.
        held: The same with their places.
        sizes: Bytes of each allocation that has values, in XLA's order, by number.
        quiet: Positions where nothing is computed: the order's parameters, tuples and views.
        memory: Which memory of the device it is: "Memory" where the program uses no other.
    """

    live: Live
    values: tuple[Owned, ...]
    held: tuple[LiveValue, ...]
    sizes: Mapping[int, int]
    quiet: frozenset[int]
    memory: str = "Memory"


def timeline(capture: Capture, least: float = 0.002) -> Timeline | None:
    """What is in memory when; None where XLA gives no live ranges.

    Args:
        capture: Any capture.
        least: Share of all memory from which a value is worth drawing.
    """
    assigned = read(capture)
    found = live(assigned) if assigned is not None else None
    if assigned is None or found is None:
        return None
    worth = least * found.reserved
    shown = tuple(one for one in found.values if one.buffer.size >= worth)
    trivial = {n.id for n in capture.optimized.module.nodes() if n.opcode in TRIVIAL}
    used = {one.allocation for one in found.values}
    return Timeline(
        found,
        owners(capture, found, shown, saved(capture)),
        shown,
        {a.index: a.size for a in assigned.allocations if a.index in used},
        frozenset(n for n, id in enumerate(assigned.order) if id in trivial),
        memory_spaces.name(0, capture.program.target.platform)
        if live_spaces(assigned)
        else "Memory",
    )


def read(capture: Capture) -> buffers.Buffers | None:
    """XLA's buffers; None where it gives none."""
    try:
        return buffers.read(capture.buffers)
    except LensError:
        return None


def owners(
    capture: Capture, found: Live, held: Iterable[LiveValue], kept: Saved
) -> tuple[Owned, ...]:
    """The owners of some values, in their order.

    Args:
        capture: Where they come from.
        found: Their live ranges.
        held: The values.
        kept: What autodiff keeps.
    """
    makers = Makers(capture.optimized.module)
    look = _Lines(capture, makers, kept, _WORTH * found.bytes)
    return tuple(look.owned(one) for one in held)


class _Lines:
    """Lines and equations of values.

    The links know more than the instructions themselves, but take longer than all the rest: they
    are asked for large values alone.
    """

    def __init__(self, capture: Capture, makers: Makers, kept: Saved, worth: float) -> None:
        self._capture, self._makers, self._worth = capture, makers, worth
        self._kept = {id for one in kept.residuals for id in (one.id, one.maker)}
        self._captured = CapturedNames(capture)
        self._inputs = inputs_of(capture.optimized.module, capture.program.inputs)

    def owned(self, held: LiveValue) -> Owned:
        buffer = held.buffer
        kind = _KINDS[held.kind]
        maker = self._makers.of(buffer.instruction, buffer.index)
        name = f"{buffer.instruction}[{buffer.index}]" if buffer.index else buffer.instruction
        span, line, saved, stacked, made = None, "", False, False, buffer.instruction
        if kind == "argument" and maker is not None:
            known = self._inputs.get(maker.node.id)
            name = known.name if known is not None else maker.node.scope or name
        elif kind == "constant" and buffer.size >= self._worth:
            name = self._captured.name(buffer.instruction, buffer.type) or name
        elif maker is not None:
            span, line = self._line(maker, buffer.size)
            stacked = maker.stacked
            saved = kind == "temporary" and self._is_saved(maker)
            made = maker.fusion or maker.node.id
        return Owned(
            name,
            str(buffer.type),
            buffer.size,
            kind,
            line,
            span,
            made,
            saved,
            stacked,
            held.start,
            held.end,
        )

    def _line(self, maker: Maker, size: int) -> tuple[Span | None, str]:
        if maker.node.owner is not None:
            return maker.node.owner, str(maker.node.owner)
        inside = list(self._makers.inside(maker.fusion)) if maker.fusion else []
        if lines := lines_of(inside):
            span = next(n.owner for n in inside if n.owner and str(n.owner) == lines[0])
            return span, lines[0]
        if maker.node.opcode in ("parameter", "constant") or size < self._worth:
            return None, ""
        try:
            found = self._capture.links.back(maker.fusion or maker.node.id, "source", "optimized")
        except LensError:
            return None, ""
        return None, next(iter(found), "")

    def _is_saved(self, maker: Maker) -> bool:
        if not self._kept or "transpose(" in maker.node.scope:
            return False
        paths = maker.node.stamps
        return any(id in self._kept for path in paths for id in self._equations.get(path[-1], ()))

    @cached_property
    def _equations(self) -> Mapping[str, tuple[str, ...]]:
        """The equations that made each op."""
        try:
            ops = self._capture.stablehlo.module.nodes()
        except LensError:
            return {}
        return {op.id: tuple(path[-1] for path in op.stamps) for op in ops}
