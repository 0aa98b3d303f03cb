"""Computes the memory peak of a program, and the source lines of the values that are live then.

`peak` is the most bytes in use at any position of XLA's instruction schedule: arguments and
constants always, results from their definition on, temporaries during their live range; values at
the same offset of an allocation count once. XLA's heap simulator counts temporaries in the same way
when it packs them. `reserved` is what the program allocates from start to end: XLA allocates the
memory of all temporaries before it starts, and packing leaves gaps.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from jaxlens.captures import Capture
from jaxlens.errors import LensError, why_unavailable
from jaxlens.ir.facts import Memory
from jaxlens.ir.graph import Node, Span
from jaxlens.ir.hlo.buffers import Buffers
from jaxlens.ir.hlo.instructions import inputs_of
from jaxlens.ir.hlo.library_products import is_scratch
from jaxlens.ir.hlo.live_ranges import Live, LiveValue, live, reserved, spaces
from jaxlens.ir.hlo.memory_spaces import HOST, space_name
from jaxlens.links.instruction_atoms import TRIVIAL
from jaxlens.program.kernels import inside
from jaxlens.program.sentences import lines_of
from jaxlens.program.subject import Forwarding, Given, ProgramFacts
from jaxlens.questions.memory.buffer_origins import Origin, Origins
from jaxlens.questions.memory.donation import Donation, donations
from jaxlens.questions.memory.residuals import Residual, Residuals, residuals_of

_KINDS = {"parameter": "argument", "output": "result"}
ABSENT = "no jax.checkpoint"  # in Python, of a program that has some
_DRAWN = 0.002  # share of the reserved memory from which a value is drawn
_WORTH = 0.02  # share of the peak from which the line of a value is also looked up in the links


@dataclass(frozen=True, slots=True)
class HeldValue:
    """A value in memory, with the source line of the instruction that computes it.

    Attributes:
        name: XLA's name of the value, or the user's name of an argument.
        type: Its type as text.
        bytes: Its size.
        kind: Argument, result, constant or temporary.
        line: The source line; "" where unknown.
        span: The same line as a span.
        instruction: The instruction that computes it; a fusion, where it is inside one.
        saved: Whether it is a residual, kept for the backward pass.
        stacked: Whether a loop stacks it, a row per trip.
        scratch: Whether it is the scratch memory of a library, which nothing else reads.
    """

    name: str
    type: str
    bytes: int
    kind: str
    line: str = ""
    span: Span | None = None
    instruction: str = ""
    saved: bool = False
    stacked: bool = False
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class Space:
    """A memory space of the device other than its main memory, such as a TPU's VMEM.

    Attributes:
        name: Its name, such as "VMEM".
        peak: Bytes in use at its peak.
        reserved: Bytes that the program allocates in it from start to end.
    """

    name: str
    peak: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Tried:
    """The program with one way to take less memory, of `jax.checkpoint` or another.

    Attributes:
        name: What is checkpointed, or done, in words.
        code: The same in Python.
        peak: Bytes at the peak; None if the trial failed, was not compiled, or XLA gives no live
            ranges.
        saved: Bytes of residuals, which are kept for the backward pass.
        flops: Arithmetic operations, multiplied by trip counts.
        takes: Bytes that it reserves from start to end.
        why: Why the trial failed; "" where it did not.
        loosened: Whether XLA removed the `opt-barrier`s that keep recomputation in place.
        policy: JAX's name of the policy; "" for none, and for what is not `jax.checkpoint`.
        again: The part of `flops` that is computed again.
        host: Bytes in the host's memory at the peak there.
        named: Bytes of the residuals that `checkpoint_name` names, by name.
    """

    name: str
    code: str = ""
    peak: int | None = None
    saved: int | None = None
    flops: int | None = None
    why: str = ""
    loosened: bool = False
    takes: int | None = None
    policy: str = ""
    again: int | None = None
    host: int = 0
    named: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The values in memory over the schedule, for a chart.

    Attributes:
        live: XLA's live ranges over its buffers.
        values: The values large enough to draw, each with its live range.
        sizes: Bytes of each allocation that has values, by XLA's number.
        moments: Positions of the schedule that compute something: no parameter, tuple or bitcast.
        memory: The name of the memory; "Memory" where the program uses no other.
    """

    live: Live
    values: tuple[tuple[HeldValue, LiveValue], ...]
    sizes: Mapping[int, int]
    moments: Sequence[int]
    memory: str


