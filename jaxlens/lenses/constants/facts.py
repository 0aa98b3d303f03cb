"""Constants of a program: arrays that it closes over, and results of XLA's constant folding.

A captured array is part of the program: it is copied into StableHLO, HLO and the executable, XLA
may compute with it at compile time, and another value needs another trace. What XLA's constant
folding computed is read from the dumps before and after it: an instruction that became a constant,
and its operands that are gone.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.facts import CONVERSION, Constant, PassStage, Stage, Timing
from jaxlens.ir.graph import Node, Type
from jaxlens.ir.hlo import buffers
from jaxlens.lenses.constants.conversion_folds import conversion_folds
from jaxlens.lenses.program.compile_parts import compile_parts
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.subject import Seen
from jaxlens.links.match.instruction_fates import between
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.report import Cell, Finding, Report, Table, amount, count, duration

FOLDING = "constant_folding"
_NOT_COMPILED = "not compiled"
_ROWS = 30
_ENOUGH = 30_000_000  # characters of dumps that are read to list folds
_CONSTANT = re.compile(r" = (\w+)\[([\d,]+)\](?:\{[^}]*\})? constant\(")
_HANDED = "captured arrays as arguments"
_ALARM = 1_000_000  # bytes of captured arrays from which every compile reports them
_LARGE = 1_000  # bytes of a constant from which a sentence names it


@dataclass(frozen=True, slots=True)
class Folded:
    """An op or instruction that was computed at compile time.

    Attributes:
        id: The instruction before the pass, or the op of StableHLO.
        opcode: Its opcode.
        constant: The constant that it became.
        type: Its type as text.
        bytes: Its bytes; None where unknown.
        line: The source line that owns it; "" for none.
        gone: Instructions that it was computed from and that are gone with it.
        by: The pass, or the conversion from StableHLO to HLO.
        step: Index of the pass's dump; 0 for the conversion.
    """

    id: str
    opcode: str
    constant: str
    type: str
    bytes: int | None
    line: str
    gone: tuple[str, ...]
    by: str
    step: int


@dataclass(frozen=True, slots=True)
class Captured:
    """The constants of a program.

    Attributes:
        constants: Arrays that it closes over, the largest first.
        stages: Number of array constants and their bytes, by stage.
        handed: Whether a stand-in was compiled that takes the arrays as arguments.
        folded: What constant folding computed, in order.
        folding: Seconds of constant folding if the compile was profiled; else None.
        missing: Why `folded` is not known; "" if it is.
    """

    constants: tuple[Constant, ...]
    stages: Mapping[str, tuple[int, int]]
    handed: bool = False
    folded: tuple[Folded, ...] = ()
    folding: float | None = None
    missing: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of all arrays that the program closes over."""
        return sum(constant.bytes for constant in self.constants)

    @property
    def folded_bytes(self) -> int:
        """Sum of the bytes of all folded constants."""
        return sum(one.bytes or 0 for one in self.folded)


def facts(capture: Capture, compiled: bool = True) -> Captured:
    """Returns the constants of a capture.

    Args:
        capture: Any capture.
        compiled: Whether to read the compile's constants too; needs the dumps of all passes.
    """
    traced = _of_trace(capture)
    if not compiled:
        return traced
    constants, stages = traced.constants, dict(traced.stages)
    folded: tuple[Folded, ...] = ()
    try:
        folded, missing = folds(capture.passes)
        folded = (*_converted(capture), *folded)
    except LensError as why:
        missing = str(why)
    handed = bool(constants) and is_stand_in(capture)
    if handed:  # known after the compile, which becomes a stand-in's if it takes too long
        folded, missing = (), "a stand-in was compiled, which takes the arrays as arguments"
    for name, held in (("stablehlo", _of_ops), ("optimized", _of_text)):
        try:
            sizes = list(held(capture.stage(name)))
            stages[name] = len(sizes), sum(sizes)
        except LensError:
            continue
    try:
        kept = [a for a in buffers.read(capture.buffers).allocations if a.kind == "constant"]
        stages["executable"] = len(kept), sum(a.size for a in kept)
    except LensError:
        pass
    return Captured(constants, stages, handed, folded, _seconds(capture), missing)


