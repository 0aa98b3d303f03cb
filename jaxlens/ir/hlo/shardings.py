"""Reads HLO's shardings of arrays, and the replica groups of collectives.

Shardings have two notations: that of tiles, `{devices=[4,1,2]<=[8] last_tile_dim_replicate}`, in
which a list of devices is cut into a grid; and that of a mesh with named axes,
`{mesh['x'=4,'y'=2], [{'x'}, {}]}`. `[a,b]<=[c]T(1,0)` is the numbers from 0, shaped as on the
right, transposed, reshaped as on the left: `[2,2]<=[2,2]T(1,0)` is [[0, 2], [1, 3]]. In a mesh
`'x':(2)2` is a sub-axis: the part of size 2 of axis x after a major part of size 2; and
`device_ids=([4,2]T(1,0))` lists its devices where they are not in order.
Source: XLA's hlo_sharding.h, tile_assignment.h, mesh_and_axis.h and replica_group.h.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

from jaxlens.ir.hlo.text import split

Device = tuple[int, ...]  # the devices that hold one tile

_TILES = re.compile(r"\{devices=\[([\d,]++)\](<=\[([\d,]++)\](?:T\(([\d,]++)\))?|[\d,]++)(.*)\}")
# Axes, and the devices where they are not in order: as an iota, or one by one.
_MESH = re.compile(
    r"mesh\[([^\[\]]*)\]"
    r"(?:, device_ids=\((?:\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))\))?"
)
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_DIMS = re.compile(r"\[((?:\{[^{}]*\}(?:, ?)?)*)\]\}?")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_LISTS = re.compile(r"\{(?:\{[\d,]+\}[, ]*)+\}")
_MESH_GROUPS = re.compile(_MESH.pattern + r" ?\{([^{}]*)\}")
_JOINED = re.compile(r"('([^']*)'(?::\((\d+)\)(\d+))?)")
_SUBGROUPS = re.compile(r"last_tile_dims=\{([^{}]*)\}")
_MOST = 1 << 16  # devices; a text could name any number


@dataclass(frozen=True, slots=True)
class Tiling:
    """The distribution of an array over devices.

    Attributes:
        tiles: Number of tiles along each dimension.
        holders: The devices that hold each tile, tiles in row-major order.
    """

    tiles: tuple[int, ...]
    holders: tuple[Device, ...]

    @property
    def parts(self) -> int:
        """Number of distinct tiles."""
        return math.prod(self.tiles)

    @property
    def copies(self) -> int:
        """Number of devices that hold the same tile."""
        return max((len(devices) for devices in self.holders), default=0)

    def piece(self, shape: Sequence[int | str]) -> tuple[int | str, ...]:
        """Shape of one tile; the last ones may be shorter."""
        sizes = zip(shape, self.tiles, strict=True)
        return tuple(-(-n // k) if isinstance(n, int) else n for n, k in sizes)


def whole(rank: int, devices: int) -> Tiling:
    """A fully replicated array."""
    return Tiling((1,) * rank, (tuple(range(devices)),))


def tiling(text: str, rank: int, devices: int) -> Tiling | None:
    """Reads the sharding of one array.

    Args:
        text: As printed behind `sharding=`.
        rank: Dimensions of the array.
        devices: Number of devices.

    Returns:
        None for other shardings: of a tuple, manual, or of an unknown form.
    """
    if devices > _MOST:
        return None
    if "manual" in text or "unreduced" in text or text.startswith("{{"):
        return None
    if text.startswith("{mesh["):
        return _of_mesh(text, rank, devices)
    if "replicated}" in text and "devices=[" not in text:
        return whole(rank, devices)
    if match := re.match(r"\{maximal device=(\d+)", text):
        return Tiling((1,) * rank, ((int(match[1]),),))
    match = _TILES.match(text)
    return _of_tiles(match, rank) if match else None


def parts(text: str) -> list[str]:
    """The shardings of a tuple's elements; a list of the one sharding of an array."""
    if not text.startswith("{{"):
        return [text]
    return [part[part.find("{") :] for part in split(text[1:-1])]  # after `/*index=5*/`


