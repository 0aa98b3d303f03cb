"""The verbs on the memory of a program, and of one that ran out of it."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from jaxlens.answers import ask
from jaxlens.captures import Capture
from jaxlens.capturing import Function, capture, captured
from jaxlens.errors import TargetError
from jaxlens.questions.memory.fits import FitFacts
from jaxlens.questions.memory.row import FITS, MEMORY
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


def out_of_memory(error: BaseException) -> View[Any] | None:
    """Shows the memory of the program that ran out of it; None for any other exception.

    The program is that of the call in JAX's frames of the traceback. It is compiled, and not run;
    where a GPU ran out of memory in autotuning, without it, in a process of its own.

    Args:
        error: What XLA raised.
    """
    from jaxlens.program.sentences import named_inputs
    from jaxlens.questions.memory.measure import out_of_memory as failed
    from jaxlens.questions.memory.out_of_memory_view import no_memory, not_shown
    from jaxlens.stages.child.recompile import without

    if not failed.is_out_of_memory(error):
        return None
    size, name = failed.wanted_bytes(error), ""
    is_compiling, is_tuning = failed.failed_to_compile(error), failed.is_autotuning(error)
    with suppress(Exception):  # what cannot be captured, or compiled for its sizes
        if call := failed.dispatched(error):
            program = capture(call.function, *call.args, **call.kwargs)
            about = program.program
            if about.origin:
                program = replace(program, program=replace(about, origin=call.under, jit=""))
            name = about.call if is_compiling else f"{about.call} with {named_inputs(about.inputs)}"
            if is_tuning:
                program = without(program, "xla_gpu_autotune_level=0")[0]
            memory = ask(MEMORY, program).document
            room, own = failed.room(about.target.platform), program.memory.arguments or 0
            return View(program, lambda: no_memory(size, memory, is_tuning, room, own))
    return View(None, lambda: not_shown(size, name, is_compiling, is_tuning))
