"""What JAX tells its listeners, as the truth that tests hold answers against."""

from collections.abc import Iterator

import jax
import pytest

EVENTS: list[object] = []


@pytest.fixture(scope="module", autouse=True)
def listeners() -> Iterator[None]:
    """Appends every event of a module that imports it to `EVENTS`, which a test may clear."""

    def lasting(name: str, _: float, **about: object) -> None:
        EVENTS.append((name, about.get("fun_name")))

    def plain(name: str, **_: object) -> None:
        EVENTS.append(name)

    jax.monitoring.register_event_duration_secs_listener(lasting)
    jax.monitoring.register_event_listener(plain)
    yield
    jax.monitoring.unregister_event_duration_listener(lasting)
    jax.monitoring.unregister_event_listener(plain)


class Compiles:
    """Compiles as JAX itself tells of them: the truth that a log is held against."""

    def __init__(self):
        self.names = []

    def __enter__(self):
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        return self

    def __exit__(self, *_):
        jax.monitoring.unregister_event_duration_listener(self._hear)

    def _hear(self, event, _, **about):
        if event.endswith("backend_compile_duration"):
            self.names.append(about["fun_name"])
