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
from jaxlens.ir.graph import Node, Span
from jaxlens.ir.hlo import buffers
from jaxlens.ir.hlo.buffers import Kind as Allocated
from jaxlens.ir.hlo.instructions import inputs_of
from jaxlens.ir.hlo.library_products import is_scratch
from jaxlens.ir.hlo.live_ranges import Live, LiveValue, live, reserved
from jaxlens.ir.hlo.live_ranges import spaces as live_spaces
from jaxlens.ir.hlo.memory_spaces import space_name
from jaxlens.links.instruction_atoms import TRIVIAL
from jaxlens.program.kernels import inside
from jaxlens.program.sentences import lines_of
from jaxlens.questions.memory.buffer_origins import Origin, Origins
from jaxlens.questions.memory.residuals import Saved, saved

Kind = Literal["argument", "result", "constant", "temporary"]
_KINDS: Mapping[Allocated, Kind] = {
    "parameter": "argument",
    "output": "result",
    "constant": "constant",
    "temporary": "temporary",
}
_DRAWN = 0.002  # share of the reserved memory from which a value is drawn
_WORTH = 0.02  # share of the peak from which the line of a value is also looked up in the links


@dataclass(frozen=True, slots=True)
class Owned:
    """A value in memory and the source line that owns it.

    Attributes:
        name: XLA's name of the value, or the user's name of an argument.
        type: Its type as text.
        bytes: Its size.
        kind: Argument, result, constant or temporary.
        line: The source line of the instruction that computes it; "" where unknown.
        span: The same line as a span.
        instruction: The instruction that computes it; a fusion, where it is inside one.
        saved: Whether it is a residual, kept for the backward pass.
        stacked: Whether a loop stacks it, a row per trip.
        scratch: Whether it is the scratch memory of a library, which nothing else reads.
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
    scratch: bool


@dataclass(frozen=True, slots=True)
class Space:
    """A memory space of the device other than its main memory, such as a TPU's VMEM.

    Attributes:
        name: Its name, such as "VMEM".
        peak: Bytes in use at its peak.
        reserved: Bytes that the program allocates in it from start to end.
        instruction: The instruction that runs at its peak.
    """

    name: str
    peak: int
    reserved: int
    instruction: str


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
        code: Bytes of the machine code; None where XLA does not say.
        constants: Bytes of arrays that are part of the program.
        instruction: The instruction that runs at the peak; "" where unknown.
        runs: The source line of that instruction; "" where it has none.
        at_peak: The values in use at the peak, largest first.
        by_line: Bytes at the peak by source line, largest first, without arguments; "" collects
            values that no line owns.
        saved: The residuals.
        memory: The name of the main memory.
        spaces: The device's other memories that the program uses.
        missing: Why there is no buffer assignment; "" where there is one.
        note: What XLA's sizes leave out.
        at_end: Whether the instruction at the peak is the tuple of all results.
    """

    peak: int | None
    reserved: int | None
    arguments: int | None
    outputs: int | None
    temporaries: int | None
    aliases: int | None
    code: int | None
    constants: int
    instruction: str
    runs: str
    at_peak: tuple[Owned, ...]
    by_line: Mapping[str, int]
    saved: Saved
    memory: str = "main memory"
    spaces: tuple[Space, ...] = ()
    missing: str = ""
    note: str = ""
    at_end: bool = False

    @property
    def moment(self) -> str:
        """When the peak is: "when fusion.3 runs (step.py:7)"; "" where unknown."""
        if self.at_end:
            return "at the end, when all results are there"
        at = f" ({self.runs})" if self.runs else ""
        return f"when {self.instruction} runs{at}" if self.instruction else ""

    def kind(self, kind: Kind) -> int:
        """Returns the bytes of one kind at the peak."""
        return sum(value.bytes for value in self.at_peak if value.kind == kind)


def memory_use(capture: Capture) -> MemoryUse:
    """Computes the memory use of a capture.

    Raises:
        UnavailableError: The backend provides no sizes.
    """
    residuals = saved(capture)
    assignment = capture.assignment
    ranges = live(assignment) if assignment else None
    at_peak = owners(capture, ranges, ranges.at_peak, residuals) if ranges else ()
    spaces = _spaces(capture, assignment) if assignment else ()
    node = _instruction(capture, ranges.instruction) if ranges else None
    sizes = capture.memory  # last: the executable comes after the HLO
    return MemoryUse(
        ranges.bytes if ranges else None,
        reserved(sizes, assignment, ranges),
        sizes.arguments,
        sizes.outputs,
        sizes.temporaries,
        sizes.aliases,
        sizes.code,
        assignment.bytes("constant") if assignment else 0,
        ranges.instruction if ranges else "",
        _line_of(capture, node) if node else "",
        at_peak,
        _by_line(at_peak),
        residuals,
        space_name(0, capture.program.target.platform),
        spaces,
        "" if ranges else why_unavailable(lambda: capture.buffers),
        sizes.note,
        node is not None
        and node.opcode == "tuple"
        and node.id in capture.optimized.module.body().results,
    )


