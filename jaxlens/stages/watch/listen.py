"""Watches everything that JAX traces, lowers and compiles, in every thread, and keeps a log.

Nothing of JAX's is replaced: its own events are listened to (`events.py`), and the call that
they belong to is read off the Python stack. Both happen only when JAX has work to do, so a call
that its caches serve costs what it always costs. Listeners are there while somebody watches.
"""

import contextlib
import hashlib
import itertools
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jaxlens.ir.compile_log import LOOPS, CompileLog, CompileStep, CompileStepKind, DiskKey, KeyPart
from jaxlens.ir.spans import describe
from jaxlens.stages.arguments.inputs import signature_of
from jaxlens.stages.call import equinox_calls
from jaxlens.stages.call.call import Call
from jaxlens.stages.call.function_origin import FunctionOrigin, function_origin, is_jax_function
from jaxlens.stages.call.traceable import function_name
from jaxlens.stages.compat import events as compat_events
from jaxlens.stages.compat.events import Caller, Stack
from jaxlens.stages.keys import disk_keys, explain
from jaxlens.stages.keys.jax_key import JaxKey, aval_text, key_of
from jaxlens.stages.watch import listen_core
from jaxlens.stages.watch.pending_call import PendingCall, user_line

_REMEMBERED = 64  # earlier calls of one line that a call is compared with
_KEPT = 20_000  # calls in one log
_LARGE = 64  # elements of a constant that a fingerprint counts

UNHEARD = "this version of JAX does not tell of calls that compile nothing; they are not in the log"


class CompileWatch:
    """What is heard between `start` and `stop`."""

    def __init__(self) -> None:
        self._seen: list[PendingCall] = []
        self._thread = threading.get_ident()
        self._troubles: set[str] = set()
        self._open = False
        self._forgotten = 0

    def start(self) -> None:
        """Begins to watch; a watch that is open goes on."""
        if not self._open:
            self._open = True
            self._thread = threading.get_ident()
            _recorder.add(self)

    def stop(self) -> None:
        """Ends; the log stays. Listeners are gone once the last watch has stopped."""
        if not self._open:
            return
        self._open = False
        _recorder.remove(self)

    def log(self) -> CompileLog:
        """What was heard so far, as frozen data."""
        calls = tuple(seen.frozen(n) for n, seen in self._shown())
        if self._forgotten:
            self._troubles.add(f"{self._forgotten:,} more calls were not kept")
        return CompileLog(calls, tuple(sorted(self._troubles)), self._open)

    def keys(self) -> dict[int, JaxKey]:
        """The keys of the calls in the log, by number."""
        return {n: seen.key for n, seen in self._shown() if seen.key is not None}

    def _shown(self) -> list[tuple[int, PendingCall]]:
        """The calls that are told of, with their numbers."""
        numbers = {"user": itertools.count(1), "op": itertools.count(1)}
        every = [seen for seen in list(self._seen) if seen.layer and not seen.hidden]
        return [(next(numbers[seen.role]), seen) for seen in every]

    def wants(self) -> bool:
        """Whether what this thread does now is watched."""
        return True

    def hear(self, seen: PendingCall) -> None:
        """Takes a call into the log."""
        if len(self._seen) < _KEPT:
            self._seen.append(seen)
        else:
            self._forgotten += 1

    def trouble(self, text: str) -> None:
        """Notes what could not be seen."""
        self._troubles.add(text)


class _Local(threading.local):
    """What is going on in one thread."""

    def __init__(self) -> None:
        self.open: list[
            tuple[str, PendingCall | None]
        ] = []  # steps that have begun, outermost first
        self.last: PendingCall | None = None


def _short() -> deque[Any]:
    return deque(maxlen=_REMEMBERED)


