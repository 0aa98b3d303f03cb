"""The verb about a run: who waits for the device, and at which line."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from jaxlens.errors import OptionError
from jaxlens.questions.timeline.events import RunTimeline
from jaxlens.questions.timeline.facts import TimelineFacts, facts
from jaxlens.questions.timeline.report import report
from jaxlens.questions.timeline.view import document
from jaxlens.views.view import View

if TYPE_CHECKING:
    from jaxlens.questions.timeline.measure.record import TimelineRecording

__all__ = ["timeline"]


def recording(caller: FrameType | None = None) -> "TimelineRecording":
    """Returns a context manager that records what a block dispatches and waits for.

    Args:
        caller: The frame whose line counts until a line of the user's begins.
    """
    from jaxlens.questions.timeline.measure.record import TimelineRecording

    return TimelineRecording(caller)


def answer(recorded: RunTimeline, ran: str) -> View[TimelineFacts]:
    """Returns the answer about a recorded run."""
    known = facts(recorded, ran)
    return View.of(known, document, report)


def timeline(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> View[TimelineFacts]:
    """Who waits for whom, at which line? Calls a function once, and says.

        jaxlens.timeline(train, params, data)

    JAX's profiler records what the call dispatches, where Python waits, and when the devices
    execute; the lines are those of your files and cells. The call is a real one: what it donates
    is donated, what it prints is printed, and its errors are raised. It returns when the devices
    are done.

    Args:
        f: A function, jitted or not.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.dispatched`, `.waits` and `.most_queued` (the most programs that were
        dispatched without a wait between them), `.lines` (each with `.line`, `.dispatches`,
        `.waits`, `.waited_for`, `.waiting` in seconds), `.devices`, and `.timeline` with each
        dispatch, wait and execution.

    Raises:
        OptionError: `f` is not callable.
        UnavailableError: An array lies on devices of several processes.
    """
    if not callable(f):
        raise OptionError(
            f"timeline takes a function and its arguments, got {type(f).__name__}: "
            "jaxlens.timeline(f, x)"
        )
    from jaxlens.stages.measure.execute import check_local

    name = getattr(f, "__name__", type(f).__name__)
    check_local((args, kwargs), "timeline")
    with recording(sys._getframe(1)) as run:
        result = f(*args, **kwargs)  # kept until the block ends: the profile then has all of it
    del result
    return answer(run.timeline, f"call of {name}")
