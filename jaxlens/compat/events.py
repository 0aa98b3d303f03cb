"""Listens to JAX's traces, lowerings and compiles, and reads their calls from the Python stack.

JAX reports each trace, lowering and compile through `jax.monitoring`, by name and seconds only. The
call that caused it is on the Python stack at that moment, in variables of JAX's own functions. They
are read from the frames; no function of JAX is patched.

Tested with jax 0.10.2 and 0.12.0.1. Each docstring says what is lost when a private name is gone;
no function raises for that reason.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import jax

from jaxlens.compat.calls_heard import hear_test_events
from jaxlens.compat.extend import extend
from jaxlens.compat.import_private import private, when_gone
from jaxlens.ir.spans import Frame

_STEPS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
DiskEvent = Literal["asked", "hit", "kept"]
"""The persistent cache was asked for a program, had it, or is given it (JAX writes not all)."""
_DISK: dict[str, DiskEvent] = {
    "/jax/compilation_cache/compile_requests_use_cache": "asked",
    "/jax/compilation_cache/cache_hits": "hit",
    "/jax/compilation_cache/cache_misses": "kept",
}
_PJIT = ("jax/_src/pjit.py", "jax\\_src\\pjit.py")
_COMPILER = ("jax/_src/compiler.py", "jax\\_src\\compiler.py")
_TESTS = {"trace_to_jaxpr": ""}
_DEEPEST = 5000


def listen(
    *,
    begin: Callable[[str, str], None],
    end: Callable[[str, float, str], None],
    disk: Callable[[DiskEvent], None],
    traced: Callable[[], None],
) -> tuple[Callable[[], None], bool]:
    """Calls functions at JAX's events in any thread, until the returned function is called.

    The second result says whether `traced` is called.

    Args:
        begin: At the start of a step ("trace", "lower", "compile"), with the function's name.
        end: At the end of a step, with its seconds and the function's name.
        disk: At each event of the persistent cache.
        traced: When a Python function is traced (no inner cache hit).

    Gone: without JAX's test events, `traced` is never called, and a hit of an inner cache counts as
    a trace. Without functions to unregister listeners, they stay registered and do nothing.
    """
    monitoring = jax.monitoring
    alive = [True]

    def scalar(event: str, value: float | int, **about: Any) -> None:
        if alive and event in _STEPS:
            begin(_STEPS[event], str(about.get("fun_name", "")))

    def duration(event: str, duration_secs: float, **about: Any) -> None:
        if alive and event in _STEPS:
            end(_STEPS[event], duration_secs, str(about.get("fun_name", "")))

    def plain(event: str, **about: Any) -> None:
        if alive and event in _DISK:
            disk(_DISK[event])

    monitoring.register_scalar_listener(scalar)
    monitoring.register_event_duration_secs_listener(duration)
    monitoring.register_event_listener(plain)
    unhook = hear_test_events(_TESTS, lambda _: traced())

    def stop() -> None:
        alive.clear()
        if unhook is not None:
            unhook()
        for name, listener in {
            "scalar": scalar,
            "event_duration": duration,
            "event": plain,
        }.items():
            unregister = getattr(monitoring, f"unregister_{name}_listener", None)
            if unregister is not None:  # the user may have cleared all listeners meanwhile
                with contextlib.suppress(AssertionError, ValueError):
                    unregister(listener)

    return stop, unhook is not None


@dataclass(frozen=True, slots=True)
class Caller:
    """A call of a jitted function on the Python stack.

    Attributes:
        fun: The Python function inside.
        info: The jit settings, as in `compat.jit_parts`.
        args: Positional arguments.
        kwargs: Keyword arguments.
        token: Identifies the call among those that are running.
        staged: Whether it is only traced (`f.trace`, `f.lower`, `jax.make_jaxpr`), not called.
    """

    fun: Callable[..., Any]
    info: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    token: tuple[str, int]
    staged: bool


@dataclass(slots=True)
class Stack:
    """What the Python stack shows of a step.

    Attributes:
        outer: Its frames, innermost first.
        caller: The innermost call of a jitted function; None if there is none.
        traces: Number of jitted functions that are being traced on the stack.
        program: The jaxpr that is being lowered or run; None if there is none.
        lowering: The arguments of its lowering after the jaxpr; None if there is none.
        under: Whether a transform runs a jitted function op by op.
        transposes: Whether the jaxpr is the backward pass of a jitted function.
        module: The MLIR module that is being compiled; None if there is none.
        devices: The devices that it is compiled for, of all processes.
    """

    outer: list[FrameType]
    caller: Caller | None = None
    traces: int = 0
    program: Any = None
    lowering: tuple[Any, ...] | None = None
    under: bool = False
    transposes: bool = False
    module: Any = None
    devices: tuple[Any, ...] = ()

    @property
    def frames(self) -> Iterator[Frame]:
        """File, line and function of each frame, innermost first, for `ir.spans`."""
        for outer in self.outer:
            code = outer.f_code
            yield code.co_filename, outer.f_lineno or 0, 0, -1, -1, code.co_qualname


LOWERING = tuple(
    "in_shardings out_shardings in_layouts out_layouts donated_invars ctx_mesh name keep_unused "
    "inline compiler_options_kvs".split()
)
"""Names of the entries of `Stack.lowering`."""


def stack(frame: FrameType | None) -> Stack:
    """Reads the Python stack from a frame outwards.

    Gone (functions or variables of JAX renamed): the attributes read from them are None; `frames`
    is always complete.
    """
    whole = Stack([])
    for outer in islice(_outwards(frame), _DEEPEST):
        code = outer.f_code
        if code.co_filename.endswith(_PJIT):
            _read(code.co_name, outer, whole)
        elif code.co_name == "_cached_compilation" and whole.module is None:
            whole.module = outer.f_locals.get("computation")
            whole.devices = tuple(getattr(outer.f_locals.get("dev"), "flat", ()))
        whole.outer.append(outer)
    return whole


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_compiling(frame: FrameType) -> bool:
    """Whether a frame is of JAX's call of the compiler.

    Gone (the module renamed): False.
    """
    return frame.f_code.co_filename.endswith(_COMPILER)


def _read(name: str, frame: FrameType, whole: Stack) -> None:
    """Adds what a frame of JAX's pjit module shows."""
    if name == "_trace_for_jit":
        whole.traces += 1
    elif name.startswith("_pjit_transpose"):
        whole.transposes = True
    elif name in ("_pjit_lower", "_pjit_call_impl_python", "_pjit_call_impl"):
        # Under a transform a program is called by the last, which a call that C++ serves has too.
        whole.under = whole.under or (name == "_pjit_call_impl" and whole.caller is None)
        if whole.program is None:
            values = frame.f_locals
            whole.program = values.get("jaxpr")
            whole.lowering = tuple(values.get(key) for key in LOWERING)
    elif name in ("cache_miss", "jit_trace") and whole.caller is None:
        whole.caller = _caller(name, frame)


