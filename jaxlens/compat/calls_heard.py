"""Hooks into every call of a jitted function, whether it hits JAX's caches or not."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jaxlens.compat.import_private import private, when_gone
from jaxlens.interrupts import uninterrupted

Hit = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


def hear_calls(hit: Hit, missed: Callable[[str], None]) -> Callable[[], None]:
    """Reports calls of jitted functions in this thread until the returned function is called.

    Args:
        hit: Called after each fast-path hit, with the jitted function and its arguments. It is set
            as JAX's post hook, of which there is one; the NaN check that uses it still runs.
        missed: Called within each call that misses the fast path; the call is on the stack.

    Gone: without the post hook, calls of a program that ran before are not reported; without the
    test events, a program's first call is not.
    """
    hooks = (_hear_hits(hit), hear_test_events({"jit_cpp_cache_miss": ""}, missed))

    def stop() -> None:
        for end in filter(None, hooks):
            end()

    return stop


@when_gone(None)
def _hear_hits(hit: Hit) -> Callable[[], None] | None:
    state: Any = private("api")._post_hook_state
    before = state.get_local()

    def heard(function: Any, args: Any, kwargs: Any, output: Any) -> None:
        # Without a thread-local hook `before` is JAX's "unset" object. Then the global hook is read
        # at each call, as the cell may set `jax_debug_nans` meanwhile.
        check = before if callable(before) else state.get_global()
        if check is not None:
            check(function, args, kwargs, output)
        hit(function, args, kwargs)

    state.set_local(heard)

    def stop() -> None:
        if state.get_local() is heard:
            state.set_local(before)

    return stop


@uninterrupted
def unheard() -> Iterator[None]:
    """Takes the hook after this thread's calls away in the block, where calls are timed.

    Gone: it stays, and a call that is heard takes longer by what the hook does.
    """
    try:
        state: Any = private("api")._post_hook_state
        before = state.get_local()
    except (ImportError, AttributeError):
        yield
        return
    state.set_local(None)
    try:
        yield
    finally:
        state.set_local(before)


@when_gone(None)
def hear_test_events(
    names: Mapping[str, str], heard: Callable[[str], None]
) -> Callable[[], None] | None:
    """Calls a function at JAX's internal test events, until the returned function is called.

    JAX has a single test event listener; an existing one is called too.

    Args:
        names: The argument for `heard` at each event, by JAX's name of the event.
        heard: The function to call.

    Gone: None, and the function is never called.
    """
    util: Any = private("util")
    before = util.test_event_listener

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
