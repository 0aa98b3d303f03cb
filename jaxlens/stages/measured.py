"""Runs what a capture looks at, for `--run N`: its own executable, with the call's arguments."""

from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.capture import Capture
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.run import Run, run


def measured(cap: Capture, n: int) -> Run:
    """Compiles if need be, executes `n` times after a warm-up, and measures.

    Args:
        cap: A capture of this process, not lowered yet: lowering lets its arguments go.
        n: How often, at least once.

    Raises:
        OptionError: `n` is below 1, or an argument is a shape without data.
        UnavailableError: The capture was loaded, or has let go of its arguments, or its
            device is not here.
    """
    if not isinstance(cap.driver, LiveDriver):
        raise UnavailableError("a capture that was loaded from a file holds no program to run")
    if cap.program.target.absent:
        raise UnavailableError(f"{cap.program.target.kind} is not here; --run needs the device")
    call = cap.driver.call
    if cap.program.inputs and not call.leaves:
        raise OptionError(
            "this capture let go of its arguments when it was lowered; "
            "run a new one: jaxlens.compile(jaxlens.capture(f, x), run=n)"
        )
    args = tuple(a for i, a in enumerate(call.args) if i not in call.static)
    kwargs = {k: a for k, a in call.kwargs.items() if k not in call.static}
    return run(cap.driver.executable, args, n, kwargs)
