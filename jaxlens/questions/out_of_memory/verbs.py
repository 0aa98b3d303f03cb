"""What is shown below the traceback of a program that ran out of memory."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from jaxlens.answers import ask
from jaxlens.capturing import capture
from jaxlens.views.view import View


def out_of_memory(error: BaseException) -> View[Any] | None:
    """Shows the memory of the program that ran out of it; None for any other exception.

    The program is that of the call in JAX's frames of the traceback. It is compiled, and not run;
    where a GPU ran out of memory in autotuning, without it, in a process of its own.

    Args:
        error: What XLA raised.
    """
    from jaxlens.program.sentences import named_inputs
    from jaxlens.questions.out_of_memory import measure as failed
    from jaxlens.questions.out_of_memory.view import no_memory, not_shown
    from jaxlens.stages.child.recompile import without

    if not failed.is_out_of_memory(error):
        return None
    size, name = failed.wanted_bytes(error), ""
    is_compiling, is_tuning = failed.failed_to_compile(error), failed.is_autotuning(error)
    with suppress(Exception):  # what cannot be captured, or compiled for its sizes
        from jaxlens.questions.memory.row import MEMORY

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
