"""Looks at the arrays that live on the devices, and remembers them until the next look.

Only weak references are kept, so that a look keeps no array alive.
"""

import math
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import jax

from jaxlens import compat
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.questions.arrays.live_arrays import GoneArray, LiveArray, LiveArrays
from jaxlens.questions.arrays.measure.array_names import (
    array_names,
    holders,
    is_automatic,
    made_at,
    traceback_names,
)

_last: list[tuple["weakref.ref[Any]", GoneArray]] | None = None
"""The arrays of the last look, with what is said of them when they are gone."""


def look(namespace: Mapping[str, Any]) -> LiveArrays:
    """Returns the arrays that live now, and what is new or gone since the last look.

    Args:
        namespace: The variables whose names are given to arrays.
    """
    global _last
    live = [array for array in _all_live() if not array.is_deleted()]
    names, deleted = _names({**namespace, **dict(traceback_names())})
    groups = _by_buffer(live)
    nameless = [a for group in groups if not any(id(a) in names for a in group) for a in group]
    held_by = holders(sorted(nameless, key=lambda array: -array.nbytes))
    before = {id(array): array for seen, _ in _last or () if (array := seen()) is not None}
    arrays, seen_now = [], []
    for group in groups:
        found = dict.fromkeys(name for array in group for name in names.get(id(array), ()))
        whole = max(group, key=lambda array: len(array.sharding.device_set))
        entry = LiveArray(
            tuple(sorted(found, key=is_automatic)),
            str(type_of(whole.aval)),
            _bytes(whole),
            _sharding(whole.sharding),
            not any(id(array) in before for array in group),
            made_at(whole),
            next((held_by[id(array)] for array in group if id(array) in held_by), ""),
        )
        arrays.append(entry)
        seen_now.append((weakref.ref(whole), GoneArray(entry.name, entry.bytes)))
    gone = [lost for seen, lost in _last or () if (array := seen()) is None or array.is_deleted()]
    first, _last = _last is None, seen_now
    return LiveArrays(tuple(arrays), deleted, first, tuple(gone), _allocated())


def _all_live() -> Iterator[Any]:
    for platform in _clients():
        yield from jax.live_arrays(platform)  # type: ignore[no-untyped-call]


def _clients() -> dict[str, Any]:
    """Returns the backends of this process by platform."""
    clients: dict[str, Any] = compat.extend("backend", "backends")()
    return clients


def _names(namespace: Mapping[str, Any]) -> tuple[dict[int, list[str]], tuple[str, ...]]:
    """Returns names by the identity of the array, and those of deleted arrays."""
    names: dict[int, list[str]] = {}
    deleted: list[str] = []
    for name, array in array_names(namespace):
        if not array.is_deleted():
            names.setdefault(id(array), []).append(name)
        elif not is_automatic(name):
            deleted.append(name)
    return names, tuple(deleted)


def _by_buffer(live: list[Any]) -> list[list[Any]]:
    """Groups arrays that are the same memory: `jax.device_put(x)` may return such a one.

    The pieces of a sharded array, too, are arrays where someone has read them.
    """
    groups: dict[Any, list[Any]] = {}
    split = [array for array in live if len(array.sharding.device_set) > 1]
    single = [array for array in live if len(array.sharding.device_set) == 1]
    places = {_place(array) for array in single}
    for array in split:
        group = groups.setdefault(id(array), [])
        group.append(array)
        shape = array.sharding.shard_shape(array.shape)
        devices = array.sharding.addressable_devices
        # Asking for a piece makes an array of it, unless there is one already.
        if any((device, shape, array.dtype) in places for device in devices):
            for piece in (array.addressable_data(n) for n in range(len(devices))):
                if (buffer := _buffer(piece)) is not None:
                    groups[buffer] = group
    for array in single:
        groups.setdefault(_buffer(array) or id(array), []).append(array)
    return list({id(group): group for group in groups.values()}.values())


def _place(array: Any) -> tuple[Any, ...]:
    (device,) = array.sharding.device_set
    return device, array.shape, array.dtype


def _buffer(array: Any) -> tuple[Any, int] | None:
    """Returns the device and address of an array's memory; None where that is not known."""
    with suppress(Exception):  # not every backend tells
        if array.size and array.is_ready():
            # Of an array that could not be allocated, the address ends the process: this raises.
            array.block_until_ready()
            (device,) = array.sharding.device_set
            return device, array.unsafe_buffer_pointer()
    return None


def _bytes(array: Any) -> dict[str, int]:
    sharding = array.sharding
    size = math.prod(sharding.shard_shape(array.shape)) * array.dtype.itemsize
    return dict.fromkeys(sorted(map(_device, sharding.addressable_devices)), size)


def _device(device: Any) -> str:
    return f"{device.platform.upper()} {device.id}"


def _sharding(sharding: Any) -> str:
    if len(sharding.device_set) == 1:
        return ""
    spec = getattr(sharding, "spec", None)
    if spec is None:
        return type(sharding).__name__
    axes = ", ".join(f"{name}={size}" for name, size in sharding.mesh.shape.items())
    return f"P({', '.join(map(repr, spec))}) over {axes}"


def _allocated() -> dict[str, int]:
    allocated = {}
    for client in _clients().values():
        for device in client.local_devices():
            with suppress(Exception):  # not every backend counts
                stats = device.memory_stats() or {}
                if "bytes_in_use" in stats:
                    allocated[_device(device)] = int(stats["bytes_in_use"])
    return allocated
