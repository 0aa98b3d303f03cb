"""Events that JAX sends to its listeners: the reference for what jaxlens says of recompiles."""

import functools

import jax
import pytest

import jaxlens
from jaxlens.listen import listen
from jaxlens.stages.session import compiling

EVENTS: list[object] = []


@pytest.fixture(scope="module", autouse=True)
def listeners():
    """Appends every event to `EVENTS` while the tests of a module that imports this run."""

    def lasting(name, _, **about):
        EVENTS.append((name, about.get("fun_name")))

    def plain(name, **_):
        EVENTS.append(name)

    jax.monitoring.register_event_duration_secs_listener(lasting)
    jax.monitoring.register_event_listener(plain)
    yield
    jax.monitoring.unregister_event_duration_listener(lasting)
    jax.monitoring.unregister_event_listener(plain)


class Compiles:
    """The names of the functions that JAX compiles while a block runs.

    No compile of an earlier look serves.
    """

    def __init__(self):
        self.names = []

    def __enter__(self):
        compiling.forget()
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        return self

    def __exit__(self, *_):
        jax.monitoring.unregister_event_duration_listener(self._hear)

    def _hear(self, event, _, **about):
        if event.endswith("backend_compile_duration"):
            self.names.append(about["fun_name"])


def jitted_sum(**settings):
    """A new jitted function that has not been called; `settings` go to `jax.jit`."""

    @functools.partial(jax.jit, **settings)
    def f(x, n=1):
        return jax.tree.map(lambda leaf: (leaf * n).sum(), x)

    return f


def stop_watches():
    """Stops the watches that other tests left behind, which remember calls of theirs."""
    for watch in [*listen._recorder._watches]:
        watch.stop()


def logged(*calls):
    """What `recompiles` says of calls that are made one after another."""
    with jaxlens.recompiles() as log:
        for call in calls:
            call()
    return log
