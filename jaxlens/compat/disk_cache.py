"""JAX's persistent compilation cache: switches it off, and reads the parts of its keys."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from traceback import walk_stack
from types import FrameType
from typing import Any

from jaxlens.compat.import_private import private
from jaxlens.interrupts import uninterrupted

_KEYS, _KEY_FILE = "jax._src.cache_key", "cache_key.py"
_HASHED, _FLAG = "get_cache_key hash of serialized %s: %s", "Including XLA flag in cache key: %s"
_NEAR = 20  # most frames between the log call and the function that hashes

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

    Gone: the setting is used, which is right unless the compile is the first of the process.
    """
    try:
        cache = private("compilation_cache")
    except ImportError:
        cache = None
    if not (hasattr(cache, "_cache_checked") and hasattr(cache, "_cache_used")):
        with _switched_off():
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


@uninterrupted
def _switched_off() -> Iterator[None]:
    import jax

    config: Any = jax.config
    before = config.jax_enable_compilation_cache
    try:
        config.update("jax_enable_compilation_cache", False)
        yield
    finally:
        config.update("jax_enable_compilation_cache", before)


def hear_key_parts(part: Callable[[str, str, Mapping[str, Any]], None]) -> Callable[[], None]:
    """Calls a function for each hash that JAX logs while it makes a persistent cache key.

    JAX logs the hashes at level DEBUG, which is off by default. The logger is set to DEBUG, and a
    filter drops the records that the user's handlers did not get before.

    Gone: the function is never called, and a miss of the persistent cache has no explanation.
    """
    logger = logging.getLogger(_KEYS)
    before = logger.level
    flags: dict[int, list[str]] = {}

    def heard(record: logging.LogRecord) -> bool:
        about = record.args if isinstance(record.args, tuple) else ()
        if record.msg == _FLAG and about:
            flags.setdefault(record.thread or 0, []).append(str(about[0]))
        elif record.msg == _HASHED and len(about) == 2:
            name, digest = map(str, about)
            variables = _variables(sys._getframe(1))
            part(name, digest, {**variables, "flags": flags.get(record.thread or 0, ())})
            if name == "XLA flags":
                flags.pop(record.thread or 0, None)
        level = before or (logger.parent.getEffectiveLevel() if logger.parent else logging.WARNING)
        return record.levelno >= level

    logger.addFilter(heard)
    logger.setLevel(logging.DEBUG)

    def stop() -> None:
        logger.removeFilter(heard)
        if logger.level == logging.DEBUG:  # unless the user has changed the level meanwhile
            logger.setLevel(before)

    return stop


def _variables(frame: FrameType) -> Mapping[str, Any]:
    """Returns the variables of JAX's function that makes the key; empty if not on the stack."""
    for outer, _ in islice(walk_stack(frame), _NEAR):
        if outer.f_code.co_name == "get" and outer.f_code.co_filename.endswith(_KEY_FILE):
            return outer.f_locals
    return {}
