"""The key of a program in JAX's persistent cache: a hash for each part, as JAX logs it.

A hash is the same in every process, so two processes can be compared by the hashes alone.
"""

from collections.abc import Mapping
from typing import Any

import jax

from jaxlens.ir.compile_log import DiskKey

_NAMES = {
    "computation": "the program",
    "jax_lib version": "jaxlib's version",
    "backend version": "the backend's version",
    "XLA flags": "XLA_FLAGS",
    "compile_options": "the compile options",
    "accelerator_config": "the devices",
    "compression": "the compression",
    "custom_hook": "JAX's custom hook",
}


def key(digests: Mapping[str, str]) -> DiskKey:
    """Returns a key, with names in the place of JAX's."""
    return DiskKey(tuple((_NAMES.get(name, name), digest) for name, digest in digests.items()))


def unkept(seconds: float) -> str:
    """Returns why JAX did not write a program to the persistent cache.

    Args:
        seconds: The seconds of its compile.
    """
    config: Any = jax.config
    least = config.jax_persistent_cache_min_compile_time_secs
    if seconds < least:
        return f"it took less than jax_persistent_cache_min_compile_time_secs ({least:g})"
    return "JAX did not write it, as one that calls back into Python or that another process writes"


def is_used() -> bool:
    """Whether a persistent cache is used; JAX makes keys even if not."""
    config: Any = jax.config
    return config.jax_compilation_cache_dir is not None and config.jax_enable_compilation_cache
