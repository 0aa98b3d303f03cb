"""JAX's settings, with their thread-local values, and the one that separates cache keys.

Traces of jaxlens have cache keys of their own, which leave the user's entries alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any

from jaxlens.compat.import_private import private, when_gone
from jaxlens.interrupts import uninterrupted

_CACHE = "jax_jit_cpp_cache_obj"  # the setting that `apart` uses


@when_gone(nullcontext)
def settings_here() -> Callable[[], AbstractContextManager[None]]:
    """Saves the current settings; the result makes a context manager that applies them.

    A capture is lazy: its stages may be made after a block like `with jax.enable_x64(True):` has
    ended, or in another thread, but need the settings of the call. `jax.set_mesh` and the default
    precision also change the program. (Tested: 0.10.2, 0.12.0.1.)

    Gone: each stage is made under the settings at the time when it is made.
    """
    mesh = private("mesh")
    states = _States(private("config"), mesh)
    return partial(states.put_back, states.values(), mesh.thread_resources.env)


class _States:
    """JAX's settings: each has a global value, and may have a thread-local value."""

    def __init__(self, config: Any, mesh: Any) -> None:
        kind = config.config_ext.Config
        values = (value for module in (config, mesh) for value in vars(module).values())
        states = {id(s): s for s in values if isinstance(s, kind) and s.name != _CACHE}
        self._states = tuple(states.values())
        self._unset = config.config_ext.unset
        self._resources = mesh.thread_resources  # what `with mesh:` sets

    def values(self) -> tuple[Any, ...]:
        """Returns the current value of each setting in this thread."""
        return tuple(state.value for state in self._states)

    @uninterrupted
    def put_back(self, values: tuple[Any, ...], meshes: Any) -> Iterator[None]:
        """Applies saved values in this thread, and restores the former ones at the end."""
        pairs = zip(self._states, values, strict=True)
        changed = [
            (state, value)
            for state, value in pairs
            if state.value is not value and state.value != value
        ]
        before = [(state, state.get_local()) for state, _ in changed]
        meshes_before, self._resources.env = self._resources.env, meshes
        try:
            for state, value in changed:
                self._set(state, value)
            yield
        finally:
            self._resources.env = meshes_before
            for state, value in reversed(before):
                self._set(state, value)

    def _set(self, state: Any, value: Any) -> None:
        """Sets a thread-local value, and calls the hook by which JAX updates jaxlib's copy."""
        state.set_local(value)
        if hook := getattr(state, "_update_thread_local_hook", None):
            hook(None if value is self._unset else value)


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
