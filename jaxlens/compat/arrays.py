"""What JAX knows of an array and does not show: the stack that made it, a key's numbers, refs."""

from typing import Any

import jax

from jaxlens.compat.import_private import when_gone


@when_gone(())
def made_in(array: Any) -> tuple[tuple[str, int], ...]:
    """Returns file name and line of each frame that made an array, innermost first.

    JAX keeps the stack with each array, so that asking for it slows no call.

    Gone: (), and the line that made an array is unknown.
    """
    stack = array.traceback
    return () if stack is None else tuple((f.file_name, f.line_num) for f in stack.frames)


@when_gone(None)
def base_array(value: Any) -> Any:
    """Returns the array of numbers inside an array of random keys; None for any other value.

    `jax.random.key_data` makes another array of it.

    Gone: None, and the memory of keys has no name.
    """
    return value._base_array if type(value).__name__ == "PRNGKeyArray" else None


def is_ref(value: Any) -> bool:
    """Whether a value, or an abstract value, is a ref.

    Gone: False, and a ref is taken for an array.
    """
    return hasattr(getattr(value, "aval", value), "inner_aval")


def fresh(value: Any) -> Any:
    """Returns a ref with the content of a ref, and any other value as it is.

    Gone: as `is_ref`.
    """
    return jax.new_ref(value[...]) if is_ref(value) else value


def content(value: Any) -> Any:
    """Returns what a ref holds now, and any other value as it is.

    Gone: as `is_ref`.
    """
    return value[...] if is_ref(value) else value
