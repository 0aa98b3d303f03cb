"""Meshes: devices in rows and columns, and which part of an array each of them holds.

A mesh gives names to the axes of an array of devices. A partition spec says, for each axis of an
array of numbers, along which axes of the mesh it is cut: with `P("i", None)` each row of devices
has its rows of the matrix, and devices that differ along another axis hold copies. That is all
that XLA needs to lay an array out over many devices.

After "Distributed arrays" (docs.jax.dev) and the Shardy dialect (openxla.org/shardy).
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from jaxlens.core.kernel.interpreter import Primitive
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, subjaxprs
from jaxlens.core.kernel.types import ShapedArray

Names = tuple[str, ...]

shard_map_p = Primitive("shard_map", multiple_results=True)  # its rules are in mapping.py


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


def names_of(axis_name: str | Sequence[str]) -> Names:
    """Returns one name or several as a tuple."""
    return (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)


class PartitionSpec(tuple[Any, ...]):
    """For each axis of an array, the mesh axis that it is sharded along, several, or None."""

    __slots__ = ()

    def __new__(cls, *parts: str | Names | None) -> "PartitionSpec":
        return super().__new__(cls, parts)

    def __repr__(self) -> str:
        return f"P{tuple(self)!r}"

    def names(self, ndim: int) -> list[Names]:
        """Returns the mesh axes for each of `ndim` axes."""
        return [names_of(part or ()) for part in (*self, *[None] * (ndim - len(self)))]

    def used(self) -> Names:
        """Returns all mesh axes that the spec names."""
        return tuple(name for names in self.names(0) for name in names)


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
    return [mesh.count(names) for names in spec.names(aval.ndim)]


def sharding_text(mesh: Mesh, spec: P, ndim: int) -> str:
    """Formats a sharding for the Shardy dialect: `<mesh<["i"=4]>, [{"i"}, {}]>`."""
    axes = ", ".join(f'"{name}"={n}' for name, n in mesh.shape.items())
    cut = ("{" + ", ".join(f'"{name}"' for name in names) + "}" for names in spec.names(ndim))
    return f"<mesh<[{axes}]>, [{', '.join(cut)}]>"


# ---- the layout of a program --------------------------------------------------------------------


class MeshLayout(NamedTuple):
    """How the arguments and results of a program are sharded over a mesh.

    Attributes:
        mesh: The mesh.
        in_specs: For each argument.
        out_specs: For each result.
    """

    mesh: Mesh
    in_specs: Sequence[P]
    out_specs: Sequence[P]


def layout(closed: ClosedJaxpr) -> MeshLayout | None:
    """Returns the layout of a program that contains a shard_map; None if there is none.

    Operands and results of a shard_map have its specs; everything else is replicated.

    Raises:
        ValueError: There are two meshes.
    """
    meshes = {eqn.params["mesh"] for eqn in _shard_maps(closed.jaxpr)}
    if len(meshes) > 1:
        raise ValueError(f"one program can use one mesh, got {' and '.join(map(str, meshes))}.")
    if not meshes:
        return None
    specs: dict[Any, P] = {}
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive is shard_map_p:
            specs.update(zip(eqn.outvars, eqn.params["out_specs"], strict=True))
            for atom, spec in zip(eqn.invars, eqn.params["in_specs"], strict=True):
                specs.setdefault(atom, spec)
    inner = closed.jaxpr
    pick = [tuple(specs.get(x, P()) for x in xs) for xs in (inner.invars, inner.outvars)]
    return MeshLayout(meshes.pop(), *pick)


def _shard_maps(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        if eqn.primitive is shard_map_p:
            yield eqn
        for inner in subjaxprs(eqn.params):
            yield from _shard_maps(inner)
