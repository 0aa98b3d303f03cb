"""The one lowering of a look, and the two texts that need no compile."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxlens.stages import compat
from jaxlens.stages.arguments.closed_over import identities
from jaxlens.stages.call import isolate
from jaxlens.stages.call.target import ResolvedTarget
from jaxlens.stages.call.traceable import TraceableCall
from jaxlens.stages.core.program import written
from jaxlens.stages.trace import stamp
from jaxlens.stages.trace.trace import Trace

# Elements from which a printer writes `...` instead of a constant's values.
ELIDE = 16

_HOISTED = "traced again, with captured arrays as arguments"


@dataclass(frozen=True, slots=True)
class Lowering:
    """A lowered call.

    Attributes:
        lowered: JAX's own object.
        seconds: How long lowering took, wall clock.
        note: What was done differently from a plain lowering, or "".
        ids: Which equation each stamp in its locations stands for; see `stamp.ops`.
    """

    lowered: Any
    seconds: float
    note: str = ""
    ids: stamp.Ids = field(default_factory=dict)


def lower(done: Trace, call: TraceableCall, place: ResolvedTarget) -> Lowering:
    """Lowers a traced call, with stamps that tell where each op and instruction came from."""
    with isolate.untouched(done.context, call.owner, call.function):
        start = time.perf_counter()
        lowered, ids = stamp.lowered(
            done.traced,
            lambda t: t.lower(lowering_platforms=place.platforms),
            program=written(done.traced),
        )
        return Lowering(lowered, time.perf_counter() - start, ids=ids)


def lower_stand_in(
    done: Trace, call: TraceableCall, place: ResolvedTarget, names: Mapping[Any, str]
) -> Lowering:
    """The same with captured arrays as arguments, which bear their names.

    That is JAX's own means: the call is traced once more so that they stay literals, which
    lowering can hoist.
    """
    with (
        isolate.untouched(done.context, call.owner, call.function),
        compat.constants_as_arguments(),
    ):
        start = time.perf_counter()
        traced = call.trace(place)
        lowered, ids = stamp.lowered(
            traced,
            lambda t: compat.lower_hoisting(t, place.platforms),
            written(done.traced) or done.traced.jaxpr,
            written(traced),
        )
        compat.name_hoisted(
            lowered, lambda value: next((names[k] for k in identities(value) if k in names), "")
        )
        return Lowering(lowered, time.perf_counter() - start, _HOISTED, ids)


def stablehlo_text(lowered: Any, locations: bool = False) -> str:
    """StableHLO as MLIR prints it, large constants elided; with source locations if asked."""
    operation = lowered.compiler_ir("stablehlo").operation
    with stamp.none():  # no other thread is at its locations
        return str(operation.get_asm(large_elements_limit=ELIDE, enable_debug_info=locations))


def hlo_text(lowered: Any) -> str:
    """HLO before optimisation, with metadata and stack frames, large constants elided."""
    return compat.hlo_text(compat.hlo(lowered))
