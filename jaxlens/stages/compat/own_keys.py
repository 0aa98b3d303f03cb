"""Separate cache keys for jaxlens, so that its traces leave the user's cache entries alone."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from jaxlens.stages.compat.import_private import private, when_gone


def context_value() -> Any:
    """Returns a value that `apart` can put into JAX's cache keys.

    It is a small jit fast-path cache, the only type that JAX expects as the value of
    `jax_jit_cpp_cache_obj`. Jits made at top level under `apart` have their fast-path entries in
    it.

    Gone: a plain object, which makes keys differ as well.
    """
    try:
        return private("pjit").make_jit_cpp_cache(64)
    except (ImportError, AttributeError):
        return object()


def apart(value: Any) -> AbstractContextManager[Any]:
    """Returns a context manager under which JAX's cache keys differ from the user's.

    `jax.make_user_context` is the public way, but a new user context changes every key once, and
    all of the user's functions would compile again. `jax_jit_cpp_cache_obj` is a user context that
    JAX itself defines: setting it changes no key outside of the block.

    Gone: a public user context, with that cost once per process.
    """
    try:
        context: Any = private("config").jax_jit_cpp_cache_obj
    except (ImportError, AttributeError):
        context = _user_context()
    keys_apart: AbstractContextManager[Any] = context(value)
    return keys_apart


@cache  # one context per process
def _user_context() -> Any:
    import jax

    make: Any = jax.make_user_context
    return make(None)


@when_gone(False)
def is_apart(context: Sequence[Any], current: Sequence[Any]) -> bool:
    """Whether a key's context is from `apart`, but not from the block that is active now.

    Gone: False; such keys count as the user's.
    """
    kind = private("pjit")._jax.PjitFunctionCache
    return any(type(v) is kind and all(v is not own for own in current) for v in context)
