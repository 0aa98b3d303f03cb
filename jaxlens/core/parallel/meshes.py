"""Meshes: devices in rows and columns, and which part of an array each of them holds.

A mesh gives names to the axes of an array of devices. A partition spec says, for each axis of an
array of numbers, along which axes of the mesh it is cut: with `P("i", None)` each row of devices
has its rows of the matrix, and devices that differ along another axis hold copies. That is all
that XLA needs to lay an array out over many devices.

After "Distributed arrays" (docs.jax.dev) and the Shardy dialect (openxla.org/shardy).
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from jaxlens.core.aot import device
from jaxlens.core.aot.lower import names_of, names_per_axis
from jaxlens.core.kernel.types import ShapedArray

Names = tuple[str, ...]


class Mesh:
    """An array of devices with named axes.

    Attributes:
        devices: The array.
        axis_names: The names.
        shape: The length of each axis, by name.
        size: How many devices there are.
    """

    def __init__(self, devices: Any, axis_names: str | Sequence[str]) -> None:
        self.devices = np.asarray(devices, dtype=object)
        self.axis_names = names_of(axis_names)
        shape, names = self.devices.shape, self.axis_names
        if not len(shape) == len(names) == len(set(names)):
            raise ValueError(
                f"Mesh: devices of shape {shape} need {len(shape)} different axis names, got "
                f"{names}."
            )
        self.shape = dict(zip(names, shape, strict=True))
        self.size = int(self.devices.size)
        self._key = names, shape, tuple(device.id for device in self.devices.flat)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name!r}: {n}' for name, n in self.shape.items())})"

    def count(self, names: Names) -> int:
        """Returns the number of devices along these axes."""
        return prod(self.shape[name] for name in names)

    def groups(self, names: Names) -> np.ndarray:
        """Returns rows of device indices that differ along these axes only."""
        places = np.arange(self.size).reshape(self.devices.shape)
        axes = [self.axis_names.index(name) for name in names]
        return np.moveaxis(places, axes, range(-len(axes), 0)).reshape(-1, self.count(names))


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[str], *, devices: Sequence[Any] | None = None
) -> Mesh:
    """Returns a mesh of the first devices, in rows and columns of these lengths.

    Raises:
        ValueError: There are fewer devices.
    """
    present, count = list(devices or device.devices()), prod(axis_shapes)
    if count > len(present):
        raise ValueError(
            f"Number of devices {len(present)} must be >= the product of mesh_shape "
            f"{tuple(axis_shapes)}."
        )
    return Mesh(np.array(present[:count], dtype=object).reshape(axis_shapes), axis_names)


class PartitionSpec(tuple[Any, ...]):
    """For each axis of an array, the mesh axis that it is sharded along, several, or None."""

    __slots__ = ()

    def __new__(cls, *parts: str | Names | None) -> "PartitionSpec":
        return super().__new__(cls, parts)

    def __repr__(self) -> str:
        return f"P{tuple(self)!r}"

    def used(self) -> Names:
        """Returns all mesh axes that the spec names."""
        return tuple(name for names in names_per_axis(self, 0) for name in names)


P = PartitionSpec


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
    if not isinstance(spec, PartitionSpec):
        raise TypeError(f"{label}: expected a PartitionSpec such as P('i'), got {spec!r}.")
    used = spec.used()
    if not set(used) <= set(mesh.axis_names) or len(set(used)) < len(used):
        raise ValueError(
            f"{label}: {spec} must name axes of the mesh, each once; the mesh has "
            f"{', '.join(mesh.axis_names)}."
        )
    if len(spec) > aval.ndim:
        raise ValueError(f"{label}: {spec} has more entries than {aval.str_short()} axes.")
    return [mesh.count(names) for names in names_per_axis(spec, aval.ndim)]
