"""What we borrow from JAX to see its work as it happens; `compat` has the rest.

JAX reports each trace, lowering and compile through `jax.monitoring`, by name and seconds only. The
call that it is part of is on the Python stack at that moment, in variables of JAX's own functions:
they are read there, and nothing of JAX's is replaced.

Tried with jax 0.10.2 and 0.12.0.1. Each function says what is lost when the thing is gone; none
raises for that reason.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import jax

from jaxlens.ir.spans import Frame
from jaxlens.stages import compat

_STEPS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
_DISK = {
    "/jax/compilation_cache/cache_hits": True,
    "/jax/compilation_cache/cache_misses": False,
}
_PJIT = ("jax/_src/pjit.py", "jax\\_src\\pjit.py")
_TESTS = {"trace_to_jaxpr": "traced", "jit_cpp_cache_miss": "entered"}
_DEEPEST = 5000


@dataclass(frozen=True, slots=True)
class Listeners:
    """Functions to call at JAX's events; each gets the name of the jitted function, if it is known.

    Attributes:
        begin: A step ("trace", "lower", "compile") begins.
        end: It ended, after so many seconds.
        disk: The persistent cache had the program, or did not.
        part: A part of a key of the persistent cache was hashed: its name, its
            hash, and the variables of JAX's function that makes the key.
        note: "traced": a Python function is really traced; "entered": a call did not find an
            entry in its fast path.
    """

    begin: Callable[[str, str], None]
    end: Callable[[str, float, str], None]
    disk: Callable[[bool], None]
    part: Callable[[str, str, Mapping[str, Any]], None]
    note: Callable[[str], None]


def listen(to: Listeners) -> tuple[Callable[[], None], bool]:
    """Calls listeners with what JAX does, in any thread, until the function returned is called.

    The second result says whether `note` is called.

    Gone: without JAX's event for tests, `note` is never called; fast-path entries are not seen,
    and a trace that an inner cache served counts as one. Without the means to unregister, silent
    listeners are left behind.
    """
    monitoring = jax.monitoring
    alive = [True]

    def scalar(event: str, value: float | int, **about: Any) -> None:
        if alive and event in _STEPS:
            to.begin(_STEPS[event], str(about.get("fun_name", "")))

    def duration(event: str, duration_secs: float, **about: Any) -> None:
        if alive and event in _STEPS:
            to.end(_STEPS[event], duration_secs, str(about.get("fun_name", "")))

    def plain(event: str, **about: Any) -> None:
        if alive and event in _DISK:
            to.disk(_DISK[event])

    monitoring.register_scalar_listener(scalar)
    monitoring.register_event_duration_secs_listener(duration)
    monitoring.register_event_listener(plain)
    unhook = compat.hear_test_events(_TESTS, to.note)
    quiet = compat.hear_key_parts(to.part)

    def stop() -> None:
        alive.clear()
        quiet()
        if unhook is not None:
            unhook()
        for name, listener in (
            ("scalar", scalar),
            ("event_duration", duration),
            ("event", plain),
        ):
            unregister = getattr(monitoring, f"unregister_{name}_listener", None)
            if unregister is not None:  # the user may have cleared all listeners meanwhile
                with contextlib.suppress(AssertionError, ValueError):
                    unregister(listener)

    return stop, unhook is not None


@dataclass(frozen=True, slots=True)
class Caller:
    """A call of a jitted function, found on the stack.

    Attributes:
        fun: The Python function inside.
        info: Its jit's settings, as `compat.jit_parts` gives them.
        args: Positional arguments.
        kwargs: Keyword arguments.
        token: Tells this call from others that are running.
        staged: Whether it is traced alone (`f.trace`, `f.lower`, `jax.make_jaxpr`), not called.
    """

    fun: Callable[..., Any]
    info: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    token: tuple[str, int]
    staged: bool


@dataclass(slots=True)
class Stack:
    """What the Python stack says of a step.

    Attributes:
        frames: File, line and function, innermost first, as `ir.spans` takes them.
        caller: The innermost call of a jitted function; None where there is none.
        traces: How many jitted functions are being traced round it.
        program: The jaxpr that is lowered or run; None where none is.
        lowering: The arguments of its lowering behind the jaxpr; None outside of one.
        under: Whether a transform runs a jitted function op by op.
        module: The MLIR module that is compiled; None where none is.
    """

    frames: list[Frame]
    caller: Caller | None = None
    traces: int = 0
    program: Any = None
    lowering: tuple[Any, ...] | None = None
    under: bool = False
    module: Any = None


_LOWERING = tuple(
    "in_shardings out_shardings in_layouts out_layouts donated_invars ctx_mesh name keep_unused "
    "inline compiler_options_kvs".split()
)
LOWERING = _LOWERING
"""What stands at each place of `Stack.lowering`."""


def stack(frame: FrameType | None) -> Stack:
    """Reads the stack from a frame on.

    Gone: where JAX's functions or variables have other names, what they would have shown is
    None; the frames are always there.
    """
    found = Stack([])
    while frame is not None and len(found.frames) < _DEEPEST:
        code = frame.f_code
        if code.co_filename.endswith(_PJIT):
            _read(code.co_name, frame, found)
        elif code.co_name == "_cached_compilation" and found.module is None:
            found.module = frame.f_locals.get("computation")
        found.frames.append((code.co_filename, frame.f_lineno or 0, 0, -1, -1, code.co_qualname))
        frame = frame.f_back
    return found


def _read(name: str, frame: FrameType, found: Stack) -> None:
    if name == "_trace_for_jit":
        found.traces += 1
    elif name == "call_impl_cache_miss" and found.caller is None:
        found.under = True
    elif name == "_pjit_lower" and found.lowering is None:
        values = frame.f_locals
        found.program = values.get("jaxpr")
        found.lowering = tuple(values.get(key) for key in _LOWERING)
    elif name == "_pjit_call_impl_python" and found.program is None:
        found.program = frame.f_locals.get("jaxpr")
    elif name in ("cache_miss", "jit_trace") and found.caller is None:
        found.caller = _caller(name, frame)


def _caller(name: str, frame: FrameType) -> Caller | None:
    values = frame.f_locals
    jitted = values.get("jit_func")
    fun = values.get("fun", getattr(jitted, "_fun", None))
    info = values.get("jit_info", getattr(jitted, "_jit_info", None))
    if not callable(fun) or not hasattr(info, "static_argnums"):
        return None
    args, kwargs = values.get("args", ()), values.get("kwargs", {})
    return Caller(fun, info, tuple(args), dict(kwargs), (name, id(frame)), name == "jit_trace")


def failure(frame: FrameType | None) -> str:
    """Name of the exception that ends a step, read while JAX reports the end; "" for none.

    Gone: "".
    """
    for _ in range(4):
        if frame is None:
            return ""
        if frame.f_code.co_name == "__exit__":
            kind = frame.f_locals.get("exc_type")
            return str(getattr(kind, "__name__", ""))
        frame = frame.f_back
    return ""


def is_primitive(fun: Any) -> bool:
    """Whether JAX jitted it to run one operation outside of jit.

    Gone: False; where the function is JAX's own is known without.
    """
    return bool(getattr(fun, "_apply_primitive", False))


def here() -> Any:
    """JAX's trace context now, as keys have it; None when gone."""
    try:
        return compat.private("config").trace_context()
    except (ImportError, AttributeError):
        return None


