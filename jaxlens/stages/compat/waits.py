"""Marks waits that JAX's profiler does not record by itself."""

from collections.abc import Callable
from typing import Any

import jax

from jaxlens.stages.compat.import_private import private, when_gone


@when_gone(None)
def mark_batched_waits(name: str) -> Callable[[], None] | None:
    """Puts an event into the profile where `jax.block_until_ready` waits for several arrays.

    The profiler records every wait for one array. For several, JAX calls a function of jaxlib's
    that records nothing; it is replaced until the returned function is called.

    Args:
        name: Name of the event.

    Gone: None, and these waits are not in the profile.
    """
    module: Any = private("lib").xla_client
    before = module.batched_block_until_ready

    def marked(arrays: Any) -> Any:
        if all(array.is_ready() for array in arrays):
            return before(arrays)
        with jax.profiler.TraceAnnotation(name):
            return before(arrays)

    module.batched_block_until_ready = marked

    def stop() -> None:
        if module.batched_block_until_ready is marked:
            module.batched_block_until_ready = before

    return stop
