"""The context of every trace and lowering of ours, which leaves the process as it was.

In JAX's caches our entries have keys of their own (`compat.apart`), so that the user's next call
traces, lowers and compiles as it would have. What user code changes while it is traced (random
states, settings, environment, tracers left in globals or in an object) is restored, also after an
error or an interrupt.
"""

import os
import random
import sys
import threading
import warnings
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxlens.stages import compat
from jaxlens.stages.arguments import pytrees
from jaxlens.stages.compat import events as compat_events

# Our frames are never the user's line.
compat_events.leave_out(str(Path(__file__).parents[2]) + os.sep)

# Frames of ours on the stack: under a capture, a program may nest as deep as without it.
_DEPTH = 60


class _Local(threading.local):
    """A thread's own: what JAX derives from one look's stamped equations is no other look's."""

    context: Any = None


_thread = _Local()


def context() -> Any:
    """The value under which the thread's next look keeps JAX's caches.

    It is shared between looks as long as only JAX's own functions were traced in it, which
    saves tracing `jnp.where` and its like each time; see `retire`.
    """
    if _thread.context is None:
        _thread.context = compat.context_value()
    return _thread.context


def retire() -> None:
    """Ends the sharing: a function of the user's was traced in it, and its code may change."""
    _thread.context = None


@contextmanager
def untouched(value: Any, owner: Any = None, function: Any = None) -> Iterator[None]:
    """Surrounds work that may run the user's Python.

    Args:
        value: What `context` gave.
        owner: An object whose attributes tracing may write to.
        function: The function that is traced; tracers left in its globals are removed.
    """
    with (
        compat.apart(value),
        warnings.catch_warnings(),
        deeper(),
        _kept_settings(),
        _kept_random(),
    ):
        namespaces = list(_namespaces(owner, function))
        before = [(space, dict(space)) for space in namespaces]
        try:
            yield
        finally:
            for space, saved in before:
                _remove_tracers(space, saved)


@contextmanager
def deeper() -> Iterator[None]:
    """Makes up for our own frames on the stack, so that a program may nest as deep as without."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@contextmanager
def _kept_random() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextmanager
def _kept_settings() -> Iterator[None]:
    config: Any = jax.config
    environment, settings = dict(os.environ), dict(config.values)
    try:
        yield
    finally:
        if dict(os.environ) != environment:
            _put_back(os.environ, environment)
        for name, value in config.values.items():
            if name in settings and settings[name] is not value and settings[name] != value:
                config.update(name, settings[name])


def _put_back(space: MutableMapping[str, Any], saved: dict[str, Any]) -> None:
    for name in [name for name in space if name not in saved]:
        del space[name]
    space.update(saved)


def _namespaces(owner: Any, function: Any) -> Iterator[MutableMapping[str, Any]]:
    """Where user code commonly leaves a value: its object's attributes and its globals."""
    for thing in (owner, function):
        attributes = getattr(thing, "__dict__", None)
        if isinstance(attributes, dict):
            yield attributes
    for layer in compat.layers(function) if function is not None else ():
        code = layer if hasattr(layer, "__globals__") else type(layer).__call__
        names = getattr(code, "__globals__", None)
        if isinstance(names, dict) and not names.get("__name__", "").startswith("jax."):
            yield names


def _remove_tracers(space: MutableMapping[str, Any], saved: dict[str, Any]) -> None:
    """Puts back what was bound to a tracer; other bindings of the user's stay."""
    for name, value in list(space.items()):
        if name in saved and saved[name] is value:
            continue
        if any(isinstance(leaf, jax.core.Tracer) for _, leaf in pytrees.leaves(value)):
            if name in saved:
                space[name] = saved[name]
            else:
                del space[name]
