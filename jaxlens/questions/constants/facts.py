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
from jaxlens.program.closed_over import largest_first
from jaxlens.program.compile_parts import FOLDING, compile_parts
from jaxlens.program.subject import Seen
from jaxlens.questions.constants.folds import Folded, conversion_folds, folds

NOT_COMPILED = "not compiled"
_CONSTANT = re.compile(r" = (\w+)\[([\d,]+)\](?:\{[^}]*\})? constant\(")


@dataclass(frozen=True, slots=True)
class Captured:
    """The constants of a program.

    Attributes:
        constants: Arrays that it closes over, the largest first.
        stages: Number of array constants and their bytes, by stage.
        folded: What constant folding computed, in order.
        folding: Seconds of constant folding if the compile was profiled; else None.
        missing: Why `folded` is not known; "" if it is.
    """

    constants: tuple[Constant, ...]
    stages: Mapping[str, tuple[int, int]]
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
    for name, constant_sizes in _CONSTANT_SIZES.items():
        with suppress(LensError):
            sizes = list(constant_sizes(capture))
            stages[name] = len(sizes), sum(sizes)
    seconds = None
    if "profile" in capture.driver.recorded():
        passes = compile_parts(capture.profile).passes
        seconds = next((p.seconds for p in passes if p.name == FOLDING), 0.0)
    return Captured(constants, stages, folded, seconds, missing)


def _of_trace(capture: Seen) -> Captured:
    constants = largest_first(capture)
    stages = {"jaxpr": (len(constants), sum(c.bytes for c in constants))}
    return Captured(constants, stages, missing=NOT_COMPILED)


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
