"""Lowers a traced call, and prints StableHLO and unoptimised HLO, which need no compile."""

import time
from dataclasses import dataclass, field
from typing import Any

from jaxlens.call import isolate
from jaxlens.call.core_program import written
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.compat import lowering
from jaxlens.stages.trace import stamp
from jaxlens.stages.trace.trace import Trace

# Number of elements above which printers elide a constant's values.
ELIDE = 16


@dataclass(frozen=True, slots=True)
class Lowering:
    """A lowered call.

    Attributes:
        lowered: The `jax.stages.Lowered`.
        seconds: Wall-clock seconds of lowering.
        ids: The id of the eqn that each stamp in its locations stands for; see `stamp.ops`.
    """

    lowered: Any
    seconds: float
    ids: stamp.Ids = field(default_factory=dict)


def lower(done: Trace, call: TraceableCall, place: ResolvedTarget) -> Lowering:
    """Lowers a traced call with stamps, which link each op and instruction to its eqn."""
    with isolate.untouched(done.context, call.owner, call.function):
        start = time.perf_counter()
        lowered, ids = stamp.lowered(
            done.traced,
            place.lower,
            program=written(done.traced),
        )
        return Lowering(lowered, time.perf_counter() - start, ids=ids)


def stablehlo_text(lowered: Any) -> str:
    """Returns StableHLO as MLIR prints it, large constants elided, without locations."""
    operation = lowered.compiler_ir("stablehlo").operation
    with stamp.none():  # no other thread changes its locations meanwhile
        return str(operation.get_asm(large_elements_limit=ELIDE, enable_debug_info=False))


def hlo_text(lowered: Any) -> str:
    """Returns unoptimised HLO with metadata and stack frames, large constants elided."""
    return lowering.hlo_text(lowering.hlo(lowered).as_hlo_module())
