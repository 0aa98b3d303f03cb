"""Meshes: devices in rows and columns, and which part of an array each of them holds.

A mesh gives names to the axes of an array of devices. A partition spec says, for each axis of an
array of numbers, along which axes of the mesh it is cut: with `P("i", None)` each row of devices
has its rows of the matrix, and devices that differ along another axis hold copies. That is all
that XLA needs to lay an array out over many devices. The classes of both are JAX's.

After "Distributed arrays" (docs.jax.dev) and the Shardy dialect (openxla.org/shardy).
"""

from math import prod
from typing import Any

import numpy as np

from jaxlens.core.aot.device import Mesh, P
from jaxlens.core.aot.lower import names_per_axis
from jaxlens.core.kernel.types import ShapedArray

Names = tuple[str, ...]


def count(mesh: Mesh, names: Names) -> int:
    """Returns the number of devices along these axes."""
    return prod(mesh.shape[name] for name in names)


def groups(mesh: Mesh, names: Names) -> np.ndarray:
    """Returns rows of device indices that differ along these axes only."""
    places = np.arange(mesh.size).reshape(mesh.devices.shape)
    axes = [mesh.axis_names.index(name) for name in names]
    return np.moveaxis(places, axes, range(-len(axes), 0)).reshape(-1, count(mesh, names))


def used(spec: Any) -> Names:
    """Returns all mesh axes that a spec names."""
    return tuple(name for names in names_per_axis(spec, 0) for name in names)


def part(aval: ShapedArray, spec: Any, mesh: Mesh, label: str) -> ShapedArray:
    """Returns the type of one device's shard of an array.

    Raises:
        TypeError: The spec is none.
        ValueError: It names other axes, or more than there are, or does not divide one.
    """
    cuts = _cuts(aval, spec, mesh, label)
    for axis, (n, k) in enumerate(zip(aval.shape, cuts, strict=True)):
        if n % k:
            raise ValueError(
                f"{label}: axis {axis} of {aval.str_short()} has length {n}, which {spec} would "
                f"cut into {k} equal parts: pad it to a multiple."
            )
    return aval.update(shape=tuple(n // k for n, k in zip(aval.shape, cuts, strict=True)))


def whole(aval: ShapedArray, spec: Any, mesh: Mesh, label: str) -> ShapedArray:
    """Returns the type of the array whose shards have this type; raises as `part` does."""
    cuts = _cuts(aval, spec, mesh, label)
    return aval.update(shape=tuple(n * k for n, k in zip(aval.shape, cuts, strict=True)))


def _cuts(aval: ShapedArray, spec: Any, mesh: Mesh, label: str) -> list[int]:
    """Returns the number of shards along each axis of an array."""
    if not isinstance(spec, P):
        raise TypeError(f"{label}: expected a PartitionSpec such as P('i'), got {spec!r}.")
    named = used(spec)
    if not set(named) <= set(mesh.axis_names) or len(set(named)) < len(named):
        raise ValueError(
            f"{label}: {spec} must name axes of the mesh, each once; the mesh has "
            f"{', '.join(mesh.axis_names)}."
        )
    if len(spec) > aval.ndim:
        raise ValueError(f"{label}: {spec} has more entries than {aval.str_short()} axes.")
    return [count(mesh, names) for names in names_per_axis(spec, aval.ndim)]
