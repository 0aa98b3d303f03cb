"""JAX's persistent compilation cache: it is switched off, and its keys are read."""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from jaxlens.compat.import_private import private, when_gone
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


def disk_key(frame: FrameType | None) -> dict[str, str]:
    """Returns a hash of each part of the key by which JAX asks the persistent cache for a program.

    To be called while JAX does, with a frame of its event. The parts are made by JAX's functions,
    and are dropped if all together do not make the key that JAX asks for.

    Gone, or with a hook of the user's, which is not called again: {}, and a miss of the persistent
    cache is not explained.
    """
    while frame is not None and frame.f_code.co_name != "compile_or_get_cached":
        frame = frame.f_back
    return {} if frame is None else _hashed(frame.f_locals)


@when_gone({}, TypeError, KeyError, ValueError)
def _hashed(values: Mapping[str, Any]) -> dict[str, str]:
    keys, cache = private("cache_key"), private("compilation_cache")
    backend = values["backend"]
    ignored = private("config").remove_custom_partitioning_ptr_from_cache_key.value
    if (kinds := getattr(keys, "IgnoreCallbacks", None)) is not None:
        ignored = kinds.CUSTOM_PARTITIONING if ignored else kinds.NO
    options = values["compile_options"]
    if keys.custom_hook.__module__ != keys.__name__:
        return {}
    parts: dict[str, Callable[[Any], object]] = {
        "program": lambda part: keys._hash_computation(part, values["computation"], ignored),
        "jaxlib": lambda part: part.update(keys.jaxlib_version_str.encode()),
        "backend": lambda part: keys._hash_platform(part, backend),
        "flags": lambda part: keys._hash_xla_flags(part, keys.get_flag_prefixes()),
        "options": lambda part: keys._hash_serialized_compile_options(
            part, options, strip_device_assignment=backend.platform == "gpu"
        ),
        "devices": lambda part: keys._hash_accelerator_config(part, values["devices"]),
        "compression": lambda part: part.update(
            b"zlib" if cache.zstandard is None else b"zstandard"
        ),
        "hook": lambda part: keys._hash_string(part, keys.custom_hook()),
    }
    whole, found = hashlib.sha256(), {}
    for name, add in parts.items():
        part = _Part()
        add(part)
        whole.update(part.content)
        found[name] = hashlib.sha256(part.content).hexdigest()[:16]
    return found if values["cache_key"].endswith(whole.hexdigest()) else {}


class _Part:
    """Keeps what JAX would hash."""

    def __init__(self) -> None:
        self.content = b""

    def update(self, data: bytes) -> None:
        """Adds bytes, as a hash of `hashlib` does."""
        self.content += data
