"""The stages that need no compile: how each is printed, and how it is read."""

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
from jaxlens.stages.trace import lower, stamp


def jaxpr_stage(staging: TracedCall) -> Stage:
    """The traced program."""
    program, name = staging.program, staging.call.name
    return Stage(BY_NAME["jaxpr"], lambda: _printed(program), lambda: _read(program, name))


def stablehlo_stage(staging: TracedCall) -> Stage:
    """The lowered program."""
    lowered = staging.lowering.lowered
    return Stage(
        BY_NAME["stablehlo"],
        lambda: lower.stablehlo_text(lowered),
        lambda: stablehlo.read(lowered.compiler_ir("stablehlo"), staging.stamps),
    )


def hlo_stage(staging: TracedCall, origins: Origins, converted: Callable[[], str]) -> Stage:
    """HLO before optimisation.

    Args:
        staging: The lowered call.
        origins: Gives the frames of its ops.
        converted: What a compile has made of StableHLO already, or "": to make it again takes as
            long as a pass.
    """
    lowered = staging.lowered
    stage = Stage(
        BY_NAME["hlo"],
        lambda: lower.hlo_text(lowered),
        lambda: hlo.read(converted() or stage.raw, stage="hlo", origins=origins),
    )
    return stage


def _read(program: Any, name: str) -> Module:
    with stamp.none():
        return jaxpr.read(program, name, scope=_scope)


def _scope(stack: Any) -> str:
    """A name stack's text; the core's is a tuple of names."""
    return "/".join(stack) if isinstance(stack, tuple) else str(stack)


def _printed(program: Any) -> str:
    with isolate.deeper(), stamp.none():
        if not hasattr(program, "pretty_print"):  # the core's
            return str(program)
        return str(program.pretty_print(use_color=False))
