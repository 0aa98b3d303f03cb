"""Builds the `Stage` of the jaxpr, of StableHLO and of HLO before optimisation."""

from typing import Any

from jaxlens.ir.facts import Stage
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import Origins
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.stages.trace import lower
from jaxlens.stages.trace.jaxpr_stage import stage_of_jaxpr


def jaxpr_stage(staging: TracedCall) -> Stage:
    """Returns the jaxpr stage."""
    return stage_of_jaxpr(staging.program, staging.call.name)


def stablehlo_stage(staging: TracedCall) -> Stage:
    """Returns the StableHLO stage."""
    _ = staging.lowering  # its errors are raised here

    def lowered() -> Any:
        staging.before_reading()
        return staging.lowering.lowered

    return Stage(
        BY_NAME["stablehlo"],
        lambda: lower.stablehlo_text(lowered()),
        lambda: stablehlo.read(lowered().compiler_ir("stablehlo"), staging.stamps),
    )


def hlo_stage(staging: TracedCall, origins: Origins) -> Stage:
    """Returns the stage of HLO before optimisation.

    Args:
        staging: The lowered call.
        origins: Returns the stack frames of a StableHLO op.
    """
    _ = staging.lowered  # its errors are raised here
    stage = Stage(
        BY_NAME["hlo"],
        lambda: lower.hlo_text(staging.lowered),
        lambda: hlo.read(stage.raw, stage="hlo", origins=origins),
    )
    return stage
