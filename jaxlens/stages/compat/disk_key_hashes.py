"""Reads the parts of a key of JAX's persistent compilation cache while JAX hashes them."""

import logging
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

_KEYS, _KEY_FILE = "jax._src.cache_key", "cache_key.py"
_HASHED, _FLAG = "get_cache_key hash of serialized %s: %s", "Including XLA flag in cache key: %s"
_NEAR = 20  # most frames between the log call and the function that hashes


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
            seen = {**_variables("get", _KEY_FILE), "flags": flags.get(record.thread or 0, ())}
            part(name, digest, seen)
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


def _variables(function: str, file: str) -> Mapping[str, Any]:
    """Returns the variables of a function of JAX on the stack; empty if it is not there."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_NEAR):
        if frame is None:
            break
        if frame.f_code.co_name == function and frame.f_code.co_filename.endswith(file):
            return frame.f_locals
        frame = frame.f_back
    return {}