def _of_trace(capture: Seen) -> Captured:
    constants = tuple(sorted(capture.constants, key=lambda c: (-c.bytes, c.name)))
    stages = {"jaxpr": (len(constants), sum(c.bytes for c in constants))}
    return Captured(constants, stages, missing=_NOT_COMPILED)


def _converted(capture: Capture) -> Iterator[Folded]:
    """Yields what the conversion to HLO folded, before XLA's first pass."""
    first = capture.passes[0].stage.module  # not `hlo`, which may be another conversion
    for one in conversion_folds(capture.stablehlo.module, first):
        owner, type = str(one.op.owner or ""), one.constant.type
        yield Folded(
            one.op.id,
            one.op.opcode.rpartition(".")[2],
            one.constant.id,
            str(type),
            type.bytes,
            owner,
            one.gone,
            CONVERSION,
            0,
        )


def is_stand_in(capture: Seen) -> bool:
    """Whether the compiled program takes captured arrays as arguments."""
    return any(_HANDED in step.note for step in _timings(capture))


def _timings(capture: Seen) -> tuple[Timing, ...]:
    try:
        return capture.times
    except LensError:
        return ()


def _of_ops(stage: Stage) -> Iterator[int]:
    """Yields the bytes of each array constant of a StableHLO program."""
    for node in stage.module.nodes():
        if node.opcode == "stablehlo.constant" and node.type.shape:
            yield node.type.bytes or 0


def _of_text(stage: Stage) -> Iterator[int]:
    """Yields the bytes of each array constant of an HLO program, from its text: parsing is slow."""
    for dtype, shape in _CONSTANT.findall(stage.raw):
        yield Type(dtype, tuple(map(int, shape.split(",")))).bytes or 0


def _seconds(capture: Capture) -> float | None:
    """Returns the seconds of constant folding; None if the compile was not profiled."""
    if "profile" not in capture.driver.recorded():
        return None
    parts = compile_parts(capture.profile)
    return next((p.seconds for p in parts.passes if p.name == FOLDING), 0.0)


def folds(stages: Sequence[PassStage]) -> tuple[tuple[Folded, ...], str]:
    """Returns what the constant folding passes computed, and what was not read, in words."""
    found: list[Folded] = []
    programs = NumberedModules()
    read = unread = 0
    for earlier, later in pairwise(stages):
        if not (later.changed and later.name == FOLDING):
            continue
        size = len(earlier.stage.raw) + len(later.stage.raw)
        if read + size > _ENOUGH and read:
            unread += 1
            continue
        read += size
        found += _step(earlier, later, programs)
    missing = f"{count(unread, 'dump')} of it were not read: too long" if unread else ""
    return tuple(found), missing


def _step(earlier: PassStage, later: PassStage, programs: NumberedModules) -> list[Folded]:
    """Returns what one run of the pass computed."""
    before, after = earlier.stage.module, later.stage.module
    fates = between(before, after, (), programs).fates
    nodes = {node.id: node for node in before.nodes()}
    made = {node.id: node for node in after.nodes() if node.opcode == "constant"}
    became = {f.id: f.into[0] if f.into else f.note.removeprefix("into ") for f in fates.values()}
    roots = {
        id: constant
        for id, constant in became.items()
        if constant in made and nodes[id].opcode != "constant"
    }
    gone = {f.id for f in fates.values() if f.name == "folded" and f.id not in roots}
    return [
        Folded(
            id,
            nodes[id].opcode,
            constant,
            str(made[constant].type),
            made[constant].type.bytes,
            str(nodes[id].owner or ""),
            _under(nodes[id], nodes, gone),
            later.name,
            later.index,
        )
        for id, constant in roots.items()
    ]