@dataclass(frozen=True)
class MemoryFacts(Forwarding, ProgramFacts):
    """The memory of a program, in bytes per device. Attributes of `sizes` can be read from it too.

    Attributes:
        sizes: XLA's sizes: `.arguments`, `.outputs`, `.temporaries`, `.aliases`, `.code`.
        peak: Bytes in use at the peak, all kinds together; None without live ranges from XLA.
        reserved: Bytes that the program allocates from start to end; None where unknown.
        instruction: The instruction that runs at the peak; "" where unknown.
        moment: When the peak is: "when fusion.3 runs (step.py:7)"; "" where unknown.
        at_peak: The values in use at the peak, largest first.
        saved: The residuals.
        donations: The donated inputs, and those that could be.
        spaces: The device's other memories that the program uses.
        missing: Why there is no buffer assignment; "" where there is one.
        tried: The program under `jax.checkpoint`, in several ways.
    """

    _forwarded = Memory
    sizes: Memory
    peak: int | None
    reserved: int | None
    instruction: str
    moment: str
    at_peak: tuple[HeldValue, ...]
    saved: Residuals
    donations: tuple[Donation, ...] = ()
    spaces: tuple[Space, ...] = ()
    missing: str = ""
    tried: tuple[Tried, ...] = ()

    def _record(self) -> Memory:
        return self.sizes

    def timeline(self) -> Timeline | None:
        """Returns the live ranges over the schedule; None where XLA gives none."""
        capture = self.subject()
        assignment = capture.assignment
        ranges = live(assignment) if assignment else None
        if assignment is None or ranges is None:
            return None
        shown = tuple(v for v in ranges.values if v.buffer.size >= _DRAWN * ranges.reserved)
        trivial = {n.id for n in capture.optimized.module.nodes() if n.opcode in TRIVIAL}
        quiet = {n for n, id in enumerate(assignment.order) if id in trivial}
        used = {value.allocation for value in ranges.values}
        return Timeline(
            ranges,
            tuple(zip(map(_Lines(capture, ranges, self.saved).held, shown), shown, strict=True)),
            {a.index: a.size for a in assignment.allocations if a.index in used},
            [n for n in range(ranges.end + 1) if n not in quiet] or [0],
            space_name(0, capture.program.target.platform) if spaces(assignment) else "Memory",
        )

    @cached_property
    def by_line(self) -> Mapping[str, int]:
        """Bytes at the peak by source line, without arguments; "" collects values without one."""
        by_line: Counter[str] = Counter()
        for value in self.at_peak:
            if value.kind != "argument":
                by_line[value.line] += value.bytes
        return dict(by_line.most_common())

    @property
    def host(self) -> int:
        """Bytes in the host's memory at the peak there."""
        return sum(space.peak for space in self.spaces if space.name == HOST)

    @property
    def residuals(self) -> tuple[Residual, ...]:
        """The residuals, largest first."""
        return self.saved.values

    def kind(self, kind: str) -> int:
        """Returns the bytes of one kind at the peak."""
        return sum(value.bytes for value in self.at_peak if value.kind == kind)


