"""Reads how HLO spreads an array over devices, and which devices a collective joins.

Shardings have two notations: that of tiles, `{devices=[4,1,2]<=[8] last_tile_dim_replicate}`, in
which a list of devices is cut into a grid; and that of a mesh with named axes,
`{mesh['x'=4,'y'=2], [{'x'}, {}]}`. `[a,b]<=[c]T(1,0)` is the numbers from 0, shaped as on the
right, transposed, shaped as on the left. In a mesh `'x':(2)2` is a part of an axis: what is left
when 2 are cut off before it, 2 long; and `device_ids=([4,2]T(1,0))` its devices where they are not
in order.
Source: XLA's hlo_sharding.h, tile_assignment.h, mesh_and_axis.h and replica_group.h.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

Device = tuple[int, ...]  # numbers of the devices that hold one tile

_TILES = re.compile(r"\{devices=\[([\d,]++)\](<=\[([\d,]++)\](?:T\(([\d,]++)\))?|[\d,]++)(.*)\}")
# Axes, and the devices where they are not in order: as numbers that run on, or one by one.
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
    """How an array lies on devices.

    Attributes:
        tiles: Into how many parts each dimension is cut.
        holders: The devices that hold each tile, tiles in row-major order.
    """

    tiles: tuple[int, ...]
    holders: tuple[Device, ...]

    @property
    def parts(self) -> int:
        """Different pieces that there are."""
        return math.prod(self.tiles)

    @property
    def copies(self) -> int:
        """How many devices hold the same piece."""
        return max((len(devices) for devices in self.holders), default=0)

    def piece(self, shape: Sequence[int | str]) -> tuple[int | str, ...]:
        """Shape of what one device holds; the last pieces may be shorter."""
        sizes = zip(shape, self.tiles, strict=True)
        return tuple(-(-n // k) if isinstance(n, int) else n for n, k in sizes)


def whole(rank: int, devices: int) -> Tiling:
    """An array of which every device has all."""
    return Tiling((1,) * rank, (tuple(range(devices)),))


def tiling(text: str, rank: int, devices: int) -> Tiling | None:
    """Reads the sharding of one array.

    Args:
        text: As printed behind `sharding=`.
        rank: Dimensions of the array.
        devices: How many there are.

    Returns:
        None for a sharding of another form: of a tuple, manual, or not known here.
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
    """The shardings of a tuple's elements; of what is no tuple, itself."""
    if not text.startswith("{{"):
        return [text]
    found, depth, start = [], 0, 1
    for place, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if depth == 2 and sign == "{":
            start = place
        elif depth == 1 and sign == "}":
            found.append(text[start : place + 1])
    return found


