"""Marks waits that JAX's profiler does not record by itself.

The profiler records `array.block_until_ready()`, and of reads only some: on a CPU NumPy reads an
array's memory without any event, and JAX's own conversion may wait before the event begins. So the
functions through which Python reads arrays put an event around a read of one that is not ready.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxlens.compat.import_private import private, when_gone

_READERS = ("asarray", "asanyarray", "array")
_MOST = 1_000  # items of a list that are looked at


def mark_waits(name: str) -> Callable[[], None]:
    """Puts an event into the profile where Python waits for arrays, until the result is called.

    What is replaced meanwhile: `np.asarray` and its like, and what `_mark_values` and
    `_mark_batched` name. None of them does anything else than before.

    Args:
        name: Name of the events.

    Gone: reads by `float(x)` or `print(x)`, or `jax.block_until_ready` of several arrays, are in
    the profile only if the profiler itself records them.
    """
    ends = (
        *(_mark(np, reader, name) for reader in _READERS),
        _mark_values(name),
        _mark_batched(name),
    )

    def stop() -> None:
        for end in filter(None, ends):
            end()

    return stop


@when_gone(None)
def _mark_values(name: str) -> Callable[[], None] | None:
    """Marks the property by which `float`, `print`, `tolist` and `device_get` read an array."""
    kind: Any = private("array").ArrayImpl
    before = kind.__dict__["_value"]
    read = before.fget

    def value(self: Any) -> Any:
        if not _waits(self):
            return read(self)
        with jax.profiler.TraceAnnotation(name):
            return read(self)

    return _replace(kind, "_value", property(value), before)


@when_gone(None)
def _mark_batched(name: str) -> Callable[[], None] | None:
    """Marks the function by which `jax.block_until_ready` waits for several arrays."""
    return _mark(private("lib").xla_client, "batched_block_until_ready", name)


def _mark(owner: Any, attribute: str, name: str) -> Callable[[], None]:
    """Marks a function whose first argument is an array, or a list of arrays."""
    before = getattr(owner, attribute)

    def marked(*args: Any, **kwargs: Any) -> Any:
        if not args or not _waits(args[0]):
            return before(*args, **kwargs)
        with jax.profiler.TraceAnnotation(name):
            return before(*args, **kwargs)

    return _replace(owner, attribute, marked, before)


def _replace(owner: Any, attribute: str, new: Any, before: Any) -> Callable[[], None]:
    setattr(owner, attribute, new)

    def stop() -> None:
        if vars(owner).get(attribute) is new:  # else someone has replaced it meanwhile
            setattr(owner, attribute, before)

    return stop


def _waits(value: Any) -> bool:
    """Whether a value is an array that is not ready, or a list with one."""
    if isinstance(value, list | tuple):
        return any(map(_waits, value[:_MOST]))
    if not isinstance(value, jax.Array):
        return False
    try:
        array: Any = value
        return not array.is_deleted() and not array.is_ready()
    except Exception:  # a tracer, or an array of keys; the read itself says what is wrong
        return False
