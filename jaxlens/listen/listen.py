"""Logs everything that JAX traces, lowers and compiles, in every thread.

No function of JAX is patched. JAX reports each step to listeners (`compat/events.py`), and the call
that the step belongs to is read from the Python stack. Both happen on a cache miss only, so a call
that hits JAX's caches has no overhead. Listeners are registered during a watch only.
"""

import contextlib
import hashlib
import itertools
import re
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Literal

import jax

from jaxlens import compat
from jaxlens.call import equinox_calls
from jaxlens.call.arguments.inputs import signature_of
from jaxlens.call.call import Call
from jaxlens.call.traceable import function_name, transforms
from jaxlens.compat import events as compat_events
from jaxlens.compat.events import Caller, CompileResult, DiskEvent, Stack
from jaxlens.interrupts import deferred, undoing
from jaxlens.ir.compile_log import (
    LOOPS,
    CacheLayer,
    CallEvent,
    CompileLog,
    CompileStep,
    CompileStepKind,
    KeyChange,
    KeyPart,
    Replication,
)
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Span
from jaxlens.ir.spans import BOUNDARY, describe, span
from jaxlens.keys import explain
from jaxlens.keys.function_origin import FunctionOrigin, function_origin, is_jax_function
from jaxlens.keys.jax_key import JaxKey, aval_text, key_of

# Attributes that a `CallEvent` has too.
_SAME = tuple(
    "function role line defined layer earlier parts thread under program bytes captured "
    "replicated transforms disk_key".split()
)
_UNNAMED = "a part of JAX's key that this lens has no name for"


@dataclass(slots=True, eq=False, weakref_slot=True)
class PendingCall:
    """One call; `ir.compile_log.CallEvent` documents the attributes that are not listed here.

    Attributes:
        begun: Kinds of the steps that have begun.
        token: Identifies the call among those that are running.
        key: Its key; None for a single op, and if JAX's key cannot be read.
        traced: Whether a Python function was traced (no inner cache hit).
        disk: The last event of the persistent cache; "" where that was not used.
        others: Number of programs of its name in the persistent cache before its compile.
        text: Its StableHLO with locations, where a watch reads it.
    """

    function: str
    role: Literal["user", "op"] = "user"
    line: Span | None = None
    defined: Span | None = None
    steps: list[CompileStep] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    layer: CacheLayer = ""
    changes: tuple[KeyChange, ...] = ()
    earlier: int = 0
    parts: tuple[KeyPart, ...] = ()
    thread: str = ""
    under: str = ""
    program: str = ""
    token: tuple[str, int] | None = None
    key: JaxKey | None = None
    traced: bool = False
    disk: DiskEvent | Literal[""] = ""
    others: int | None = None
    bytes: int | None = None
    captured: tuple[Constant, ...] = ()
    replicated: tuple[Replication, ...] = ()
    transforms: tuple[str, ...] = ()
    text: str = ""
    disk_key: Mapping[str, str] = field(default_factory=dict)

    def frozen(self, number: int) -> CallEvent:
        """Returns the call as frozen data."""
        changes = self.changes
        if self.traced and self.earlier and not changes:
            changes = (KeyChange("other", self.function, _UNNAMED),)
        same: dict[str, Any] = {name: getattr(self, name) for name in _SAME}
        return CallEvent(number=number, steps=tuple(self.steps), changes=changes, **same)


def calling_line(stack: Stack) -> Span | None:
    """Returns the innermost frame that is not JAX's."""
    line = next(filter(None, map(span, stack.frames)), None)
    return None if line is None or line.key == BOUNDARY else line


def user_line(stack: Stack) -> Span | None:
    """Returns the calling line: the innermost frame outside of libraries, else the innermost."""
    for line in filter(None, map(span, stack.frames)):
        if line.key == BOUNDARY:
            break
        if not line.library:
            return line
    return calling_line(stack)


_recent: partial[deque[Any]] = partial(
    deque, maxlen=64
)  # of calls of one origin, that a call is compared with
_LARGE = 64  # most elements of a constant whose text is printed; of others the bytes are hashed
_LOCATIONS = re.compile(r" loc\((?:#loc\d*|unknown)\)|^#loc\d* = .*\n", re.MULTILINE)


