"""Watches what functions that `jaxlens.core` jitted trace, lower and compile, in the same log.

The core tells of its steps itself (`core/sources.py`), its keys are data, and it forgets none; so
the call is compared with `cache_keys()`, and with calls of other objects of the same line.
"""

import sys
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from jaxlens.ir.compile_log import Change, Step, StepKind
from jaxlens.stages import core_cache, one_key
from jaxlens.stages.call_keys import Told
from jaxlens.stages.compat_calls import stack
from jaxlens.stages.places import Place, made_anew, place_of
from jaxlens.stages.seen import Seen, user_line

_STEPS: tuple[StepKind, ...] = ("trace", "lower", "compile")
_REMEMBERED = 64


def listen(
    hear: Callable[[Seen], None], safe: Callable[[Callable[..., None]], Callable[..., None]]
) -> Callable[[], None] | None:
    """Hears the core's steps until the function returned is called; None where it is not loaded.

    Args:
        hear: Takes a call into the logs.
        safe: Keeps a mistake of ours from the user's call.
    """
    if "jaxlens.core" not in sys.modules:
        return None
    from jaxlens.core import sources

    listening = sources.listen(safe(_Listener(hear)))
    listening.__enter__()

    def stop() -> None:
        listening.__exit__(None, None, None)

    return stop


class _Listener:
    """Makes calls of the core's events."""

    def __init__(self, hear: Callable[[Seen], None]) -> None:
        self._hear = hear
        self._going: dict[str, tuple[Seen, float]] = {}  # by name: where each step begins
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
        seen = Seen(event.name, line=user_line(around), defined=place.span, layer="trace")
        seen.traced = True
        seen.parts = tuple(one_key.core_parts(jitted, key))
        seen.told = self._told(jitted, key, place)
        self._memory[place].append((weakref.ref(jitted), key))
        self._going[event.name] = seen, time.perf_counter()
        self._hear(seen)

    def _told(self, jitted: Any, key: Any, place: Place) -> Told:
        own = jitted.cache_keys()
        if own:
            return Told(_nearest(jitted, key, own), len(own))
        others = [old for held, old in self._memory[place] if held() is not jitted]
        if not others:
            return Told()
        return Told((made_anew(jitted.name, place), *_nearest(jitted, key, others)), len(others))


def _nearest(jitted: Any, key: Any, keys: Any) -> tuple[Change, ...]:
    found = [tuple(core_cache.changes(jitted, key, old)) for old in reversed(keys)]
    return min(found, key=len)
