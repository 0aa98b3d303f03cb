"""Every call of a jitted function, whether JAX's caches serve it or not."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxlens.stages.compat.import_private import private

Hit = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


def hear_calls(hit: Hit, missed: Callable[[str], None]) -> Callable[[], None]:
    """Tells of calls of jitted functions in this thread until the function returned is called.

    Args:
        hit: Is called after a call that JAX's fast path served, with the jitted function and its
            arguments. JAX has one place for that, for its check of NaNs, which goes on.
        missed: Is called within a call that it did not serve; the call is on the stack.

    Gone: without the first, calls of a program that ran before are not heard; without the second,
    a program's first call is not.
    """
    ends = [_hear_hits(hit), hear_test_events({"jit_cpp_cache_miss": ""}, missed)]

    def stop() -> None:
        for end in ends:
            if end is not None:
                end()

    return stop


def _hear_hits(hit: Hit) -> Callable[[], None] | None:
    try:
        state: Any = private("api")._post_hook_state
        before = state.get_local()
    except (ImportError, AttributeError):
        return None

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


def hear_test_events(
    names: Mapping[str, str], heard: Callable[[str], None]
) -> Callable[[], None] | None:
    """Calls a function at events that JAX has for its own tests, until the result is called.

    JAX has one place for such a listener; one that is there already is called too.

    Args:
        names: The argument of the function for each event, by JAX's name of the event.
        heard: The function.

    Gone: None, and the function is never called.
    """
    try:
        util: Any = private("util")
        before = util.test_event_listener
    except (ImportError, AttributeError):
        return None

    def listener(name: str, *about: Any) -> None:
        if name in names:
            heard(names[name])
        if before is not None:
            before(name, *about)

    util.test_event_listener = listener

    def stop() -> None:
        if util.test_event_listener is listener:
            util.test_event_listener = before

    return stop
