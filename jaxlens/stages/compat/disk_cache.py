"""Switches off JAX's persistent compilation cache for a block."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxlens.stages.compat.import_private import private

# JAX's remembered answer from before the first of several overlapping compiles: an interrupted
# compile ends in its thread while the next begins. One entry per compile; the last to end restores
# the first entry.
_off: list[list[Any]] = []
_overlap = threading.Lock()


@contextmanager
def persistent_cache_off() -> Iterator[None]:
    """Keeps compiles in the block from reading or writing the persistent compilation cache.

    JAX decides once per process whether the cache is used, and remembers the answer. If the first
    compile of the process is one of jaxlens, `jax_enable_compilation_cache` set to False would
    switch the cache off for the user too. So the remembered answer is set, and restored.

    Gone: the setting is used, which is right unless the compile is the first of the process.
    """
    names = ("_cache_checked", "_cache_used")
    try:
        compilation_cache = private("compilation_cache")
    except ImportError:
        compilation_cache = None
    if not all(hasattr(compilation_cache, name) for name in names):
        with _switched_off():
            yield
        return
    with _overlap:
        if not _off:
            _off.append([getattr(compilation_cache, name) for name in names])
            for name, value in zip(names, (True, False), strict=True):
                setattr(compilation_cache, name, value)
        else:
            _off.append([])
    try:
        yield
    finally:
        with _overlap:
            before = _off[0]
            _off.pop()
            if not _off:
                for name, value in zip(names, before, strict=True):
                    setattr(compilation_cache, name, value)


@contextmanager
def _switched_off() -> Iterator[None]:
    import jax

    config: Any = jax.config
    before = config.jax_enable_compilation_cache
    try:
        config.update("jax_enable_compilation_cache", False)
        yield
    finally:
        config.update("jax_enable_compilation_cache", before)
