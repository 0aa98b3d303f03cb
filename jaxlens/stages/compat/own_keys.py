"""Cache keys of our own, so that a look leaves JAX's caches as they were."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from jaxlens.stages.compat.import_private import private


def context_value() -> Any:
    """A value that `apart` can put into JAX's cache keys.

    It is a small jit fast-path cache: the one thing that JAX expects in the context that
    `apart` borrows. Jits made at top level in there keep their fast-path entries in it.

    Gone: any object tells keys apart as well.
    """
    try:
        pjit = private("pjit")
        return pjit.make_jit_cpp_cache(64)
    except (ImportError, AttributeError):
        return object()


def apart(value: Any) -> AbstractContextManager[Any]:
    """Within it, JAX traces, lowers and compiles under cache keys of their own.

    `jax.make_user_context` would do the same in public, but a new context changes every key
    once, so that the user's functions would all compile again. `jax_jit_cpp_cache_obj` is a
    user context that JAX itself has made; nobody's key changes outside of this block.

    Gone: a public user context, with that cost, once per process.
    """
    try:
        config = private("config")
        borrowed: AbstractContextManager[Any] = config.jax_jit_cpp_cache_obj(value)
        return borrowed
    except (ImportError, AttributeError):
        own: AbstractContextManager[Any] = _own_context()(value)
        return own


def _own_context(made: list[Any] = []) -> Any:  # noqa: B006 - one context per process
    import jax

    make: Any = jax.make_user_context
    if not made:
        made.append(make(None))
    return made[0]


def is_apart(context: Sequence[Any], here: Sequence[Any]) -> bool:
    """Whether a key's context is one that `apart` made, and not the one we are in.

    Gone: such keys count as the user's.
    """
    try:
        kind = private("pjit")._jax.PjitFunctionCache
    except (ImportError, AttributeError):
        return False
    return any(type(v) is kind and all(v is not own for own in here) for v in context)