def facts(capture: Capture) -> MemoryFacts:
    """Computes the memory of a program; `checkpoint.py` tries it under `jax.checkpoint` too.

    Raises:
        UnavailableError: The backend provides no sizes.
    """
    saved = residuals_of(capture)
    assignment = capture.assignment
    ranges = live(assignment) if assignment else None
    sizes = capture.memory  # last: the executable comes after the HLO
    return MemoryFacts(
        sizes=sizes,
        peak=ranges.bytes if ranges else None,
        reserved=reserved(sizes, assignment, ranges),
        instruction=ranges.instruction if ranges else "",
        moment=_moment(capture, ranges.instruction) if ranges else "",
        at_peak=tuple(map(_Lines(capture, ranges, saved).held, ranges.at_peak)) if ranges else (),
        saved=saved,
        donations=Given(lambda: donations(capture)).or_else(()),
        spaces=_spaces(capture, assignment) if assignment else (),
        missing="" if ranges else why_unavailable(lambda: capture.buffers),
        _subject=capture,
    )


def _spaces(capture: Capture, assignment: Buffers) -> tuple[Space, ...]:
    """Returns the use of the device's memories other than its main memory."""
    platform = capture.program.target.platform
    return tuple(
        Space(space_name(number, platform), ranges.bytes, ranges.reserved)
        for number in spaces(assignment)
        if (ranges := live(assignment, number))
    )


def _moment(capture: Capture, instruction: str) -> str:
    """Returns when an instruction runs, in words; "" for none."""
    module = capture.optimized.module
    node = next((node for node in module.nodes() if node.id == instruction), None)
    if node is None:
        return f"when {instruction} runs" if instruction else ""
    if node.opcode == "tuple" and node.id in module.body().results:
        return "at the end, when all results are there"
    line = str(node.owner or next(iter(lines_of(inside(node, module))), ""))
    return f"when {instruction} runs{f' ({line})' if line else ''}"


class _Lines:
    """Looks up the source lines of values, and whether they are residuals.

    The links between stages find lines that instructions lack, but take longer than all else here,
    so they are used for large values only.
    """

    def __init__(self, capture: Capture, ranges: Live, saved: Residuals) -> None:
        self._capture, self._worth = capture, _WORTH * ranges.bytes
        self._origins = Origins(capture.optimized.module)
        self._residuals = {id for r in saved.values for id in (r.id, r.maker)}
        self._inputs = inputs_of(capture.optimized.module, capture.program.inputs)

    def held(self, value: LiveValue) -> HeldValue:
        """Returns a value with its line."""
        buffer = value.buffer
        name = f"{buffer.instruction}[{buffer.index}]" if buffer.index else buffer.instruction
        kind, written = _KINDS.get(value.kind, value.kind), str(buffer.type)
        found = HeldValue(name, written, buffer.size, kind, instruction=buffer.instruction)
        origin = self._origins.origin(buffer.instruction, buffer.index)
        if origin is None:
            return found
        if kind == "argument":
            leaf = self._inputs.get(origin.node.id)
            return replace(found, name=leaf.name if leaf else origin.node.scope or name)
        span, line = self._line(origin, buffer.size)
        last = buffer.index.rpartition(",")[2]
        scratch = last.isdigit() and is_scratch(origin.node, int(last))
        is_kept = kind == "temporary" and not scratch
        return replace(
            found,
            line=line,
            span=span,
            instruction=(origin.fusion or origin.node).id,
            saved=is_kept and self._is_residual(origin.node),
            stacked=origin.stacked,
            scratch=scratch,
        )

    def _line(self, origin: Origin, size: int) -> tuple[Span | None, str]:
        node, holder = origin.node, origin.fusion or origin.node
        inner = inside(holder, self._capture.optimized.module)
        spans = (instruction.owner for instruction in inner if instruction.owner)
        span = node.owner or min(spans, key=lambda span: (span.file, span.line), default=None)
        if span is not None:
            return span, str(span)
        if node.opcode in ("parameter", "constant") or size < self._worth:
            return None, ""
        try:
            lines = self._capture.links.back(holder.id, "source", "optimized")
        except LensError:
            return None, ""
        return None, next(iter(lines), "")

    def _is_residual(self, node: Node) -> bool:
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
