"""The context of jaxlens' traces and lowerings, which restores the state of the process.

jaxlens' entries in JAX's caches have separate keys (`compat.apart`), so the user's next call
traces, lowers and compiles as if jaxlens had not run. Changes by user code during the trace (random
states, settings, environment, tracers left in globals or in an object) are undone, also after an
error or an interrupt.
"""

import os
import random
import sys
import threading
import warnings
from collections.abc import Iterator, MutableMapping
from typing import Any

import jax
import numpy as np

from jaxlens import compat
from jaxlens.call.arguments import pytrees
from jaxlens.compat import events as compat_events
from jaxlens.errors import OWN
from jaxlens.interrupts import uninterrupted

# Excludes jaxlens' frames from the user frames in JAX's source locations.
compat_events.leave_out(OWN)

# Added to the recursion limit for jaxlens' own frames, so a program can nest as deep as without.
_DEPTH = 60


class _Local(threading.local):
    """Thread-local state, so that captures in several threads share no entries of JAX's caches."""

    context: Any = None


_thread = _Local()


def context() -> Any:
    """Returns the part of JAX's cache keys that marks traces of this thread's next capture.

    Captures share it until `retire`, while only JAX's own functions have been traced under it,
    which saves tracing `jnp.where` and the like again.
    """
    if _thread.context is None:
        _thread.context = compat.context_value()
    return _thread.context


def retire() -> None:
    """Discards the value, after a user's function is traced under it: its code may change."""
    _thread.context = None


@uninterrupted
def untouched(value: Any, owner: Any = None, function: Any = None) -> Iterator[None]:
    """Restores caches, settings and random states after a block that may run the user's Python.

    Args:
        value: The result of `context`.
        owner: An object whose attributes tracing may write to.
        function: The function that is traced; tracers left in its globals are removed.
    """
    with (
        compat.apart(value),
        warnings.catch_warnings(),
        deeper(),
        _process_state(),
    ):
        namespaces = list(_namespaces(owner, function))
        before = [(space, dict(space)) for space in namespaces]
        try:
            yield
        finally:
            for space, saved in before:
                _remove_tracers(space, saved)


@uninterrupted
def deeper() -> Iterator[None]:
    """Raises the recursion limit during the block by the number of jaxlens' own frames."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@uninterrupted
def _process_state() -> Iterator[None]:
    """Restores random states, environment variables and JAX's settings after the block."""
    config: Any = jax.config
    python, numpy = random.getstate(), np.random.get_state()
    environment, settings = dict(os.environ), dict(config.values)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if os.environ != environment:
            for name in os.environ.keys() - environment.keys():
                del os.environ[name]
            os.environ.update(environment)
        for name, value in config.values.items():
            if name in settings and settings[name] is not value and settings[name] != value:
                config.update(name, settings[name])


def _namespaces(owner: Any, function: Any) -> Iterator[MutableMapping[str, Any]]:
    """Yields the namespaces in which user code may leave tracers: attributes and globals."""
    for obj in (owner, function):
        attributes = getattr(obj, "__dict__", None)
        if isinstance(attributes, dict):
            yield attributes
    for layer in compat.layers(function) if function is not None else ():
        code = layer if hasattr(layer, "__globals__") else type(layer).__call__
        names = getattr(code, "__globals__", None)
        if isinstance(names, dict) and not names.get("__name__", "").startswith("jax."):
            yield names


def _remove_tracers(space: MutableMapping[str, Any], saved: dict[str, Any]) -> None:
    """Undoes bindings that contain a tracer; keeps the user's other new bindings."""
    for name, value in list(space.items()):
        if name in saved and saved[name] is value:
            continue
        if any(isinstance(leaf, jax.core.Tracer) for _, leaf in pytrees.leaves(value)):
            if name in saved:
                space[name] = saved[name]
            else:
                del space[name]
