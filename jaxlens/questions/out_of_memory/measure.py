"""Finds the program that ran out of memory, from the exception that XLA raised.

A program's first call fails within JAX's frames, which have the function and its arguments; on a
GPU often while it is compiled, as autotuning runs kernels. Under a transform every call does: its
frames have the jaxpr. A later call leaves no frame of JAX, nor does the wait for the result of an
asynchronous one: nothing tells of these. No code of the user's is called.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.compat import events
from jaxlens.listen.cell_calls import abstracted
from jaxlens.listen.listen import transform

_OUT = re.compile(r"RESOURCE_EXHAUSTED|[Oo]ut of memory")
_BYTES = re.compile(r"allocat\w+ (\d+(?:\.\d+)?)(?:([KMGTP])i?)?(?:B| bytes)?")
_UNITS = ("", *"KMGTP")  # TPUs write "7.45G" for GiB
_AUTOTUNING = "All configs failed during profiling"


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that may have run out of memory.

    Attributes:
        function: The jitted function, or the `jax.stages.Traced` of what has none.
        args: Its arguments, with a `jax.ShapeDtypeStruct` in place of each array.
        kwargs: Its keyword arguments, likewise.
        under: The transform that made it of a function, in words; "" where unknown.
    """

    function: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    under: str = ""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether XLA raised an exception for want of memory; a ValueError where C++ serves a call."""
    kind, text = type(error).__name__, str(error)
    if kind == "ValueError":
        return text.startswith("RESOURCE_EXHAUSTED: ")
    return kind in ("JaxRuntimeError", "XlaRuntimeError") and bool(_OUT.search(text))


def wanted_bytes(error: BaseException) -> int | None:
    """Returns the bytes that XLA could not get; None where it does not say."""
    wanted = _BYTES.search(str(error))
    return round(float(wanted[1]) * 1024 ** _UNITS.index(wanted[2] or "")) if wanted else None


def room(platform: str) -> tuple[int, int] | None:
    """Returns the bytes that JAX takes of a device at most, and those in use there now.

    None where the backend does not say, as a CPU's.
    """
    with suppress(Exception):
        stats = jax.local_devices(backend=platform)[0].memory_stats()
        return int(stats["bytes_limit"]), int(stats["bytes_in_use"])
    return None


def is_autotuning(error: BaseException) -> bool:
    """Whether XLA raised it when it ran a GPU's kernels to choose among them, while compiling."""
    return _AUTOTUNING in str(error)


def failed_to_compile(error: BaseException) -> bool:
    """Whether the call that `dispatched` returns failed while XLA compiled it."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    called = bool(frames) and events.stack(frames[-1]).caller is not None
    return called and any(map(events.is_compiling, frames))


def dispatched(error: BaseException) -> FailedCall | None:
    """Returns the call that JAX was compiling or making; None where C++ made it."""
    frames = list(walk_tb(error.__traceback__))
    stack = events.stack(frames[-1][0]) if frames else events.Stack([])
    if stack.under and stack.program is not None and stack.lowering is not None:
        backward = ", backward pass" if stack.transposes else ""
        lowering = dict(zip(events.LOWERING, stack.lowering, strict=True))
        with isolate.untouched(isolate.context()):
            traced = compat.as_traced(stack.program, lowering)
        under = f"under {transform(stack)}{backward}"
        return None if traced is None else FailedCall(traced, under=under)
    if (caller := stack.caller) is None:
        return None
    args, kwargs = abstracted(caller.args, caller.kwargs)
    return FailedCall(compat.rejit(caller.fun, caller.info), args, kwargs)
