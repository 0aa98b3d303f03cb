"""Lowers a traced call, and prints StableHLO and unoptimised HLO, which need no compile."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxlens.call import isolate
from jaxlens.call.arguments.closed_over_names import identities
from jaxlens.call.core_program import written
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.compat import lowering
from jaxlens.stages.trace import stamp
from jaxlens.stages.trace.trace import Trace

# Number of elements above which printers elide a constant's values.
ELIDE = 16

_HOISTED = "traced again, with captured arrays as arguments"


@dataclass(frozen=True, slots=True)
class Lowering:
    """A lowered call.

    Attributes:
        lowered: The `jax.stages.Lowered`.
        seconds: Wall-clock seconds of lowering.
        note: How it differs from a plain lowering, or "".
        ids: The id of the eqn that each stamp in its locations stands for; see `stamp.ops`.
    """

    lowered: Any
    seconds: float
    note: str = ""
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


def lower_stand_in(
    done: Trace, call: TraceableCall, place: ResolvedTarget, names: Mapping[Any, str]
) -> Lowering:
    """Lowers a call with its captured arrays as arguments, named like the arrays.

    Uses JAX's own hoisting of constants: the call is traced again so that the arrays stay
    literals, which lowering hoists into arguments.
    """
    with (
        isolate.untouched(done.context, call.owner, call.function),
        lowering.constants_as_arguments(),
    ):
        start = time.perf_counter()
        traced = call.trace(place)
        lowered, ids = stamp.lowered(
            traced,
            lambda t: place.lower(t, lowering.lower_hoisting),
            written(done.traced) or done.traced.jaxpr,
            written(traced),
        )
        lowering.name_hoisted(
            lowered, lambda value: next((names[k] for k in identities(value) if k in names), "")
        )
        return Lowering(lowered, time.perf_counter() - start, _HOISTED, ids)


def stablehlo_text(lowered: Any) -> str:
    """Returns StableHLO as MLIR prints it, large constants elided, without locations."""
    operation = lowered.compiler_ir("stablehlo").operation
    with stamp.none():  # no other thread changes its locations meanwhile
        return str(operation.get_asm(large_elements_limit=ELIDE, enable_debug_info=False))


def hlo_text(lowered: Any) -> str:
    """Returns unoptimised HLO with metadata and stack frames, large constants elided."""
    return lowering.hlo_text(lowering.hlo(lowered))