class _Recorder:
    """Hears JAX's and the core's events once, for every watch."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._watches: list[CompileWatch] = []
        self._memory: defaultdict[FunctionOrigin, deque[JaxKey]] = defaultdict(_short)
        self._programs: defaultdict[Any, deque[tuple[KeyPart, ...]]] = defaultdict(_short)
        self._disk_keys: defaultdict[str, deque[disk_keys.Parts]] = defaultdict(_short)
        self._local = _Local()
        self._ends: list[Callable[[], None]] = []
        self._hears_notes = True

    def add(self, watch: CompileWatch) -> None:
        with self._lock:
            if not self._watches:
                self._begin()
            self._watches.append(watch)
            if not self._hears_notes:
                watch.trouble(UNHEARD)

    def remove(self, watch: CompileWatch) -> None:
        with self._lock:
            if watch in self._watches:
                self._watches.remove(watch)
            if not self._watches:
                self._end()

    def _begin(self) -> None:
        listeners = compat_events.Listeners(
            begin=self._safe(self._began),
            end=self._safe(self._ended),
            disk=self._safe(self._disk),
            part=self._safe(self._part),
            note=self._safe(self._note),
        )
        stop, self._hears_notes = compat_events.listen(listeners)
        self._ends.append(stop)
        self._ends.append(listen_core.listen(self._tell, self._safe))

    def _end(self) -> None:
        while self._ends:
            self._ends.pop()()
        self._memory.clear()
        self._programs.clear()
        self._local = _Local()

    def _safe(self, hear: Callable[..., None]) -> Callable[..., None]:
        """A mistake of ours must not reach the user's call; the log tells of it."""

        def heard(*about: Any) -> None:
            try:
                hear(*about)
            except Exception as why:  # whatever JAX or a user's __eq__ does
                for watch in self._watches:
                    watch.trouble(f"a call could not be read: {type(why).__name__}: {why}"[:200])

        return heard

    def _stack(self) -> Stack | None:
        """The Python stack of an event of JAX's; None where nobody watches this thread.

        Called by a method that a listener calls through `_safe`: four frames are ours.
        """
        if not any(watch.wants() for watch in self._watches):
            return None
        stack = compat_events.stack(sys._getframe(5))
        return None if _is_ours(stack) else stack

    # ---- events ----------------------------------------------------------------------------

    def _began(self, kind: CompileStepKind, name: str) -> None:
        seen = None
        try:
            seen = None if compat_events.looking() else self._of_step(kind, name)
        finally:
            self._local.open.append((kind, seen))  # each end finds its beginning

    def _of_step(self, kind: CompileStepKind, name: str) -> PendingCall | None:
        stack = self._stack()
        if stack is None:
            return None
        seen = self._joined(kind, name, stack) or self._new(name, stack)
        seen.begun.add(kind)
        seen.layer = seen.layer or kind
        if kind == "trace":
            self._explain_trace(seen)
        elif kind == "lower" and not seen.changes:
            changes, earlier = explain.lower_changes(stack, seen.key)
            if earlier:
                seen.changes, seen.earlier = changes, earlier
            elif seen.under and stack.program is not None:
                source = compat_events.program_source(stack.program)
                parts = _program_parts(stack.program)
                programs = self._programs[source, seen.function, len(parts)]
                seen.changes, seen.earlier = explain.program_changes(parts, programs)
                programs.append(parts)
        elif kind == "compile" and (seen.role == "user" or seen.function in LOOPS):
            seen.program = _fingerprint(stack.module)
            seen.others = compat_events.on_disk(name)
        return seen

    def _ended(self, kind: CompileStepKind, seconds: float, name: str) -> None:
        local = self._local
        if not local.open or local.open[-1][0] != kind:
            return  # it had begun before anybody watched
        _, seen = local.open.pop()
        if seen is None:
            return
        failed = compat_events.failure(sys._getframe(3))
        served = "memory" if kind == "trace" and self._hears_notes and not seen.traced else ""
        if kind == "compile" and seen.disk:
            served = "disk"
        disk = self._disk_key(seen, seconds) if kind == "compile" else None
        missed = kind == "compile" and (seen.disk is False or (disk is not None and not seen.disk))
        others = seen.others if missed else None
        seen.steps.append(CompileStep(kind, seconds, served, failed, others, disk))
        if kind == "trace" and served and seen.layer == "trace":
            seen.layer = ""  # the caches below may still miss

    def _disk(self, held: bool) -> None:
        if (seen := self._compiling()) is not None:
            seen.disk = held

    def _part(self, name: str, digest: str, about: Mapping[str, Any]) -> None:
        seen = self._compiling() if disk_keys.is_used() else None
        if seen is not None and seen.role == "user":
            seen.disk_parts[name] = disk_keys.part(name, digest, about)

    def _compiling(self) -> PendingCall | None:
        """The call whose program this thread compiles."""
        steps = reversed(self._local.open)
        return next((s for kind, s in steps if kind == "compile" and s is not None), None)

    def _disk_key(self, seen: PendingCall, seconds: float) -> DiskKey | None:
        if not seen.disk_parts:
            return None
        earlier = self._disk_keys[seen.function]
        found = disk_keys.key(seen.disk_parts, earlier)
        earlier.append(seen.disk_parts)
        return found if seen.disk is not None else replace(found, unkept=disk_keys.unkept(seconds))

    def _note(self, what: str) -> None:
        local = self._local
        if what == "traced":
            for kind, seen in local.open[-1:]:
                if seen is not None and kind == "trace":
                    seen.traced = True
            if local.open or compat_events.looking():
                return
            self._traced_aside()
        elif not compat_events.looking():
            self._entered()

    def _traced_aside(self) -> None:
        """A jitted function is traced under a transform that runs op by op: JAX times nothing."""
        stack = self._stack()
        if stack is None or stack.traces != 1 or (caller := stack.caller) is None:
            return
        if is_jax_function(function_origin(caller.fun), caller.fun):
            return
        seen = self._new(function_name(caller.fun), stack)
        seen.begun.add("trace")
        seen.layer, seen.traced, seen.under = "trace", True, _transform(stack)
        self._explain_trace(seen)
        seen.steps.append(CompileStep("trace", None))

    def _entered(self) -> None:
        """A call did not find its fast path."""
        stack = self._stack()
        if stack is None or stack.under or (caller := stack.caller) is None:
            return
        last = self._local.last
        if last is not None and last.token == caller.token and last.begun == {"trace"}:
            return
        place = function_origin(caller.fun)
        if is_jax_function(place, caller.fun):
            return  # operations: thousands, and of no interest unless they compile
        seen = self._new(function_name(caller.fun), stack)
        if seen.key is not None:
            found = explain.entry_changes(seen.key, self._others(seen.key))
            seen.changes, seen.earlier = found
            seen.layer = "fast path"
            seen.hidden = bool(seen.earlier) and not seen.changes

    # ---- whose step it is ------------------------------------------------------------------

    def _joined(self, kind: CompileStepKind, name: str, stack: Stack) -> PendingCall | None:
        """The call that a step goes on with; None where it begins one."""
        last = self._local.last
        if last is None or kind in last.begun or kind == "trace":
            return None
        caller = stack.caller
        if caller is not None and not caller.staged and not stack.under:
            if last.token != caller.token:
                return None
            last.hidden = False
            if last.layer == "fast path":
                last.layer, last.changes = "", ()
            return last
        if stack.under or last.under:
            return last if last.under and last.function == _plain(name) and last.begun else None
        # f.lower(x).compile(): each step is a call of its own, in order
        if last.function != _plain(name) or "compile" in last.begun:
            return None
        return last if last.begun and (kind == "compile" or "lower" not in last.begun) else None

    def _new(self, name: str, stack: Stack) -> PendingCall:
        caller = stack.caller if not stack.under else None
        seen = PendingCall(_plain(name), line=user_line(stack))
        if caller is not None:
            self._meet(seen, caller)
        elif stack.program is not None:
            _of_program(seen, stack)
        seen.token = caller.token if caller is not None and not caller.staged else None
        self._local.last = seen
        self._tell(seen)
        return seen

    def _tell(self, seen: PendingCall) -> None:
        """Takes a call into the logs of those who watch this thread."""
        own = threading.get_ident()
        for watch in self._watches:
            if watch.wants():
                seen.thread = "" if own == watch._thread else threading.current_thread().name
                watch.hear(seen)

    def _meet(self, seen: PendingCall, caller: Caller) -> None:
        fun = equinox_calls.user_function(caller.fun, caller.args[2:]) or caller.fun
        place = function_origin(fun)
        seen.role = "op" if is_jax_function(place, fun) else "user"
        if seen.role == "op":
            return
        seen.function = function_name(fun)
        if place.span is not None and place.span.library and seen.line is not None:
            # A library makes many functions of one def: they are told apart by who calls.
            place = replace(place, site=f"{seen.function} {seen.line.file}:{seen.line.line}")
        else:
            seen.defined = place.span
        call = Call(caller.fun, caller.args, caller.kwargs, signature_of(caller.fun))
        seen.key = key_of(call, caller.info, place)
        if seen.key is not None:
            seen.parts = tuple(seen.key.parts())
            self._memory[place].append(seen.key)

    def _explain_trace(self, seen: PendingCall) -> None:
        if seen.key is not None:
            found = explain.trace_changes(seen.key, self._others(seen.key))
            seen.changes, seen.earlier = found

    def _others(self, key: JaxKey) -> list[JaxKey]:
        """The keys of other calls of functions that the same line made."""
        return [other for other in self._memory[key.origin] if other is not key]


