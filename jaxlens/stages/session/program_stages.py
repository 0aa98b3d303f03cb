"""Builds the `Stage` of the jaxpr, of StableHLO and of HLO before optimisation."""

from collections.abc import Callable
from typing import Any

from jaxlens.ir.facts import Stage
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import Origins
from jaxlens.ir.jaxpr import reader as jaxpr
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.call import isolate
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.stages.trace import lower, modules, stamp


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


def hlo_stage(staging: TracedCall, origins: Origins, converted: Callable[[], str]) -> Stage:
    """Returns the stage of HLO before optimisation.

    Args:
        staging: The lowered call.
        origins: Returns the stack frames of a StableHLO op.
        converted: Returns the HLO text that a compile has already dumped, or "". Converting
            StableHLO again takes as long as a pass.
    """
    _ = staging.lowered  # its errors are raised here
    stage = Stage(
        BY_NAME["hlo"],
        lambda: lower.hlo_text(staging.lowered),
        lambda: hlo.read(converted() or stage.raw, stage="hlo", origins=origins),
    )
    return stage


def stage_of_jaxpr(program: Any, name: str) -> Stage:
    """Returns the stage of a jaxpr of JAX or of `jaxlens.core`."""

    def read() -> Module:
        with stamp.none():
            return jaxpr.read(program, name, scope=_scope, modules=modules.within)

    return Stage(BY_NAME["jaxpr"], lambda: _printed(program), read)


def _scope(stack: Any) -> str:
    """Returns a name stack as text; a name stack of `jaxlens.core` is a tuple of names."""
    return "/".join(stack) if isinstance(stack, tuple) else str(stack)


def _printed(program: Any) -> str:
    with isolate.deeper(), stamp.none():
        if not hasattr(program, "pretty_print"):  # a jaxpr of jaxlens.core
            return str(program)
        return str(program.pretty_print(use_color=False))
