"""Watches what functions that `jaxlens.core` jitted trace, lower and compile, in the same log.

The core tells of its steps itself (`core/sources.py`), its keys are data, and it forgets none; so
the call is compared with `cache_keys()`, and with calls of other objects of the same line.
"""

import sys
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType
from typing import Any

from jaxlens.ir.compile_log import Step, StepKind
from jaxlens.stages.call.function_origin import Place, made_anew, place_of
from jaxlens.stages.compat.events import stack
from jaxlens.stages.keys import core_keys
from jaxlens.stages.keys.changes import Comparison, nearest
from jaxlens.stages.watch.pending_call import PendingCall, user_line

_STEPS: tuple[StepKind, ...] = ("trace", "lower", "compile")
_REMEMBERED = 64
_SOURCES = "jaxlens.core.sources"


def listen(
    hear: Callable[[PendingCall], None], safe: Callable[[Callable[..., None]], Callable[..., None]]
) -> Callable[[], None]:
    """Hears the core's steps until the function returned is called, also if it is loaded later.

    Args:
        hear: Takes a call into the logs.
        safe: Keeps a mistake of ours from the user's call.
    """
    listening = ExitStack()

    def begin() -> None:
        listening.enter_context(sys.modules[_SOURCES].listen(safe(_Listener(hear))))

    if _SOURCES in sys.modules:
        begin()
    else:
        listening.enter_context(_awaited(begin))
    return listening.close


@contextmanager
def _awaited(then: Callable[[], None]) -> Iterator[None]:
    """Within it, the first import of the core's stream of events is told of."""
    finder = _Finder(then)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds one module as Python would, and loads it with a word afterwards."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module's own spec, with our loader round its own; None for every other module."""
        spec = PathFinder.find_spec(name, path) if name == _SOURCES else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then)
        return spec


class _Loader(Loader):
    """Loads as another loader does, leaves that one in the module, and says so."""

    def __init__(self, own: Any, then: Callable[[], None]) -> None:
        self._own = own
        self._then = then

    def create_module(self, spec: ModuleSpec) -> Any:
        """As the module's own loader makes it."""
        return self._own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Runs the module."""
        module.__loader__ = module.__spec__.loader = self._own
        self._own.exec_module(module)
        self._then()


class _Listener:
    """Makes calls of the core's events."""

    def __init__(self, hear: Callable[[PendingCall], None]) -> None:
        self._hear = hear
        self._going: dict[str, tuple[PendingCall, float]] = {}  # by name: where each step begins
        self._memory: defaultdict[Place, deque[Any]] = defaultdict(
            lambda: deque(maxlen=_REMEMBERED)
        )

    def __call__(self, event: Any) -> None:
        if event.kind == "cache" and not event.detail["hit"]:
            self._missed(event)
        elif event.kind in _STEPS and event.name in self._going:
            seen, begun = self._going[event.name]
            if event.kind in seen.begun:
                return  # an inner function of the same name
            now = time.perf_counter()
            seen.begun.add(event.kind)
            seen.steps.append(Step(event.kind, now - begun))
            self._going[event.name] = seen, now

    def _missed(self, event: Any) -> None:
        frame: FrameType | None = sys._getframe(3)
        while frame is not None and frame.f_code.co_name != "_look_up":
            frame = frame.f_back
        jitted = frame.f_locals.get("self") if frame is not None else None
        around = stack(frame)
        inner = sum(function == "Jitted._look_up" for *_, function in around.frames) > 1
        if jitted is None or inner:
            return
        key, place = event.detail["key"], place_of(jitted.f)
        seen = PendingCall(event.name, line=user_line(around), defined=place.span, layer="trace")
        seen.traced = True
        seen.parts = core_keys.parts(jitted, key)
        seen.changes, seen.earlier = self._compared(jitted, key, place)
        self._memory[place].append((weakref.ref(jitted), key))
        self._going[event.name] = seen, time.perf_counter()
        self._hear(seen)

    def _compared(self, jitted: Any, key: Any, place: Place) -> Comparison:
        """What differs from the nearest key of the function, or of another of its line."""
        own = jitted.cache_keys()
        others = own or [old for held, old in self._memory[place] if held() is not jitted]
        found = nearest(core_keys.changes(jitted, key, old) for old in reversed(others))
        anew = (made_anew(jitted.name, place),) if others and not own else ()
        return (*anew, *found), len(others)