_recorder = _Recorder()


def _plain(name: str) -> str:
    """`jit(f)`, as lowering and compiling call it, is `f`."""
    return name[4:-1] if name.startswith("jit(") and name.endswith(")") else name


def _is_ours(stack: Stack) -> bool:
    """Whether a look of jaxlens is at work, and not the user's program."""
    return any(_own_stage(file) for file, *_ in stack.frames)


def _own_stage(file: str, held: dict[str, bool] = {}) -> bool:  # noqa: B006 - one per process
    if file not in held:
        name = describe(file).name
        held[file] = name.startswith("jaxlens/stages/") and not name.endswith(
            ("watch/listen.py", "compat/events.py")
        )
    return held[file]


def _of_program(seen: PendingCall, stack: Stack) -> None:
    """What a jaxpr tells of a call that no jitted function of the user's stands for."""
    program = stack.program
    source = compat_events.program_source(program)
    file, _, line = source.rpartition(" at ")[2].rpartition(":")
    if file and line.isdigit():
        place = FunctionOrigin((), file, int(line), seen.function)
        seen.role = "op" if is_jax_function(place, None) else "user"
        seen.defined = place.span
    seen.parts = _program_parts(program)
    seen.under = _transform(stack) if stack.under else ""


def _program_parts(program: Any) -> tuple[KeyPart, ...]:
    """The inputs of a jaxpr by name."""
    names = compat_events.program_names(program)
    avals = tuple(getattr(program, "in_avals", ()))
    every = names if len(names) == len(avals) else [f"input {i}" for i in range(len(avals))]
    return tuple(KeyPart(n, "input", aval_text(a)) for n, a in zip(every, avals, strict=True))


def _transform(stack: Stack) -> str:
    """Which transform runs a jitted function op by op."""
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


def _fingerprint(module: Any) -> str:
    """Tells programs apart: a hash of the StableHLO text, large constants left out."""
    if module is None:
        return ""
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        text = module.operation.get_asm(large_elements_limit=_LARGE, enable_debug_info=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    return ""
