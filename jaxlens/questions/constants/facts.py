"""Constants of a program: arrays that it closes over, and results of XLA's constant folding.

A captured array is part of the program: it is copied into StableHLO, HLO and the executable, XLA
may compute with it at compile time, and another value needs another trace.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Type
from jaxlens.ir.hlo import buffers
from jaxlens.program.closed_over import LARGE, is_stand_in, largest_first, sentence
from jaxlens.program.compile_parts import FOLDING, compile_parts
from jaxlens.program.sentences import listed
from jaxlens.program.subject import Seen
from jaxlens.questions.constants.folds import Folded, conversion_folds, folds
from jaxlens.report import Cell, Finding, Report, Table, amount, count, duration, is_cause

_NOT_COMPILED = "not compiled"
_ROWS = 30
_CONSTANT = re.compile(r" = (\w+)\[([\d,]+)\](?:\{[^}]*\})? constant\(")


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
        return sum(fold.bytes or 0 for fold in self.folded)


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
        # Not `hlo`, which may be another conversion.
        first = capture.passes[0].stage.module
        folded = (*conversion_folds(capture.stablehlo.module, first), *folded)
    except LensError as why:
        missing = str(why)
    handed = bool(constants) and is_stand_in(capture)
    if handed:  # known after the compile, which becomes a stand-in's if it takes too long
        folded, missing = (), "a stand-in was compiled, which takes the arrays as arguments"
    for name, constant_sizes in _CONSTANT_SIZES.items():
        with suppress(LensError):
            sizes = list(constant_sizes(capture))
            stages[name] = len(sizes), sum(sizes)
    seconds = None
    if "profile" in capture.driver.recorded():
        passes = compile_parts(capture.profile).passes
        seconds = next((p.seconds for p in passes if p.name == FOLDING), 0.0)
    return Captured(constants, stages, handed, folded, seconds, missing)


def _of_trace(capture: Seen) -> Captured:
    constants = largest_first(capture)
    stages = {"jaxpr": (len(constants), sum(c.bytes for c in constants))}
    return Captured(constants, stages, missing=_NOT_COMPILED)


def _op_sizes(capture: Capture) -> Iterator[int]:
    """Yields the bytes of each array constant of the StableHLO program."""
    for node in capture.stablehlo.module.nodes():
        if node.opcode == "stablehlo.constant" and node.type.shape:
            yield node.type.bytes or 0


def _text_sizes(capture: Capture) -> Iterator[int]:
    """Yields the bytes of each array constant of the HLO text, without the time of parsing it."""
    for dtype, shape in _CONSTANT.findall(capture.optimized.raw):
        yield Type(dtype, tuple(map(int, shape.split(",")))).bytes or 0


def _allocation_sizes(capture: Capture) -> Iterator[int]:
    """Yields the bytes of each allocation of the executable that holds a constant."""
    for allocation in buffers.read(capture.buffers).allocations:
        if allocation.kind == "constant":
            yield allocation.size


_CONSTANT_SIZES = {
    "stablehlo": _op_sizes,
    "optimized": _text_sizes,
    "executable": _allocation_sizes,
}


def report(facts: Captured) -> Report:
    """Reports the constants of a program, their cost, and the cure."""
    compiled = facts.missing != _NOT_COMPILED
    folding = _folding(facts) if compiled else []
    if facts.constants:
        findings = [sentence(facts.constants), *_copies(facts), *folding]
    elif compiled and facts.folded and not facts.missing:
        findings = _folding(facts, "No array is closed over; ")
    else:
        nothing = ", and nothing was folded" if compiled and not facts.missing else ""
        findings = [Finding(f"No array is closed over{nothing}."), *folding]
    tables = [_arrays(facts)] if facts.constants else []
    if len(facts.stages) > 1 and not facts.handed and any(n for n, _ in facts.stages.values()):
        tables.append(_stages(facts))
    if facts.folded:
        tables.append(_folded(facts))
    return Report("Captured", tuple(findings), tuple(tables))


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
    copies = [f"`{c.name}` {c.bodies:,} times" for c in several]
    extra = sum((c.bodies - 1) * c.bytes for c in several)
    return [
        Finding(
            f"Jitted functions hold their own: {listed(copies)}; that is {amount(extra)} more in "
            "what is lowered."
        )
    ]


def _folding(facts: Captured, before: str = "") -> list[Finding]:
    """Returns the finding on what was folded; `before` is the beginning of its sentence."""
    if facts.missing:
        return [Finding(f"What was folded is not known: {facts.missing}.", "unknown")]
    if not facts.folded:
        return []
    seconds = facts.folding
    lead = "" if seconds is None else f"Constant folding took {duration(seconds)}. "
    instructions = {id for fold in facts.folded for id in (fold.id, *fold.gone)}
    text = (
        f"{before}XLA folded {count(len(instructions), 'instruction')} into "
        f"{count(len(facts.folded), 'constant')} of {amount(facts.folded_bytes)} while it compiled"
    )
    largest = max(facts.folded, key=lambda fold: fold.bytes or 0)
    size = largest.bytes or 0
    if size >= LARGE and is_cause(size, facts.folded_bytes):
        where = f" at {largest.line}" if largest.line else ""
        text += f", the largest ({largest.type}, {amount(size)}) the result of "
        text += f"{largest.opcode}{where}"
        if largest.own:
            text += ": made from an argument, it would be computed when the program runs"
    return [Finding(f"{text}.", ids=tuple(fold.constant for fold in facts.folded), lead=lead)]


def _arrays(facts: Captured) -> Table:
    """Returns a table with one row per array."""
    largest = facts.constants[0].bytes or 1
    rows = tuple(
        (
            Cell(c.name),
            Cell(str(c.type)),
            Cell(amount(c.bytes), c.bytes, bar=c.bytes / largest),
            Cell(c.held),
            Cell(f"{c.holder} ({c.defined})" if c.defined else c.holder),
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
    ranked = sorted(facts.folded, key=lambda fold: (-(fold.bytes or 0), fold.step, fold.id))
    largest = ranked[0].bytes or 1
    rows = tuple(
        (
            Cell(fold.constant, ids=(fold.constant,)),
            Cell(fold.type),
            Cell(amount(fold.bytes), fold.bytes, bar=(fold.bytes or 0) / largest),
            Cell(fold.opcode),
            Cell(f"{len(fold.gone) + 1:,}", len(fold.gone) + 1),
            Cell(fold.line or "(no line)"),
        )
        for fold in ranked[:_ROWS]
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