class CompileWatch:
    """The calls between `start` and `stop` that made JAX trace, lower or compile."""

    def __init__(self) -> None:
        self._calls: list[PendingCall] = []
        self._thread = threading.get_ident()
        self._troubles: set[str] = set()
        self._open = False

    def start(self) -> None:
        """Starts the watch; does nothing if it has started."""
        with deferred(self.stop):
            if not self._open:
                self._open = True
                self._thread = threading.get_ident()
                _recorder.add(self)

    @undoing
    def stop(self) -> None:
        """Ends the watch and keeps its log. The last watch to end unregisters the listeners."""
        if self._open:
            self._open = False
            _recorder.remove(self)

    def log(self) -> CompileLog:
        """Returns the log so far, as frozen data."""
        calls = tuple(call.frozen(n) for n, call in self._shown())
        return CompileLog(calls, tuple(sorted(self._troubles)), self._open)

    def keys(self) -> dict[int, JaxKey]:
        """Returns the keys of the calls in the log, by number."""
        return {n: call.key for n, call in self._shown() if call.key is not None}

    def _shown(self) -> list[tuple[int, PendingCall]]:
        """Returns the calls that the log shows, with their numbers."""
        numbers = {"user": itertools.count(1), "op": itertools.count(1)}
        shown = [call for call in list(self._calls) if call.layer]
        return [(next(numbers[call.role]), call) for call in shown]

    def add(self, call: PendingCall) -> None:
        """Adds a call to the log."""
        self._calls.append(call)

    @property
    def reads_text(self) -> bool:
        """Whether the watch reads the StableHLO of the next compile."""
        return False

    @property
    def is_empty(self) -> bool:
        """Whether no call was logged."""
        return not self._calls

    def split(self) -> "CompileWatch":
        """Returns a watch that has ended, with the calls so far, which this watch forgets.

        A call that is lowered and not compiled stays here if it is the last.
        """
        ended = CompileWatch()
        calls = self._calls
        last = calls[-1:] if calls and calls[-1].begun - {"trace"} == {"lower"} else []
        self._calls, ended._calls = last, calls[: len(calls) - len(last)]
        ended._troubles, self._troubles = self._troubles, set()
        return ended

    def trouble(self, text: str) -> None:
        """Adds a sentence about something that could not be observed."""
        self._troubles.add(text)

    def began(self, kind: CompileStepKind, call: PendingCall, stack: Stack) -> None:
        """Hears that a step of a call begins; by default does nothing."""

    def ended(
        self, kind: CompileStepKind, call: PendingCall, compiled: CompileResult | None
    ) -> None:
        """Hears that a step of a call has ended; by default does nothing.

        Args:
            kind: The step, which is the last of `call.steps`.
            call: The call.
            compiled: What was compiled; None for another step, and where it failed.
        """


class _Local(threading.local):
    """The open steps of a thread."""

    def __init__(self) -> None:
        # Steps that have begun and not ended, outermost first.
        self.open: list[tuple[str, PendingCall | None]] = []
        self.last: PendingCall | None = None


