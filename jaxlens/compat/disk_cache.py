"""Switches JAX's persistent compilation cache off."""

import threading
from collections.abc import Iterator
from typing import Any

from jaxlens.compat.import_private import private
from jaxlens.interrupts import uninterrupted

# JAX's remembered answer before each of several overlapping compiles: an interrupted compile ends
# in its thread while the next begins. The last to end restores the first answer.
_off: list[tuple[Any, Any]] = []
_overlap = threading.Lock()


@uninterrupted
def persistent_cache_off() -> Iterator[None]:
    """Keeps compiles in the block from reading or writing the persistent compilation cache.

    JAX decides once per process whether the cache is used, and remembers the answer. If the first
    compile of the process is one of jaxlens, `jax_enable_compilation_cache` set to False would
    switch the cache off for the user too. So the remembered answer is set, and restored.

    Gone: the cache stays on, and has no dumps of a program that it serves.
    """
    try:
        cache = private("compilation_cache")
    except ImportError:
        cache = None
    if not (hasattr(cache, "_cache_checked") and hasattr(cache, "_cache_used")):
        yield
        return
    with _overlap:
        _off.append((cache._cache_checked, cache._cache_used))
        cache._cache_checked, cache._cache_used = True, False
    try:
        yield
    finally:
        with _overlap:
            before = _off[0]
            _off.pop()
            if not _off:
                cache._cache_checked, cache._cache_used = before
