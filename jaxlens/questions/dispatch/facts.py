"""Asks the live driver for the parts of a call."""

from collections.abc import Callable

from jaxlens.captures import Capture
from jaxlens.ir.driver import Run
from jaxlens.questions.dispatch.call_cost import CallCost


def facts(capture: Capture) -> CallCost:
    """Calls the function some 30 times and measures the parts of a call.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: It cannot be called here, or was compiled before.
    """
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.dispatch.measure import measure

    return measure(live)


def beside(capture: Capture) -> Callable[[Run], CallCost]:
    """Holds the call, which a compile lets go; what is returned measures it beside a run.

    Raises:
        UnavailableError: It cannot be called here, or was compiled before.
    """
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.dispatch.measure import beside, call_of

    call = call_of(live)
    return lambda run: beside(live, call, run)
