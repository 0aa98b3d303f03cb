"""Reads how HLO spreads an array over devices, and which devices a collective joins.

Two notations: that of tiles, `{devices=[4,1,2]<=[8] last_tile_dim_replicate}`, in which a list of
devices is cut into a grid; and that of a mesh with named axes, `{mesh['x'=4,'y'=2], [{'x'}, {}]}`.
`[a,b]<=[c]T(1,0)` is the numbers from 0, shaped as on the right, transposed, shaped as on the left.
Source: XLA's hlo_sharding.h and tile_assignment.h.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

Device = tuple[int, ...]  # numbers of the devices that hold one tile

_TILES = re.compile(r"\{devices=\[([\d,]+)\](<=\[([\d,]+)\](?:T\(([\d,]+)\))?|[\d,]+)(.*)\}")
_MESH = re.compile(r"mesh\[([^\]]*)\]")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_DIMS = re.compile(r"\[((?:\{[^{}]*\}(?:, ?)?)*)\]\}?")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_SUBGROUPS = re.compile(r"last_tile_dims=\{([^}]*)\}")
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


def groups(text: str, devices: int) -> tuple[Device, ...]:
    """The devices that a collective joins, as printed behind `replica_groups=`.

    Pairs of `source_target_pairs=` are of the same form. No groups: all devices are one.
    """
    if devices > _MOST:
        return ()
    if match := _MESH.match(text):
        named = re.findall(r"'([^']*)'", text[match.end() :].split("{", 1)[-1])
        return _along(match[1], named)
    if match := _IOTA.match(text):
        shape = _numbers(match[1])
        if math.prod(shape) > _MOST:
            return ()
        order = _iota(match[2], match[3])
        each = shape[-1] if shape else 1
        return tuple(tuple(order[n : n + each]) for n in range(0, len(order), each))
    found = tuple(tuple(_numbers(one)) for one in re.findall(r"\{([\d,]+)\}", text))
    return found or (tuple(range(devices)),)


def axes(stablehlo: str) -> tuple[tuple[str, int], ...]:
    """The first mesh with axes that a StableHLO program names: `(("data", 4), ("model", 2))`."""
    match = re.search(r"sdy\.mesh @[\w.\"]+ = <\[([^\]]+)\]", stablehlo)
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
    strides = [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]
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


def _sizes(mesh: str) -> list[tuple[str, int]]:
    return [(name, int(size)) for name, size in _AXIS.findall(mesh)]


def _of_mesh(text: str, rank: int, devices: int) -> Tiling | None:
    match = _MESH.search(text)
    rest = text[match.end() :] if match else ""
    if "device_ids" in rest or "replicated=" in rest or ":(" in rest:
        return None
    if rest.strip(" ,}") == "replicated":
        return whole(rank, devices)
    dims = _DIMS.search(rest)
    if match is None or dims is None:
        return None
    named = [re.findall(r"'([^']*)'", one) for one in re.findall(r"\{([^{}]*)\}", dims[1])]
    sizes = _sizes(match[1])
    size = dict(sizes)
    if len(named) != rank or not all(name in size for names in named for name in names):
        return None
    tiles = tuple(math.prod(size[name] for name in names) for names in named)
    holders: list[list[int]] = [[] for _ in range(math.prod(tiles))]
    for number, place in enumerate(product(*(range(n) for _, n in sizes))):
        at = dict(zip(size, place, strict=True))
        tile = 0
        for names, count in zip(named, tiles, strict=True):
            index = 0
            for name in names:
                index = index * size[name] + at[name]
            tile = tile * count + index
        holders[tile].append(number)
    return Tiling(tiles, tuple(map(tuple, holders)))


def _along(mesh: str, named: Sequence[str]) -> tuple[Device, ...]:
    """Groups of the devices of a mesh that differ along these axes alone."""
    sizes = _sizes(mesh)
    if math.prod(n for _, n in sizes) > _MOST:
        return ()
    found: dict[tuple[int, ...], list[int]] = {}
    for number, place in enumerate(product(*(range(n) for _, n in sizes))):
        others = tuple(i for i, (name, _) in zip(place, sizes, strict=True) if name not in named)
        found.setdefault(others, []).append(number)
    return tuple(map(tuple, found.values()))