def looking() -> bool:
    """Whether one of our own looks is at work in this thread (`compat.apart`).

    Gone: False; what a look does in a watched cell is logged as well.
    """
    try:
        return compat.private("config").jax_jit_cpp_cache_obj.value is not None
    except (ImportError, AttributeError):
        return False


def program_names(program: Any) -> Sequence[str]:
    """Names of a jaxpr's inputs; empty when gone."""
    try:
        info = getattr(program, "jaxpr", program).debug_info
        return tuple(info.arg_names or ())
    except AttributeError:
        return ()


def program_source(program: Any) -> str:
    """Where the function of a jaxpr is defined: "f at /path/file.py:12"; "" when gone."""
    try:
        return str(getattr(program, "jaxpr", program).debug_info.func_src_info or "")
    except AttributeError:
        return ""


def on_disk(name: str) -> int:
    """How many programs of a name are in the persistent compilation cache.

    Args:
        name: The program's name as JAX reports its compile: "jit(step)".

    Gone, or where the cache is no folder of this machine: 0.
    """
    folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    plain = "".join(c if c.isalnum() or c in "_-" else "_" for c in name).rstrip("_")
    try:
        files = [path.name for path in Path(folder or "").iterdir()] if folder else []
    except OSError:
        return 0
    return sum(file.startswith(f"{plain}-") and file.endswith("-cache") for file in files)


def leave_out(folder: str) -> None:
    """From now on JAX takes no file of a folder for the user's.

    It is public in `jax.extend`, whose import changes the key of every trace from jax 0.12 on.

    Gone: it is taken from there.
    """
    try:
        leave = compat.private("source_info_util").register_exclusion
    except (ImportError, AttributeError):
        from jax.extend import source_info_util

        leave = source_info_util.register_exclusion
    leave(folder)
