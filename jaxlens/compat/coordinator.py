"""The key-value store of a job under `jax.distributed`, which its first process keeps.

No function waits for another process. Each is a message to the first one, during which the thread
that calls does not hold Python's lock. Tested with jax 0.10.2 and 0.12.0.1.
"""

from typing import Any

from jaxlens.compat.import_private import private, when_gone


@when_gone(None)
def _client() -> Any:
    """Returns the client of the store; None when gone, and in a process that is in no job."""
    return private("distributed").global_state.client


@when_gone(None, RuntimeError)
def publish(key: str, value: str) -> None:
    """Sets a value for all processes; the first value of a key stays.

    Gone: nothing is set.
    """
    _client().key_value_set(key, value)


@when_gone(None, RuntimeError)
def published(key: str) -> str | None:
    """Returns the value of a key; None where it is not there yet.

    Gone: None.
    """
    value: str = _client().key_value_try_get(key)
    return value