def groups(text: str, devices: int) -> tuple[Device, ...] | None:
    """The devices that a collective joins, as printed behind `replica_groups=`.

    Pairs of `source_target_pairs=` are of the same form. No groups: all devices are one. Of a mesh,
    `mesh['x'=4,'y'=2] {'x':(2)2,'y'}`, devices are joined that differ along these axes alone.

    Returns:
        None where the form is not known here.
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
    return tuple(tuple(_numbers(one)) for one in re.findall(r"\{([\d,]+)\}", text)) or None


def axes(stablehlo: str) -> tuple[tuple[str, int], ...]:
    """The first mesh with axes that a StableHLO program names: `(("data", 4), ("model", 2))`."""
    match = re.search(r"sdy\.mesh @[\w.\"]++ = <\[([^\[\]]++)\]", stablehlo)
    return tuple((n, int(k)) for n, k in re.findall(r'"([^"]*)"=(\d+)', match[1])) if match else ()


def partitions(stablehlo: str) -> int:
    """How many devices a StableHLO program is for: a `shard_map` may name more than inputs do."""
    match = re.search(r"mhlo\.num_partitions = (\d{1,6})", stablehlo)
    return int(match[1]) if match else 1


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word.strip()]


def _iota(shape: str, order: str | None) -> list[int]:
    """The numbers from 0 in that shape, transposed, one after another."""
    sizes = _numbers(shape)
    if math.prod(sizes) > _MOST:
        return []
    turned = _numbers(order) if order else list(range(len(sizes)))
    if sorted(turned) != list(range(len(sizes))):
        return []
    strides = _steps(sizes)
    places = product(*(range(sizes[n]) for n in turned))
    return [sum(i * strides[n] for i, n in zip(at, turned, strict=True)) for at in places]


def _of_tiles(match: re.Match[str], rank: int) -> Tiling | None:
    grid = _numbers(match[1])
    order = _iota(match[3], match[4]) if match[3] else _numbers(match[2])
    subgroups = _SUBGROUPS.search(match[5])
    if subgroups and subgroups[1].replace("replicated", "").strip(" ,"):
        return None
    tiles, each = tuple(grid[:rank]), math.prod(grid[rank:])
    if len(tiles) != rank or math.prod(tiles) * each != len(order):
        return None
    cut = range(0, len(order), each)
    return Tiling(tiles, tuple(tuple(sorted(order[n : n + each])) for n in cut))


@dataclass(frozen=True, slots=True)
class _Mesh:
    """Devices in a grid with named axes, and how far apart neighbours along an axis are."""

    sizes: Mapping[str, int]
    steps: Mapping[str, int]
    ids: Sequence[int]

    def cuts(self, axes: str) -> list[tuple[int, int]] | None:
        """Step and length of each axis, or part of one, in `'x':(2)2,'y'`; None if unreadable."""
        named = _JOINED.findall(axes)
        if ",".join(whole for whole, *_ in named) != axes.replace(" ", ""):
            return None
        found = []
        for _, name, before, length in named:
            size = self.sizes.get(name, 0)
            part = int(before or 1) * int(length or size)
            if not part or size % part:
                return None
            found.append((self.steps[name] * (size // part), int(length or size)))
        return found


def _mesh(axes: str, shape: str | None, order: str | None, listed: str | None) -> _Mesh | None:
    sizes = {name: int(size) for name, size in _AXIS.findall(axes)}
    count = math.prod(sizes.values())
    if count > _MOST or len(sizes) != axes.count("="):
        return None
    ids = _iota(shape, order) if shape else _numbers(listed or "") or list(range(count))
    steps = dict(zip(sizes, _steps(list(sizes.values())), strict=True))
    return _Mesh(sizes, steps, ids) if sorted(ids) == list(range(count)) else None


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
    cuts = [mesh.cuts(one) for one in re.findall(r"\{([^{}]*)\}", dims[1])] if dims else []
    known = [one for one in cuts if one is not None]
    if dims is None or len(known) != len(cuts) or len(cuts) != rank:
        return None
    tiles = tuple(math.prod(size for _, size in one) for one in known)
    holders: list[list[int]] = [[] for _ in range(math.prod(tiles))]
    for at, device in enumerate(mesh.ids):
        tile = 0
        for step, size in chain.from_iterable(known):
            tile = tile * size + at // step % size
        holders[tile].append(device)
    return Tiling(tiles, tuple(tuple(sorted(held)) for held in holders))


def _along(match: re.Match[str]) -> tuple[Device, ...] | None:
    """Groups of the devices of a mesh that differ along some axes, or parts of axes, alone."""
    *parts_, named = match.groups()
    mesh = _mesh(*parts_)
    cuts = mesh.cuts(named) if mesh else None
    if mesh is None or cuts is None:
        return None
    found: dict[int, list[int]] = {}
    for at, device in enumerate(mesh.ids):
        rest = at - sum(at // step % size * step for step, size in cuts)
        found.setdefault(rest, []).append(device)
    return tuple(map(tuple, found.values()))


def _steps(sizes: Sequence[int]) -> list[int]:
    """How far apart neighbours along each dimension of a row-major array are."""
    return [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]