def _under(root: Node, nodes: Mapping[str, Node], gone: set[str]) -> tuple[str, ...]:
    """Returns the instructions that the root depended on, transitively, and that are gone."""
    found: dict[str, None] = {}
    pending = list(root.operands)
    while pending:
        name = pending.pop()
        if name in gone and name not in found:
            found[name] = None
            pending.extend(nodes[name].operands)
    return tuple(found)


def report(facts: Captured) -> Report:
    """Reports the constants of a program, their cost, and the cure."""
    compiled = facts.missing != _NOT_COMPILED
    if facts.constants:
        findings = [_first(facts), *_copies(facts), *(_folding(facts, "") if compiled else ())]
    else:
        findings = _none(facts, compiled)
    tables = [_arrays(facts)] if facts.constants else []
    if len(facts.stages) > 1 and not facts.handed and any(n for n, _ in facts.stages.values()):
        tables.append(_stages(facts))
    if facts.folded:
        tables.append(_folded(facts))
    return Report("Captured", tuple(findings), tuple(tables))


def closed_over(capture: Seen) -> Captured | None:
    """Returns the constants of the trace alone; None if the capture has no trace."""
    try:
        return _of_trace(capture)
    except UnavailableError:
        return None


def alarm(facts: Captured | None) -> tuple[Finding, ...]:
    """Returns the sentence on large captured arrays that every compile reports; else ()."""
    return (_first(facts),) if facts and facts.bytes >= _ALARM else ()


def _none(facts: Captured, compiled: bool) -> list[Finding]:
    """Returns the findings of a program without captured arrays: what was folded."""
    if compiled and facts.folded and not facts.missing:
        return _folding(facts, "No array is closed over; ")
    nothing = ", and nothing was folded" if compiled and not facts.missing else ""
    first = Finding(f"No array is closed over{nothing}.")
    return [first, *(_folding(facts, "") if compiled else ())]


def _first(facts: Captured) -> Finding:
    """Returns the number and bytes of captured arrays, and the cure, in one sentence."""
    largest = facts.constants[0]
    cure = "" if largest.bytes < _LARGE else _cure(largest)
    if len(facts.constants) == 1:
        return Finding(f"One array is closed over, {_named(largest)}{cure}.")
    share = f"{largest.bytes / (facts.bytes or 1):.0%}"
    return Finding(
        f"{count(len(facts.constants), 'array')} of {amount(facts.bytes)} are closed over, "
        f"{share} of it {_named(largest)}{cure}."
    )


def _named(constant: Constant) -> str:
    """Returns `W` (f32[64,64], 16.4 kB), a global of `f`, first read at cell 3:5."""
    words = f"`{constant.name}` ({constant.type}, {amount(constant.bytes)})"
    if constant.held:
        article = "an" if constant.held[0] in "aeiou" else "a"
        where = f" ({constant.defined})" if constant.defined else ""
        held = "held by" if constant.held == "closure" else "of"
        words += f", {article} {constant.held} {held} `{constant.holder}`{where}"
    if constant.span:
        words += f", first read at {constant.span}"
    if constant.reads > 1:
        words += f", read {constant.reads:,} times"
    return words


def _cure(constant: Constant) -> str:
    what = "the object, as a pytree," if constant.held == "attribute" else "it"
    return f": pass {what} as an argument, and its values are no part of the program"


def _copies(facts: Captured) -> list[Finding]:
    """Returns the finding on arrays that are copied once for each body that uses them."""
    if facts.handed:
        return [
            Finding(
                "What was compiled is a stand-in that takes them as arguments; jax.jit copies "
                f"{amount(facts.bytes)} into StableHLO, and XLA into the executable."
            )
        ]
    several = [c for c in facts.constants if c.bodies > 1]
    if not several:
        return []
    words = [f"`{c.name}` {c.bodies:,} times" for c in several]
    extra = sum((c.bodies - 1) * c.bytes for c in several)
    return [
        Finding(
            f"Jitted functions hold their own: {listed(words)}; that is {amount(extra)} more in "
            "what is lowered."
        )
    ]


