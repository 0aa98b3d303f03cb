"""The settings that JAX traces, lowers and compiles under, some of them a thread's own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from jaxlens.stages.compat.import_private import private

_OURS = "jax_jit_cpp_cache_obj"  # what `apart` borrows


def settings_here() -> Callable[[], AbstractContextManager[None]]:
    """Remembers the settings of this place, and gives what puts them back for a block.

    A look is made where it is asked for, such as below the `with jax.enable_x64(True):` that a
    call stands in, or in a thread of its own; and `jax.set_mesh` or a precision decide what
    program a call is. (Tried: 0.10.2, 0.12.0.1.)

    Gone: every look is made under the settings of the moment at which it is asked for.
    """
    try:
        config, mesh = private("config"), private("mesh")
        states = _States(config, mesh)
        return partial(states.put_back, states.values(), mesh.thread_resources.env)
    except (ImportError, AttributeError):
        return nullcontext


class _States:
    """JAX's settings: each has a value for all threads, and may have one of this thread's own."""

    def __init__(self, config: Any, mesh: Any) -> None:
        kind = config.config_ext.Config
        every = (value for module in (config, mesh) for value in vars(module).values())
        states = {id(s): s for s in every if isinstance(s, kind) and s.name != _OURS}
        self._states = tuple(states.values())
        self._unset = config.config_ext.unset
        self._resources = mesh.thread_resources  # what `with mesh:` sets

    def values(self) -> tuple[Any, ...]:
        """The value of each that holds here."""
        return tuple(state.value for state in self._states)

    @contextmanager
    def put_back(self, values: tuple[Any, ...], meshes: Any) -> Iterator[None]:
        """Within it, this thread has these values."""
        pairs = zip(self._states, values, strict=True)
        changed = [(state, value) for state, value in pairs if not _same(state.value, value)]
        before = [(state, state.get_local()) for state, _ in changed]
        here, self._resources.env = self._resources.env, meshes
        try:
            for state, value in changed:
                self._set(state, value)
            yield
        finally:
            self._resources.env = here
            for state, value in reversed(before):
                self._set(state, value)

    def _set(self, state: Any, value: Any) -> None:
        """Sets a thread's own value, and tells jaxlib of it, as JAX's own contexts do."""
        state.set_local(value)
        if hook := getattr(state, "_update_thread_local_hook", None):
            hook(None if value is self._unset else value)


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)
