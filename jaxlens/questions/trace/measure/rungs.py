"""Traces a function with ever more of its transforms, itself first."""

from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.questions.trace.measure.transform_stack import rungs, traceable
from jaxlens.stages.call.call import Call
from jaxlens.stages.call.traceable import TraceableCall, prepare
from jaxlens.stages.driver import LiveDriver, prepared


def rungs_of(capture: Capture) -> tuple[Capture, ...]:
    """Returns captures of a function under more and more of its transforms, itself first.

    `vmap(grad(loss))` gives captures of `loss`, `grad(loss)` and `vmap(grad(loss))`.

    Raises:
        UnavailableError: The function has no transform, was made for a trial, or the capture is
            not of a live call.
    """
    live: LiveDriver = capture.driver.live(traces=True)
    with live.staging.as_called():
        made = ladder_of(live.staging.opened, live.staging.call)
    same = made[-1].program.transforms == capture.program.transforms  # else its rung shows a jit
    return (*made[:-1], capture) if same else made


def ladder_of(opened: Call, of: TraceableCall) -> tuple[Capture, ...]:
    """Returns a program per rung of a call's ladder of transforms, the plain function first.

    A rung whose outermost transform is jit is traced through a caller, so that its jaxpr shows
    the jit eqn.

    Args:
        opened: The call.
        of: The same, prepared: with its name, how often it was traced, and whether
            `jaxlens.core` traces it, which cannot be detected from shapes.
    """
    captures = []
    transforms: tuple[str, ...] = ()
    for rung in rungs(opened.function, opened.args, opened.kwargs):
        transforms = (rung.transform, *transforms) if rung.transform else transforms
        call = prepare(traceable(rung), rung.args, rung.kwargs, of.name, of.core is not None)
        call = replace(call, tracings=of.tracings)
        captures.append(Capture(*prepared(call, None, transforms)))
    return tuple(captures)
