"""The array inside an array of random keys."""

from typing import Any

from jaxlens.stages.compat.import_private import when_gone


@when_gone(None)
def base_array(value: Any) -> Any:
    """Returns the array of numbers inside an array of random keys; None for any other value.

    `jax.random.key_data` makes another array of it.

    Gone: None, and the memory of keys has no name.
    """
    return value._base_array if type(value).__name__ == "PRNGKeyArray" else None