class _Recorder:
    """Receives the events of JAX, for all watches."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._watches: list[CompileWatch] = []
        self._memory: defaultdict[FunctionOrigin, deque[PendingCall]] = defaultdict(_recent)
        self._programs: defaultdict[Any, deque[tuple[KeyPart, ...]]] = defaultdict(_recent)
        # Functions that were called in earlier watches, to know one that JAX's caches have lost.
        self._earlier: dict[int, Callable[[], Any]] = {}
        self._disk_keys: dict[str, Mapping[str, str]] = {}  # by the program's name
        # Functions of which JAX's trace cache may have keys that `_memory` has not, by id and by
        # place; None until the cache is read.
        self._unlogged: set[Any] | None = None
        self._local = _Local()
        self._stop: Callable[[], None] = lambda: None
        self._hears_traces = True

    def add(self, watch: CompileWatch) -> None:
        with self._lock:
            if not self._watches:
                self._stop, self._hears_traces = compat_events.listen(
                    begin=self._safe(self._began),
                    end=self._safe(self._ended),
                    disk=self._safe(self._disk),
                    traced=self._safe(self._traced),
                )
            self._watches.append(watch)

    def remove(self, watch: CompileWatch) -> None:
        with self._lock:
            if watch in self._watches:
                self._watches.remove(watch)
            if not self._watches:
                self._stop()
                keys = (c.key for calls in self._memory.values() for c in calls if c.key)
                known = [*self._earlier.values(), *(key.function for key in keys)]
                self._earlier = {id(f()): f for f in known if f() is not None}
                self._memory.clear()
                self._programs.clear()
                self._unlogged = None
                self._local = _Local()

    def _safe(self, hear: Callable[..., None]) -> Callable[..., None]:
        """Wraps a listener: its exceptions go to the log, not to the user's call."""

        def listener(*about: Any) -> None:
            try:
                hear(*about)
            except Exception as why:  # raised by JAX or by a user's __eq__
                for watch in self._watches:
                    watch.trouble(f"a call could not be read: {type(why).__name__}: {why}"[:200])

        return listener

    def _stack(self) -> Stack | None:
        """Returns the Python stack at an event of JAX; None if jaxlens itself traces or compiles.

        The first five frames are those of jaxlens, innermost first: this method, two methods of
        this class, the wrapper that `_safe` returns, and the listener that JAX calls.
        """
        stack = compat_events.stack(sys._getframe(5))
        files = {outer.f_code.co_filename for outer in stack.outer}
        return None if any(map(_is_own_stage, files)) else stack

    # ---- events ----------------------------------------------------------------------------

    def _began(self, kind: CompileStepKind, name: str) -> None:
        call = None
        try:
            call = None if compat_events.looking() else self._step_call(kind, name)
        finally:
            self._local.open.append((kind, call))  # also for None: each end event pops one

    def _step_call(self, kind: CompileStepKind, name: str) -> PendingCall | None:
        stack = self._stack()
        if stack is None:
            self._unlogged = None
            return None
        call = self._joined(kind, name, stack) or self._new(name, stack)
        call.begun.add(kind)
        call.layer = call.layer or kind
        if kind == "trace":
            self._explain_trace(call)
        elif kind == "lower" and not call.changes:
            changes, earlier = explain.lower_changes(stack, call.key)
            if earlier:
                call.changes, call.earlier = changes, earlier
            elif call.under and stack.program is not None:
                source = compat_events.program_source(stack.program)
                parts = _program_parts(stack.program)
                programs = self._programs[source, call.function, stack.transposes, len(parts)]
                call.changes, call.earlier = explain.program_changes(parts, programs)
                programs.append(parts)
        if kind == "compile":
            self._explain_compile(call)
            if call.role == "user" or call.function in LOOPS:
                located = any(watch.reads_text for watch in self._watches)
                call.program, text = _fingerprint(stack.module, located)
                call.text = text if located else ""
                call.others = compat_events.on_disk(name)
        for watch in list(self._watches):
            watch.began(kind, call, stack)
        return call

    def _ended(self, kind: CompileStepKind, seconds: float, name: str) -> None:
        local = self._local
        if not local.open or local.open[-1][0] != kind:
            return  # the step began before the watch
        _, call = local.open.pop()
        if call is None:
            return
        failed = compat_events.failure(sys._getframe(3))
        served = "memory" if kind == "trace" and self._hears_traces and not call.traced else ""
        if kind == "compile" and call.disk == "hit":
            served = "disk"
        missed = kind == "compile" and call.disk in ("asked", "kept")
        unkept = _unkept(seconds) if missed and call.disk == "asked" else ""
        same_name = call.others if missed else None
        differs = self._differs(call, name) if kind == "compile" and call.disk_key else ()
        differs = differs if missed else ()
        call.steps.append(CompileStep(kind, seconds, served, failed, same_name, unkept, differs))
        if kind == "trace" and served and call.layer == "trace":
            call.layer = ""  # the lowering or compile cache may still miss
        is_made = kind == "compile" and not failed
        compiled = compat_events.compiled(sys._getframe(3)) if is_made else None
        for watch in list(self._watches):
            watch.ended(kind, call, compiled)
        if kind == "compile":
            call.text = ""

    def _differs(self, call: PendingCall, name: str) -> tuple[str, ...]:
        """Returns the parts in which a key differs from the last of its name, and keeps it."""
        earlier = self._disk_keys.get(name, call.disk_key)
        self._disk_keys[name] = call.disk_key
        return tuple(part for part, text in call.disk_key.items() if earlier.get(part) != text)

    def _disk(self, event: DiskEvent) -> None:
        """Notes an event of the persistent cache for the call that this thread compiles."""
        config: Any = jax.config  # without a cache JAX makes keys too
        if config.jax_compilation_cache_dir is None or not config.jax_enable_compilation_cache:
            return
        for kind, call in reversed(self._local.open):
            if kind == "compile" and call is not None:
                call.disk = event
                if event == "asked":
                    call.disk_key = compat.disk_key(sys._getframe(3))
                break

    def _traced(self) -> None:
        steps = self._local.open
        if steps:
            kind, call = steps[-1]
            if call is not None and kind == "trace":
                call.traced = True
        elif not compat_events.looking():
            self._traced_aside()

    def _traced_aside(self) -> None:
        """Logs a trace under a transform that runs op by op, for which JAX reports no step."""
        stack = self._stack()
        if stack is None or stack.traces != 1 or (caller := stack.caller) is None:
            return
        if is_jax_function(function_origin(caller.fun), caller.fun):
            return
        call = self._new(function_name(caller.fun), stack)
        call.begun.add("trace")
        call.layer, call.traced, call.under = "trace", True, transform(stack)
        self._explain_trace(call)
        call.steps.append(CompileStep("trace", None))

    # ---- the call of a step ------------------------------------------------------------------

    def _joined(self, kind: CompileStepKind, name: str, stack: Stack) -> PendingCall | None:
        """Returns the pending call that a step belongs to; None if the step starts a new call.

        `f(x)` is one call with three steps, and all have the call's frame on the stack. The steps
        of `f.lower(x).compile()` have different frames; they are matched by name and order.
        """
        last = self._local.last
        if last is None or kind in last.begun or kind == "trace":
            return None
        caller = stack.caller
        if caller is not None and not caller.staged and not stack.under:
            if last.token != caller.token:
                return None
            return last
        if stack.under or last.under:
            return last if last.under and last.function == _plain(name) and last.begun else None
        # f.lower(x).compile(): a separate Python call for each step, in order
        if last.function != _plain(name) or "compile" in last.begun:
            return None
        return last if last.begun and (kind == "compile" or "lower" not in last.begun) else None

    def _new(self, name: str, stack: Stack) -> PendingCall:
        caller = stack.caller if not stack.under else None
        call = PendingCall(_plain(name), line=user_line(stack))
        if caller is not None:
            self._read_caller(call, caller)
        elif stack.program is not None:
            _read_program(call, stack)
        if call.role == "op" and call.function in LOOPS:
            line = calling_line(stack)
            call.defined = line if line is not None and line.library else None
        call.token = caller.token if caller is not None and not caller.staged else None
        self._local.last = call
        self._log(call)
        return call

    def _log(self, call: PendingCall) -> None:
        """Adds a call to all watches."""
        own = threading.get_ident()
        for watch in list(self._watches):
            call.thread = "" if own == watch._thread else threading.current_thread().name
            watch.add(call)

    def _read_caller(self, call: PendingCall, caller: Caller) -> None:
        fun = equinox_calls.user_function(caller.fun, caller.args[2:])
        fun = fun or compat.pmapped(caller.fun) or caller.fun
        origin = function_origin(fun)
        call.role = "op" if is_jax_function(origin, fun) else "user"
        if call.role == "op":
            return
        call.function, call.transforms = function_name(fun), tuple(transforms(fun))
        if origin.span is not None and origin.span.library and call.line is not None:
            # A library may create many functions from one def: the calling line identifies them.
            place = f"{call.line.key or call.line.file}:{call.line.line}"
            origin = replace(origin, site=f"{call.function} {place}")
        else:
            call.defined = origin.span
        jit_call = Call(caller.fun, caller.args, caller.kwargs, signature_of(caller.fun))
        call.key = key_of(jit_call, caller.info, origin)
        if call.key is not None:
            call.parts = tuple(call.key.parts())
            calls = self._memory[origin]
            if len(calls) == calls.maxlen and self._unlogged is not None and calls[0].key:
                self._unlogged.add(id(calls[0].key.function()))
            calls.append(call)

    def _explain_trace(self, call: PendingCall) -> None:
        if call.key is not None:
            keys = self._other_keys(call.key)
            reads = self._reads(call.key)
            call.changes, call.earlier = explain.trace_changes(call.key, keys, reads=reads)
            function = call.key.function()
            earlier = self._earlier.get(id(function), lambda: None)()
            if not call.earlier and function is not None and earlier is function:
                call.changes = explain.lost(call.key)
        elif call.role == "user":
            self._unlogged = None  # JAX's cache gets a key that no logged call has

    def _reads(self, key: JaxKey) -> bool:
        """Whether JAX's trace cache may have keys of a function that no logged call has."""
        if self._unlogged is None:
            self._unlogged = explain.cached_functions(key)
        place = key.origin.file, key.origin.line
        return place in self._unlogged or id(key.function()) in self._unlogged

    def _other_keys(self, key: JaxKey) -> list[JaxKey]:
        """Returns the keys of other calls of functions with the same origin."""
        return [call.key for call in self._others(key) if call.key is not None]

    def _others(self, key: JaxKey) -> list[PendingCall]:
        return [call for call in self._memory[key.origin] if call.key is not key]

    def _explain_compile(self, call: PendingCall) -> None:
        """Compares a call with those that compiled: eval_shape and an outer jit only trace."""
        if call.key is None:
            return
        others = self._others(call.key)
        compiled = [o.key for o in others if o.key is not None and "compile" in o.begun]
        traced = [o.key for o in others if o.key is not None and "compile" not in o.begun]
        if "trace" in call.begun and traced:
            reads = self._reads(call.key)
            call.changes, call.earlier = explain.trace_changes(call.key, compiled, traced, reads)
        elif call.layer == "lower" and not call.earlier:
            call.changes, call.earlier = explain.compile_changes(call.key, compiled)


