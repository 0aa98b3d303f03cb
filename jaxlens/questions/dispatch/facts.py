"""Asks the live driver for the parts of a call."""

from jaxlens.captures import Capture
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
