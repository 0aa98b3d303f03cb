"""Finds the program that ran out of memory, from the exception that XLA raised.

A program's first call fails within JAX's frames, which have the function and its arguments; on a
GPU often while it is compiled, as autotuning runs kernels. Under a transform every call does: its
frames have the jaxpr. Other later calls leave no frame of JAX, and a CPU's failure is raised where
the result is waited for. Then the programs in JAX's lowering cache are candidates, by their sizes;
those of one function if the failing call is a call of it. No code of the user's is called.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any

import jax

from jaxlens.ir.jaxpr.bodies import bodies
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.stages import compat
from jaxlens.stages.arguments.inputs import signature_of
from jaxlens.stages.call import isolate
from jaxlens.stages.call.call import Call
from jaxlens.stages.call.numbered_call import ArrayLeaf, numbered
from jaxlens.stages.compat import events
from jaxlens.stages.compile import analyses
from jaxlens.stages.compile.loaded_executable import LoadedExecutable
from jaxlens.stages.watch.cell_calls import abstracted, call_text
from jaxlens.stages.watch.listen import transform

_OUT = re.compile(r"RESOURCE_EXHAUSTED|[Oo]ut of memory")
_BYTES = re.compile(r"allocat\w+ (\d+(?:\.\d+)?)(?:([KMGTP])i?)?(?:B| bytes)?")
_UNITS = ("", *"KMGTP")  # TPUs write "7.45G" for GiB
_MODULE = re.compile(r"\[executable_name='[a-z]+_([\w.-]+)'\]")  # which GPUs give, as "jit_f"
_NO_NAME = re.compile(r"[^\w.-]")  # what the name of a module has "_" for
_AUTOTUNING = "All configs failed during profiling"
_SPARE = 4  # XLA may allocate more than a program's values, for copies and scratch; not 4 times
_NAME = events.LOWERING.index("name")


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
    """Whether JAX's frames show that `dispatched` is what did not compile."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    called = bool(frames) and events.stack(frames[-1]).caller is not None
    return called and any(map(events.is_compiling, frames))


def dispatched(error: BaseException) -> FailedCall | None:
    """Returns the call that JAX was compiling or making; None where C++ made it."""
    frames = list(walk_tb(error.__traceback__))
    stack = events.stack(frames[-1][0]) if frames else events.Stack([])
    if stack.under and stack.program is not None and stack.lowering is not None:
        backward = ", backward pass" if stack.transposes else ""
        return _lowered(stack.program, stack.lowering, f"under {transform(stack)}{backward}")
    if (caller := stack.caller) is None:
        return None
    args, kwargs = abstracted(caller.args, caller.kwargs)
    return FailedCall(compat.rejit(caller.fun, caller.info), args, kwargs)


def compiled(
    error: BaseException, size: int, is_wanted: Callable[[int | None], bool]
) -> list[FailedCall]:
    """Returns the calls of compiled programs that may have made an allocation that failed.

    If the error names the module, only its calls; if C++ called a jitted function by its name in
    the user's code, only calls of that.

    Args:
        error: What XLA raised.
        size: The bytes that XLA could not get.
        is_wanted: Whether a number of bytes is what XLA could not get.
    """
    calls, callee, module = dict(_calls()), _callee(error), _MODULE.search(str(error))
    programs = {}  # of equal ones, as of a cell that ran twice, one
    for jaxpr, lowering, loaded in compat.lowered_programs():
        name = _NO_NAME.sub("_", lowering[_NAME]).rstrip("_")
        if module is not None and module[1] != name:
            continue
        call = calls.get(id(jaxpr))
        if callee is not None and (call is None or call[0].function is not callee):
            continue
        memory = None if loaded is None else analyses.memory(LoadedExecutable(loaded))
        if memory:
            known = memory.temporaries, memory.outputs, *map(_bytes, jaxpr.out_avals)
            if not any(map(is_wanted, known)):
                continue
        elif _bytes_of_values(jaxpr) < size / _SPARE:
            continue
        same = events.program_source(jaxpr), str(jaxpr), str(lowering)
        programs[same] = _called(*call, lowering[0]) if call else _lowered(jaxpr, lowering)
    return [program for program in programs.values() if program is not None]


def _bytes_of_values(jaxpr: Any) -> int:
    """Returns the bytes of all values that a program makes, those of a loop's body once."""
    return sum(
        body.times * sum(_bytes(var.aval) for eqn in body.jaxpr.eqns for var in eqn.outvars)
        for body in bodies(jaxpr).values()
    )


def _bytes(aval: Any) -> int:
    return type_of(aval).bytes or 0


def _lowered(jaxpr: Any, lowering: Sequence[Any], under: str = "") -> FailedCall | None:
    """Returns the call of a jaxpr that JAX lowers on its own."""
    with isolate.untouched(isolate.context()):
        traced = compat.as_traced(jaxpr, dict(zip(events.LOWERING, lowering, strict=True)))
    return None if traced is None else FailedCall(traced, under=under)


def _calls() -> Iterator[tuple[int, tuple[Call, Any, Sequence[Any]]]]:
    """Yields the calls of JAX's trace cache, by the id of their jaxpr.

    Each has its settings of `jax.jit`, and the types of its arrays.
    """
    for fun, context, rest in compat.every_trace_key() or ():
        if context != events.here():
            continue  # looking it up would trace it again
        info, signature, avals, _ = rest
        with suppress(AttributeError, TypeError, ValueError):
            traced = compat.traced_program(fun, rest)
            call = numbered(Call(fun, (), {}, signature_of(fun)), info, signature)
            if traced is not None and call is not None:
                yield id(traced.params["jaxpr"]), (call, info, avals)


def _called(call: Call, info: Any, avals: Sequence[Any], shardings: Sequence[Any]) -> FailedCall:
    """Returns a call of JAX's trace cache."""
    first = len(shardings) - len(avals)  # after the constants that are passed as arguments

    def leaf(value: Any) -> Any:
        if not isinstance(value, ArrayLeaf):
            return value
        sharding, aval = shardings[first + value], avals[value]
        given = sharding if isinstance(sharding, jax.sharding.Sharding) else None
        struct: Any = jax.ShapeDtypeStruct
        return struct(aval.shape, aval.dtype, sharding=given, weak_type=aval.weak_type)

    args, kwargs = jax.tree_util.tree_map(leaf, (call.args, call.kwargs))
    return FailedCall(compat.rejit(call.function, info), args, kwargs)


def _callee(error: BaseException) -> Any:
    """Returns the Python function inside the jitted one whose call failed; None if unknown.

    A call that C++ makes is the last of the traceback, and its function is read from its source.
    """
    for frame, _ in list(walk_tb(error.__traceback__))[-1:]:
        names = {**frame.f_globals, **frame.f_locals}
        with suppress(SyntaxError):
            match ast.parse(call_text(frame), mode="eval").body:
                case ast.Call(func=ast.Name(id=name)):
                    return (compat.jit_parts(names.get(name)) or (None,))[0]
    return None
