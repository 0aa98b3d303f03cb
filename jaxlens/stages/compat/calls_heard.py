"""Every call of a jitted function, whether JAX's caches serve it or not."""

import contextlib
from collections.abc import Callable
from typing import Any

from jaxlens.stages.compat.private_modules import private

Hit = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


def hear_calls(hit: Hit, missed: Callable[[], None]) -> Callable[[], None]:
    """Tells of calls of jitted functions in this thread until the function returned is called.

    Args:
        hit: Is called after a call that JAX's fast path served, with the jitted function and its
            arguments. JAX has one place for that, for its check of NaNs, which goes on.
        missed: Is called within a call that it did not serve; the call is on the stack.

    Gone: without the first, calls of a program that ran before are not heard; without the second,
    a program's first call is not.
    """
    ends = [_hear_hits(hit), _hear_misses(missed)]

    def stop() -> None:
        for end in ends:
            end()

    return stop


def _hear_hits(hit: Hit) -> Callable[[], None]:
    try:
        state: Any = private("api")._post_hook_state
        before = state.get_local()
    except (ImportError, AttributeError):
        return lambda: None

    def heard(function: Any, args: Any, kwargs: Any, output: Any) -> None:
        # Where this thread has none of its own, `before` is a mark, and the cell may ask for
        # checks of NaNs meanwhile.
        check = before if callable(before) else state.get_global()
        if check is not None:
            check(function, args, kwargs, output)
        hit(function, args, kwargs)

    state.set_local(heard)

    def stop() -> None:
        if state.get_local() is heard:
            state.set_local(before)

    return stop


def _hear_misses(missed: Callable[[], None]) -> Callable[[], None]:
    try:
        util: Any = private("util")
        before = util.test_event_listener
    except (ImportError, AttributeError):
        return lambda: None

    def heard(name: str, *about: Any) -> None:
        if name == "jit_cpp_cache_miss":
            missed()
        if before is not None:
            before(name, *about)

    util.test_event_listener = heard

    def stop() -> None:
        with contextlib.suppress(AttributeError):
            if util.test_event_listener is heard:
                util.test_event_listener = before

    return stop