def _folding(facts: Captured, before: str) -> list[Finding]:
    """Returns the finding on what was folded; `before` is the beginning of its sentence."""
    if facts.missing:
        return [Finding(f"What was folded is not known: {facts.missing}.", "unknown")]
    if not facts.folded:
        return []
    lead = ""
    if facts.folding is not None:
        lead = f"Constant folding took {duration(facts.folding)}. "
    gone = {id for one in facts.folded for id in (one.id, *one.gone)}
    made = count(len(facts.folded), "constant")
    return [
        Finding(
            f"{before}XLA folded {count(len(gone), 'instruction')} into {made} of "
            f"{amount(facts.folded_bytes)} while it compiled{_largest_fold(facts)}.",
            ids=tuple(one.constant for one in facts.folded),
            lead=lead,
        )
    ]


def _largest_fold(facts: Captured) -> str:
    most = max(facts.folded, key=lambda one: one.bytes or 0)
    if (most.bytes or 0) < _LARGE:
        return ""
    where = f" at {most.line}" if most.line else ""
    return (
        f", the largest ({most.type}, {amount(most.bytes)}) the result of {most.opcode}{where}: "
        "made from an argument, it would be computed when the program runs"
    )


def _arrays(facts: Captured) -> Table:
    """Returns a table with one row per array."""
    largest = facts.constants[0].bytes or 1
    rows = tuple(
        (
            Cell(c.name),
            Cell(str(c.type)),
            Cell(amount(c.bytes), c.bytes, bar=c.bytes / largest),
            Cell(c.held),
            Cell(_holder(c)),
            Cell(str(c.span or "")),
            Cell(f"{c.reads:,}" if c.reads else "", c.reads),
        )
        for c in facts.constants[:_ROWS]
    )
    left = len(facts.constants) - len(rows)
    more = f" {count(left, 'more array')} below these." if left else ""
    return Table(
        "Arrays that are closed over",
        ("name", "type", "bytes", "held as", "by", "first read", "reads"),
        rows,
        f"Reads: equations that name it, in all bodies.{more}",
        right=(2, 6),
    )


def _holder(constant: Constant) -> str:
    return f"{constant.holder} ({constant.defined})" if constant.defined else constant.holder


def _stages(facts: Captured) -> Table:
    """Returns a table of the constants of each stage."""
    titles = {
        "jaxpr": "jaxpr",
        "stablehlo": "StableHLO",
        "optimized": "Optimised HLO",
        "executable": "Executable",
    }
    largest = max(size for _, size in facts.stages.values()) or 1
    rows = tuple(
        (
            Cell(titles[name]),
            Cell(f"{n:,}", n),
            Cell(amount(size), size, bar=size / largest),
        )
        for name, (n, size) in facts.stages.items()
    )
    return Table(
        "Constants by stage",
        ("stage", "arrays", "bytes"),
        rows,
        "Constants with dimensions, the program's own too. StableHLO as text takes two characters "
        "a byte, where an array is not one number throughout.",
        right=(1, 2),
    )


def _folded(facts: Captured) -> Table:
    """Returns a table with one row per folded constant."""
    ranked = sorted(facts.folded, key=lambda one: (-(one.bytes or 0), one.step, one.id))
    largest = ranked[0].bytes or 1
    rows = tuple(
        (
            Cell(one.constant, ids=(one.constant,)),
            Cell(one.type),
            Cell(amount(one.bytes), one.bytes, bar=(one.bytes or 0) / largest),
            Cell(one.opcode),
            Cell(f"{len(one.gone) + 1:,}", len(one.gone) + 1),
            Cell(one.line or "(no line)"),
        )
        for one in ranked[:_ROWS]
    )
    left = len(ranked) - len(rows)
    more = f" {count(left, 'more constant')} below these." if left else ""
    return Table(
        "Folded while compiling",
        ("constant", "type", "bytes", "was", "instructions", "from line"),
        rows,
        f"As StableHLO and the first HLO show, and the dumps before and after {FOLDING}; some is "
        f"folded again, or removed, later.{more}",
        right=(2, 4),
        stage="optimized",
    )