_recorder = _Recorder()


def _plain(name: str) -> str:
    """Returns the function's name: events of lowering and compiling have "jit(f)" for "f"."""
    return name[4:-1] if name.startswith("jit(") and name.endswith(")") else name


@cache
def _is_own_stage(file: str) -> bool:
    """Whether jaxlens itself traces or compiles in a file."""
    name = describe(file).name
    is_listener = name.endswith(("listen/listen.py", "compat/events.py"))
    return name.startswith("jaxlens/stages/") and not is_listener


def _read_program(call: PendingCall, stack: Stack) -> None:
    """Reads origin and inputs from a jaxpr, for a step without a jitted function on the stack."""
    program = stack.program
    source = compat_events.program_source(program)
    file, _, line = source.rpartition(" at ")[2].rpartition(":")
    if file and line.isdigit():
        origin = FunctionOrigin((), file, int(line), call.function)
        call.role = "op" if is_jax_function(origin, None) else "user"
        call.defined = origin.span
    call.parts = _program_parts(program)
    call.under = transform(stack) if stack.under else ""


def _program_parts(program: Any) -> tuple[KeyPart, ...]:
    """Returns the inputs of a jaxpr, with names and avals."""
    names = compat_events.program_names(program)
    avals = getattr(program, "in_avals", ())
    return tuple(KeyPart(n, "input", aval_text(a)) for n, a in zip(names, avals, strict=True))