def _caller(name: str, frame: FrameType) -> Caller | None:
    values = frame.f_locals
    jitted = values.get("jit_func")
    fun = values.get("fun", getattr(jitted, "_fun", None))
    info = values.get("jit_info", getattr(jitted, "_jit_info", None))
    if not callable(fun) or not hasattr(info, "static_argnums"):
        return None
    args, kwargs = values.get("args", ()), values.get("kwargs", {})
    return Caller(fun, info, tuple(args), dict(kwargs), (name, id(frame)), name == "jit_trace")


def failure(frame: FrameType) -> str:
    """Returns the name of the exception that ends a step, during its end event; "" for none.

    Gone: "".
    """
    for outer in islice(_outwards(frame), 4):
        if outer.f_code.co_name == "__exit__":
            return str(getattr(outer.f_locals.get("exc_type"), "__name__", ""))
    return ""


@dataclass(frozen=True, slots=True)
class CompileResult:
    """What JAX has just compiled, or loaded from its persistent cache.

    Attributes:
        executable: The loaded executable of XLA.
        module: Its StableHLO, as an MLIR module. Only the thread that compiles may read it.
    """

    executable: Any
    module: Any


def compiled(frame: FrameType) -> CompileResult | None:
    """Returns what was compiled, during the end event of a compile.

    Gone: None; nothing is known of the program then.
    """
    for outer in islice(_outwards(frame), 6):
        if outer.f_code.co_name == "_cached_compilation":
            values = outer.f_locals
            if (executable := values.get("xla_executable")) is not None:
                return CompileResult(executable, values.get("computation"))
    return None


@when_gone(False)
def is_primitive(fun: Any) -> bool:
    """Whether JAX jitted the function to run one primitive outside of jit.

    Gone: False; functions in JAX's own files are recognised without it.
    """
    return bool(getattr(fun, "_apply_primitive", False))


@when_gone(None)
def here() -> Any:
    """Returns the current trace context, as in cache keys; None when gone."""
    return private("config").trace_context()


@when_gone(False)
def looking() -> bool:
    """Whether jaxlens itself traces or compiles in this thread (under `compat.apart`).

    Gone: False; the traces and compiles of jaxlens in a watched cell are logged as well.
    """
    return private("config").jax_jit_cpp_cache_obj.value is not None


def program_names(program: Any) -> Sequence[str]:
    """Returns the names of a jaxpr's inputs.

    Gone, or without names: "input 0", "input 1", ...
    """
    names, count = _argument_names(program), len(getattr(program, "in_avals", ()))
    return names if len(names) == count else tuple(f"input {i}" for i in range(count))


@when_gone(())
def _argument_names(program: Any) -> tuple[str, ...]:
    return tuple(getattr(program, "jaxpr", program).debug_info.arg_names or ())


@when_gone("")
def program_source(program: Any) -> str:
    """Returns the definition of a jaxpr's function: "f at /path/file.py:12"; "" when gone."""
    return str(getattr(program, "jaxpr", program).debug_info.func_src_info or "")


def on_disk(name: str) -> int:
    """Counts the programs of a name in the persistent compilation cache.

    Args:
        name: The program's name in JAX's compile event: "jit(step)".

    Gone, or if the cache is not a local folder: 0.
    """
    folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    plain = "".join(c if c.isalnum() or c in "_-" else "_" for c in name).rstrip("_")
    return sum(1 for _ in Path(folder).glob(f"{plain}-*-cache")) if folder else 0


def leave_out(folder: str) -> None:
    """Excludes the files of a folder from JAX's user frames, for the rest of the process.

    Gone: the public function is used.
    """
    extend("source_info_util", "register_exclusion")(folder)
