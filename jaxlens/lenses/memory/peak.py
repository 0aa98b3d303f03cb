"""Computes the memory peak of a program, and the source lines of the values that are live then.

`peak` is the most bytes in use at any position of XLA's instruction schedule: arguments and
constants always, results from their definition on, temporaries during their live range; values at
the same offset of an allocation count once. XLA's heap simulator counts temporaries in the same way
when it packs them. `reserved` is what the program allocates from start to end: XLA allocates the
memory of all temporaries before it starts, and packing leaves gaps.
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
from jaxlens.lenses.program.instructions import inputs_of
from jaxlens.lenses.program.kernels import inside
from jaxlens.lenses.sentences import lines_of
from jaxlens.links.instruction_atoms import TRIVIAL

Kind = Literal["argument", "result", "constant", "temporary"]
_KINDS: Mapping[Allocated, Kind] = {
    "parameter": "argument",
    "output": "result",
    "constant": "constant",
    "temporary": "temporary",
}
_WORTH = 0.02  # share of the peak from which the line of a value is also looked up in the links


@dataclass(frozen=True, slots=True)
class Owned:
    """A value in memory and the source line that owns it.

    Attributes:
        name: XLA's name of the value, or the user's name of an argument or a captured array.
        type: Its type as text.
        bytes: Its size.
        kind: Argument, result, constant or temporary.
        line: The source line of the instruction that computes it; "" where unknown.
        span: The same line as a span.
        instruction: The instruction that computes it; a fusion, where it is inside one.
        saved: Whether it is a residual, kept for the backward pass.
        stacked: Whether a loop stacks it, a row per trip.
        start: First position of the schedule at which it is live.
        end: Last position of the schedule at which it is live.
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
    """A memory space of the device other than its main memory, such as a TPU's VMEM.

    Attributes:
        number: XLA's number, 1 in the layout `S(1)`.
        name: Its name, such as "VMEM".
        peak: Bytes in use at its peak.
        reserved: Bytes that the program allocates in it from start to end.
        instruction: The instruction that runs at its peak.
        at_peak: The values in it at its peak, largest first.
        by_line: Bytes at its peak by source line, largest first.
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
    """The memory of a program, in bytes per device. All but `spaces` is about the main memory.

    Attributes:
        peak: Bytes in use at the peak, all kinds together; None without live ranges from XLA.
        reserved: Bytes that the program allocates from start to end; None where unknown.
        arguments: Bytes of the inputs.
        outputs: Bytes of the results, those that reuse donated inputs included.
        temporaries: Bytes of XLA's allocations for temporaries.
        aliases: Bytes of inputs whose buffer a result reuses.
        constants: Bytes of arrays that are part of the program.
        instruction: The instruction that runs at the peak; "" where unknown.
        runs: The source line of that instruction; "" where it has none.
        at_peak: The values in use at the peak, largest first.
        by_line: Bytes at the peak by source line, largest first, without arguments; "" collects
            values that no line owns.
        saved: The residuals.
        unplaced: Number of values without a live range, which are not counted.
        memory: The name of the main memory.
        spaces: The device's other memories that the program uses.
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
        """Returns the bytes of one kind at the peak."""
        return sum(one.bytes for one in self.at_peak if one.kind == kind)


def memory_use(capture: Capture) -> MemoryUse:
    """Computes the memory use of a capture.

    Raises:
        UnavailableError: The backend provides no sizes.
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
        reserved = max(reserved, found.bytes)  # on some devices XLA's sizes omit tables of pointers
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
    """Returns the use of the device's memories other than its main memory."""
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
    """The values in memory over the schedule, for a chart.

    Attributes:
        live: XLA's live ranges over its buffers.
        values: The values large enough to draw, with their source lines, in the order of `held`.
        held: The same values with their allocations and offsets.
        sizes: Bytes of each allocation that has values, by XLA's number.
        quiet: Positions of the schedule that compute nothing: parameters, tuples and bitcasts.
        memory: The name of the memory; "Memory" where the program uses no other.
    """

    live: Live
    values: tuple[Owned, ...]
    held: tuple[LiveValue, ...]
    sizes: Mapping[int, int]
    quiet: frozenset[int]
    memory: str = "Memory"


def timeline(capture: Capture, least: float = 0.002) -> Timeline | None:
    """Returns the values in memory over the schedule; None where XLA gives no live ranges.

    Args:
        capture: Any capture.
        least: Share of the reserved memory below which a value is not drawn.
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
    """Returns XLA's buffer assignment; None where there is none."""
    try:
        return buffers.read(capture.buffers)
    except LensError:
        return None


def owners(
    capture: Capture, found: Live, held: Iterable[LiveValue], kept: Saved
) -> tuple[Owned, ...]:
    """Returns values with the source lines that own them, in the order of `held`.

    Args:
        capture: The capture of their program.
        found: All live ranges.
        held: The values.
        kept: The residuals of the program.
    """
    makers = Makers(capture.optimized.module)
    look = _Lines(capture, makers, kept, _WORTH * found.bytes)
    return tuple(look.owned(one) for one in held)


class _Lines:
    """Looks up the source lines of values, and whether they are residuals.

    The links between stages find lines that instructions lack, but take longer than all else here,
    so they are used for large values only.
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
        """The equations that each StableHLO op is lowered from, by op id."""
        try:
            ops = self._capture.stablehlo.module.nodes()
        except LensError:
            return {}
        return {op.id: tuple(path[-1] for path in op.stamps) for op in ops}
