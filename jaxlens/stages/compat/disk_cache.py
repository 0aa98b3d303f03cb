"""JAX's persistent compilation cache, switched off for a while."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxlens.stages.compat.import_private import private

# What JAX remembered before the first of the compiles that overlap: an interrupted one ends in its
# thread while the next begins. One entry per compile; the last to end puts the first entry back.
_off: list[list[Any]] = []
_overlap = threading.Lock()


@contextmanager
def persistent_cache_off() -> Iterator[None]:
    """Within it, compiling neither reads nor writes JAX's persistent compilation cache.

    JAX decides once per process whether that cache is used and remembers the answer, so the
    switch `jax_enable_compilation_cache` would stay off for the user too if our compile were
    the first; the remembered answer is set and put back instead.

    Gone: the switch, which is right unless our compile is the first.
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
