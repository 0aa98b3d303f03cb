"""JAX's persistent compilation cache: switches it off, and reads the parts of its keys."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jaxlens.compat.import_private import private
from jaxlens.interrupts import uninterrupted

_KEYS = "jax._src.cache_key"
_HASHED = "get_cache_key hash of serialized %s: %s"

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


def hear_key_parts(part: Callable[[str, str], None]) -> Callable[[], None]:
    """Calls a function for each hash that JAX logs while it makes a persistent cache key.

    JAX logs the hashes at level DEBUG, which is off by default. The logger is set to DEBUG, and a
    filter drops the records that the user's handlers did not get before.

    Gone: the function is never called, and a miss of the persistent cache has no explanation.
    """
    logger = logging.getLogger(_KEYS)
    before = logger.level

    def heard(record: logging.LogRecord) -> bool:
        about = record.args if isinstance(record.args, tuple) else ()
        if record.msg == _HASHED and len(about) == 2:
            part(*map(str, about))
        level = before or (logger.parent.getEffectiveLevel() if logger.parent else logging.WARNING)
        return record.levelno >= level

    logger.addFilter(heard)
    logger.setLevel(logging.DEBUG)

    def stop() -> None:
        logger.removeFilter(heard)
        if logger.level == logging.DEBUG:  # unless the user has changed the level meanwhile
            logger.setLevel(before)

    return stop