def groups(text: str, devices: int) -> tuple[Device, ...] | None:
    """Reads the groups of devices of a collective, as printed after `replica_groups=`.

    The pairs of `source_target_pairs=` have the same form. No groups: all devices are one group. In
    `mesh['x'=4,'y'=2] {'x':(2)2,'y'}`, devices that differ along these axes alone are one group.

    Returns:
        None for an unknown form.
    """
    text = text.strip()
    if devices > _MOST:
        return None
    if text in ("", "{}"):
        return (tuple(range(devices)),)
    if match := _MESH_GROUPS.fullmatch(text):
        return _along(match)
    if match := _IOTA.fullmatch(text):
        shape, order = _numbers(match[1]), _iota(match[2], match[3])
        if not shape or not order or math.prod(shape) != len(order):
            return None
        return tuple(tuple(order[n : n + shape[-1]]) for n in range(0, len(order), shape[-1]))
    if not _LISTS.fullmatch(text):
        return None
    return tuple(tuple(_numbers(group)) for group in re.findall(r"\{([\d,]+)\}", text)) or None


def axes(stablehlo: str) -> tuple[tuple[str, int], ...]:
    """The first mesh with axes that a StableHLO program names: `(("data", 4), ("model", 2))`."""
    match = re.search(r"sdy\.mesh @[\w.\"]++ = <\[([^\[\]]++)\]", stablehlo)
    return tuple((n, int(k)) for n, k in re.findall(r'"([^"]*)"=(\d+)', match[1])) if match else ()


def partitions(stablehlo: str) -> int:
    """Number of devices of a StableHLO program: a `shard_map` may use more than inputs do."""
    match = re.search(r"mhlo\.num_partitions = (\d{1,6})", stablehlo)
    return int(match[1]) if match else 1


def partitioned(
    tiles: Tiling | None, axes: Sequence[tuple[str, int]]
) -> tuple[tuple[str, ...], ...] | None:
    """Returns the mesh axes that partition each dimension: `(("data",), ())`.

    Device number `stride` differs from device 0 in the coordinate of one axis only, so that axis
    partitions the dimensions in which the tiles of the two differ:

        mesh data 2, model 4: strides 4 and 1
        tiles 2 x 1: device 4 has tile 1, devices 0 and 1 have tile 0, so P('data', None)

    Of two axes of one dimension, the one with the larger step is the major one: P(('y', 'x')).

    Args:
        tiles: How an array lies on the devices; None if that is unknown.
        axes: Names and sizes of the mesh axes.

    Returns:
        None if the tiles are unknown, or the mesh has no axes.
    """
    if tiles is None or not axes:
        return None
    tile_of = {device: n for n, holders in enumerate(tiles.holders) for device in holders}
    first = _indices(tiles, tile_of.get(0, 0))
    cut: list[list[tuple[int, str]]] = [[] for _ in first]
    for name, stride, size in reversed(list(strides(axes))):
        for dim, index in enumerate(_indices(tiles, tile_of.get(stride, 0))):
            if size > 1 and index != first[dim]:
                cut[dim].append((-index, name))
    return tuple(tuple(name for _, name in sorted(names, key=lambda one: one[0])) for names in cut)


def spec_text(dims: Sequence[Sequence[str]] | None) -> str:
    """Returns mesh axes by dimension as a PartitionSpec, `P('data', None)`; "" for None."""
    if dims is None:
        return ""
    names = [repr(n[0]) if len(n) == 1 else str(tuple(n)) if n else "None" for n in dims]
    return f"P({', '.join(names)})"


def strides(axes: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """Yields each axis with its stride in device numbers and its size, innermost first."""
    stride = 1
    for name, size in reversed(axes):
        yield name, stride, size
        stride *= size


def _indices(tiles: Tiling, tile: int) -> list[int]:
    """Returns the index of a tile along each dimension; tiles are in row-major order."""
    indices = []
    for size in reversed(tiles.tiles):
        tile, index = divmod(tile, size)
        indices.append(index)
    return indices[::-1]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word.strip()]


