"""Logs the traces, lowerings and compiles of functions that `jaxlens.core` has jitted.

The core has its own events (`core/transforms/events.py`). Its cache keys are public data and are
never evicted, so a call is compared with `cache_keys()`, or with the keys of other function objects
of the same origin.
"""

import sys
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from traceback import walk_stack
from typing import Any

from jaxlens.compat.events import stack
from jaxlens.ir.compile_log import CompileStep, CompileStepKind
from jaxlens.keys import core_keys
from jaxlens.keys.changes import Comparison, nearest
from jaxlens.keys.function_origin import FunctionOrigin, function_origin, recreated
from jaxlens.listen.pending_call import PendingCall, user_line

_STEPS: tuple[CompileStepKind, ...] = ("trace", "lower", "compile")
_recent: partial[deque[Any]] = partial(deque, maxlen=64)
_EVENTS = "jaxlens.core.transforms.events"


def listen(
    log: Callable[[PendingCall], None], safe: Callable[[Callable[..., None]], Callable[..., None]]
) -> Callable[[], None]:
    """Listens to the core until the returned function is called, also if it is imported later.

    Args:
        log: Adds a call to the logs.
        safe: Wraps a listener so that its exceptions do not reach the user's call.
    """
    listening = ExitStack()

    def begin() -> None:
        listening.enter_context(sys.modules[_EVENTS].listen(safe(_Listener(log))))

    if _EVENTS in sys.modules:
        begin()
    else:
        finder = _CoreImport(begin)
        sys.meta_path.insert(0, finder)

        @listening.callback
        def remove() -> None:
            with suppress(ValueError):
                sys.meta_path.remove(finder)

    return listening.close


class _CoreImport(MetaPathFinder):
    """An import hook that calls a function after the import of the core's event module."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns the module's spec with a loader that calls the function; None for others."""
        spec = PathFinder.find_spec(name, path) if name == _EVENTS else None
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:

            def exec_module(module: Any) -> None:
                del loader.exec_module  # restores the loader's own method
                loader.exec_module(module)
                self._then()

            loader.exec_module = exec_module
        return spec


class _Listener:
    """Makes pending calls from the core's events."""

    def __init__(self, log: Callable[[PendingCall], None]) -> None:
        self._log = log
        # By name, with the time at which its next step began.
        self._pending: dict[str, tuple[PendingCall, float]] = {}
        self._memory: defaultdict[FunctionOrigin, deque[Any]] = defaultdict(_recent)

    def __call__(self, event: Any) -> None:
        if event.kind == "cache" and not event.detail["hit"]:
            self._missed(event)
        elif event.kind in _STEPS and event.name in self._pending:
            call, begun = self._pending[event.name]
            if event.kind in call.begun:
                return  # an inner function of the same name
            now = time.perf_counter()
            call.begun.add(event.kind)
            call.steps.append(CompileStep(event.kind, now - begun))
            self._pending[event.name] = call, now

    def _missed(self, event: Any) -> None:
        frames = (frame for frame, _ in walk_stack(sys._getframe(3)))
        frame = next((frame for frame in frames if frame.f_code.co_name == "_look_up"), None)
        jitted = frame.f_locals.get("self") if frame is not None else None
        around = stack(frame)
        inner = sum(function == "Jitted._look_up" for *_, function in around.frames) > 1
        if jitted is None or inner:
            return
        key, origin = event.detail["key"], function_origin(jitted.f)
        call = PendingCall(event.name, line=user_line(around), defined=origin.span, layer="trace")
        call.traced = True
        call.parts = core_keys.parts(jitted, key)
        call.changes, call.earlier = self._compared(jitted, key, origin)
        self._memory[origin].append((weakref.ref(jitted), key))
        self._pending[event.name] = call, time.perf_counter()
        self._log(call)

    def _compared(self, jitted: Any, key: Any, origin: FunctionOrigin) -> Comparison:
        """Compares a key with the nearest one of the function, or of others of its origin."""
        own = jitted.cache_keys()
        keys = own or [old for reference, old in self._memory[origin] if reference() is not jitted]
        changes = nearest(core_keys.changes(jitted, key, old) for old in reversed(keys))
        new_object = (recreated(jitted.name, origin),) if keys and not own else ()
        return (*new_object, *changes), len(keys)