def _by_line(values: Iterable[Owned]) -> dict[str, int]:
    by_line: Counter[str] = Counter()
    for value in values:
        if value.kind != "argument":
            by_line[value.line] += value.bytes
    return dict(by_line.most_common())


def _spaces(capture: Capture, assignment: buffers.Buffers) -> tuple[Space, ...]:
    """Returns the use of the device's memories other than its main memory."""
    platform = capture.program.target.platform
    return tuple(
        Space(space_name(number, platform), ranges.bytes, ranges.reserved, ranges.instruction)
        for number in live_spaces(assignment)
        if (ranges := live(assignment, number))
    )


def _instruction(capture: Capture, id: str) -> Node | None:
    return next((node for node in capture.optimized.module.nodes() if node.id == id), None)


def _line_of(capture: Capture, node: Node) -> str:
    if node.owner:
        return str(node.owner)
    return next(iter(lines_of(inside(node, capture.optimized.module))), "")


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


def timeline(capture: Capture) -> Timeline | None:
    """Returns the values in memory over the schedule; None where XLA gives no live ranges."""
    assignment = capture.assignment
    ranges = live(assignment) if assignment else None
    if assignment is None or ranges is None:
        return None
    shown = tuple(v for v in ranges.values if v.buffer.size >= _DRAWN * ranges.reserved)
    trivial = {n.id for n in capture.optimized.module.nodes() if n.opcode in TRIVIAL}
    used = {value.allocation for value in ranges.values}
    platform = capture.program.target.platform
    return Timeline(
        ranges,
        owners(capture, ranges, shown, saved(capture)),
        shown,
        {a.index: a.size for a in assignment.allocations if a.index in used},
        frozenset(n for n, id in enumerate(assignment.order) if id in trivial),
        space_name(0, platform) if live_spaces(assignment) else "Memory",
    )


def owners(
    capture: Capture, ranges: Live, values: Iterable[LiveValue], residuals: Saved
) -> tuple[Owned, ...]:
    """Returns values with the source lines that own them, in the order of `values`.

    Args:
        capture: The capture of their program.
        ranges: All live ranges.
        values: The values.
        residuals: The residuals of the program.
    """
    lines = _Lines(capture, residuals, _WORTH * ranges.bytes)
    return tuple(map(lines.owned, values))


class _Lines:
    """Looks up the source lines of values, and whether they are residuals.

    The links between stages find lines that instructions lack, but take longer than all else here,
    so they are used for large values only.
    """

    def __init__(self, capture: Capture, residuals: Saved, worth: float) -> None:
        self._capture, self._worth = capture, worth
        self._origins = Origins(capture.optimized.module)
        self._residuals = {id for r in residuals.residuals for id in (r.id, r.maker)}
        self._inputs = inputs_of(capture.optimized.module, capture.program.inputs)

    def owned(self, value: LiveValue) -> Owned:
        """Returns a value with the line that owns it."""
        buffer = value.buffer
        kind = _KINDS[value.kind]
        origin = self._origins.origin(buffer.instruction, buffer.index)
        name = f"{buffer.instruction}[{buffer.index}]" if buffer.index else buffer.instruction
        span, line, instruction = None, "", buffer.instruction
        is_saved = stacked = scratch = False
        if kind == "argument" and origin is not None:
            leaf = self._inputs.get(origin.node.id)
            name = leaf.name if leaf is not None else origin.node.scope or name
        elif origin is not None:
            span, line = self._line(origin, buffer.size)
            stacked = origin.stacked
            last = buffer.index.rpartition(",")[2]
            scratch = last.isdigit() and is_scratch(origin.node, int(last))
            is_saved = kind == "temporary" and not scratch and self._is_saved(origin.node)
            instruction = origin.fusion or origin.node.id
        return Owned(
            name,
            str(buffer.type),
            buffer.size,
            kind,
            line,
            span,
            instruction,
            is_saved,
            stacked,
            scratch,
        )

    def _line(self, origin: Origin, size: int) -> tuple[Span | None, str]:
        node = origin.node
        spans = (inner.owner for inner in self._origins.inside(origin.fusion) if inner.owner)
        span = node.owner or min(spans, key=lambda span: (span.file, span.line), default=None)
        if span is not None:
            return span, str(span)
        if node.opcode in ("parameter", "constant") or size < self._worth:
            return None, ""
        try:
            lines = self._capture.links.back(origin.fusion or node.id, "source", "optimized")
        except LensError:
            return None, ""
        return None, next(iter(lines), "")

    def _is_saved(self, node: Node) -> bool:
        if not self._residuals or "transpose(" in node.scope:
            return False
        equations = (id for path in node.stamps for id in self._equations.get(path[-1], ()))
        return not self._residuals.isdisjoint(equations)

    @cached_property
    def _equations(self) -> Mapping[str, tuple[str, ...]]:
        """The equations that each StableHLO op is lowered from, by op id."""
        try:
            ops = self._capture.stablehlo.module.nodes()
        except LensError:
            return {}
        return {op.id: tuple(path[-1] for path in op.stamps) for op in ops}