def _iota(shape: str, order: str | None) -> list[int]:
    """The numbers from 0 in that shape, transposed and flattened."""
    sizes = _numbers(shape)
    if math.prod(sizes) > _MOST:
        return []
    turned = _numbers(order) if order else list(range(len(sizes)))
    if sorted(turned) != list(range(len(sizes))):
        return []
    strides = _strides(sizes)
    places = product(*(range(sizes[n]) for n in turned))
    return [sum(i * strides[n] for i, n in zip(at, turned, strict=True)) for at in places]


def _of_tiles(match: re.Match[str], rank: int) -> Tiling | None:
    grid = _numbers(match[1])
    order = _iota(match[3], match[4]) if match[3] else _numbers(match[2])
    subgroups = _SUBGROUPS.search(match[5])
    if subgroups and subgroups[1].replace("replicated", "").strip(" ,"):
        return None
    tiles, copies = tuple(grid[:rank]), math.prod(grid[rank:])
    if len(tiles) != rank or math.prod(tiles) * copies != len(order):
        return None
    starts = range(0, len(order), copies)
    return Tiling(tiles, tuple(tuple(sorted(order[n : n + copies])) for n in starts))


@dataclass(frozen=True, slots=True)
class _Mesh:
    """Devices in a grid with named axes, and the stride of each axis."""

    sizes: Mapping[str, int]
    strides: Mapping[str, int]
    ids: Sequence[int]

    def cuts(self, axes: str) -> list[tuple[int, int]] | None:
        """Stride and length of each axis or sub-axis in `'x':(2)2,'y'`; None for another form."""
        named = _JOINED.findall(axes)
        if ",".join(whole for whole, *_ in named) != axes.replace(" ", ""):
            return None
        pairs = []
        for _, name, before, length in named:
            size = self.sizes.get(name, 0)
            part = int(before or 1) * int(length or size)
            if not part or size % part:
                return None
            pairs.append((self.strides[name] * (size // part), int(length or size)))
        return pairs


def _mesh(axes: str, shape: str | None, order: str | None, listed: str | None) -> _Mesh | None:
    sizes = {name: int(size) for name, size in _AXIS.findall(axes)}
    count = math.prod(sizes.values())
    if count > _MOST or len(sizes) != axes.count("="):
        return None
    ids = _iota(shape, order) if shape else _numbers(listed or "") or list(range(count))
    strides = dict(zip(sizes, _strides(list(sizes.values())), strict=True))
    return _Mesh(sizes, strides, ids) if sorted(ids) == list(range(count)) else None


def _of_mesh(text: str, rank: int, devices: int) -> Tiling | None:
    match = _MESH.search(text)
    mesh = _mesh(*match.groups()) if match else None
    if match is None or mesh is None:
        return None
    rest = text[match.end() :]
    if "replicated=" in rest:
        return None
    if rest.strip(" ,}") == "replicated":
        return whole(rank, devices)
    dims = _DIMS.search(rest)
    cuts = [mesh.cuts(cut) for cut in re.findall(r"\{([^{}]*)\}", dims[1])] if dims else []
    dimensions = [cut for cut in cuts if cut is not None]
    if dims is None or len(dimensions) != len(cuts) or len(cuts) != rank:
        return None
    tiles = tuple(math.prod(size for _, size in cut) for cut in dimensions)
    holders: list[list[int]] = [[] for _ in range(math.prod(tiles))]
    for at, device in enumerate(mesh.ids):
        tile = 0
        for step, size in chain.from_iterable(dimensions):
            tile = tile * size + at // step % size
        holders[tile].append(device)
    return Tiling(tiles, tuple(tuple(sorted(tile_devices)) for tile_devices in holders))


def _along(match: re.Match[str]) -> tuple[Device, ...] | None:
    """Groups of the devices of a mesh that differ along some axes, or sub-axes, alone."""
    *parts_, named = match.groups()
    mesh = _mesh(*parts_)
    cuts = mesh.cuts(named) if mesh else None
    if mesh is None or cuts is None:
        return None
    by_offset: dict[int, list[int]] = {}
    for at, device in enumerate(mesh.ids):
        rest = at - sum(at // step % size * step for step, size in cuts)
        by_offset.setdefault(rest, []).append(device)
    return tuple(map(tuple, by_offset.values()))


def _strides(sizes: Sequence[int]) -> list[int]:
    """Strides of a row-major array."""
    return [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]
