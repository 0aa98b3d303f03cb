"""What JAX tells its listeners while the tests of a module run that imports `listeners`."""

from collections.abc import Iterator

import jax
import pytest

EVENTS: list[object] = []


@pytest.fixture(scope="module", autouse=True)
def listeners() -> Iterator[None]:
    """Appends every event to `EVENTS`, which a test may clear."""

    def lasting(name: str, _: float, **about: object) -> None:
        EVENTS.append((name, about.get("fun_name")))

    def plain(name: str, **_: object) -> None:
        EVENTS.append(name)

    jax.monitoring.register_event_duration_secs_listener(lasting)
    jax.monitoring.register_event_listener(plain)
    yield
    jax.monitoring.unregister_event_duration_listener(lasting)
    jax.monitoring.unregister_event_listener(plain)