def transform(stack: Stack) -> str:
    """Returns the name of the transform that runs a jitted function op by op."""
    functions = {function.rpartition(".")[2] for *_, function in stack.frames}
    return next((name for code, name in _TRANSFORMS.items() if code in functions), "a transform")


_TRANSFORMS = {
    "grad_f": "grad",
    "value_and_grad_f": "value_and_grad",
    "jacfun": "a Jacobian",
    "vmap_f": "vmap",
    "linearize": "linearize",
    "vjp": "vjp",
    "jvp": "jvp",
}


def _unkept(seconds: float) -> str:
    """Returns why JAX did not write a program to the persistent cache.

    Args:
        seconds: The seconds of its compile.
    """
    config: Any = jax.config
    least = config.jax_persistent_cache_min_compile_time_secs
    if seconds < least:
        return f"it took less than jax_persistent_cache_min_compile_time_secs ({least:g})"
    return "JAX did not write it, as one that calls back into Python or that another process writes"


def _fingerprint(module: Any, located: bool) -> tuple[str, str]:
    """Returns a hash of a StableHLO program and its constants, and its text; "" if unavailable.

    Large constants are hashed as the module holds them: their text is twice as long.

    Args:
        module: The MLIR module.
        located: Whether the text has locations. The hash has none.
    """
    if module is None:
        return "", ""
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        text = module.operation.get_asm(
            large_elements_limit=_LARGE, enable_debug_info=located, assume_verified=True
        )
        digest = hashlib.sha256((_LOCATIONS.sub("", text) if located else text).encode())
        if "__elided__" in text:
            _add_constants(module, digest)
        return digest.hexdigest()[:16], text
    return "", ""


def _add_constants(module: Any, digest: Any) -> None:
    """Adds the values of a module's constants to a digest."""
    from jaxlib.mlir import ir

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.constant":
            try:
                digest.update(op.attributes["value"])
            except (BufferError, TypeError):  # bfloat16 and complex numbers have no buffer
                digest.update(op.get_asm(enable_debug_info=False, assume_verified=True).encode())
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
