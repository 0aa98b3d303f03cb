"""The verb on the devices that a program fits."""

from contextlib import suppress
from typing import Any

from jaxlens.answers import ask
from jaxlens.captures import Capture
from jaxlens.capturing import Function, capture, captured
from jaxlens.errors import TargetError
from jaxlens.questions.memory.fits import FitFacts
from jaxlens.questions.memory.row import FITS
from jaxlens.views.view import View

__all__ = ["fits"]


def fits(f: Function | Capture, /, *args: Any, device: str, **kwargs: Any) -> View[FitFacts]:
    """Will it fit a device, and if not, what would make it? Nothing is run.

        jaxlens.fits(step, params, batch, device="h100")

    It is compiled for the device where this machine can do that (`jaxlens[gpu]`, `jaxlens[tpu]`),
    else for this machine's, and the answer says so. Where it does not fit, what
    donated inputs would free is counted, and `jax.checkpoint` is tried by a compile.

    Args:
        f: A function, or a Capture, which is taken as it was compiled.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        device: "h100", "v5e" and others of published memory, or a size: "16 GB".
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.fits` (None where it is too near to say), `.takes` (bytes), `.capacity`,
        `.use` (as of `jaxlens.memory`) and `.actions`, each with `.name`, `.code`, `.takes`.

    Raises:
        OptionError: The memory of the device is not known here.
    """
    from jaxlens.program.published_limits import target_of

    cap = None
    with suppress(TargetError):  # what is not installed here, or a call without inputs
        if not isinstance(f, Capture) and (target := target_of(device)):
            cap = capture(f, *args, target=target, **kwargs)
    return ask(FITS, cap or captured("fits", f, args, kwargs), fits=device)
