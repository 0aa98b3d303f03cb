"""Finds a sharding between two others, by way of which XLA reshards without replicating.

Ways are tried in a process of their own, on as many virtual CPU devices as the mesh has: XLA says
only on stderr that it replicates, and there stderr is nobody else's. The partitioner is the same
for every kind of device.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from jaxlens import progress
from jaxlens.ir.compile_log import Cure, Replication
from jaxlens.ir.hlo.replications import MARK
from jaxlens.ir.hlo.shardings import partitioned, spec_text, tiling

Dims = tuple[tuple[str, ...], ...]  # the mesh axes that partition each dimension

_DEVICES, _WAYS, _PATIENCE = 64, 24, 60.0  # most devices and ways of a trial, and its seconds
_NEXT = "-- jaxlens: the next chain of shardings"
_SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "JAX_ENABLE_COMPILATION_CACHE": "0",  # what is loaded is not partitioned
}


def described(one: Replication) -> Replication:
    """Adds the whole type and both PartitionSpecs, from the shardings and the mesh."""
    before, after = _dims(one)
    tiles = tiling(one.old, len(_shape(one.piece)), _devices(one))
    if tiles is None or before is None:
        return one
    whole = [n * k for n, k in zip(_shape(one.piece), tiles.tiles, strict=True)]
    text = f"{one.piece.partition('[')[0]}[{','.join(map(str, whole))}]"
    return replace(one, whole=text, old_spec=spec_text(before), new_spec=spec_text(after))


def way_around(one: Replication) -> Cure | None:
    """Tries the shardings between the two; None if none helps, or the trial does not replicate."""
    before, after = _dims(one)
    devices = _devices(one)
    if before is None or after is None or devices > _DEVICES:
        return None
    # the more axes, the smaller the pieces on the way
    ways = sorted(_ways(before, after), key=lambda way: -sum(map(len, way)))[:_WAYS]
    chains = [[before, after], *([before, way, after] for way in ways)]
    task = {"mesh": one.mesh, "shape": _shape(one.whole), "chains": chains}
    with progress.step("jaxlens tries ways to reshard it in another process"):
        direct, *indirect = _replicates(task, devices) or [False]
    works = [way for way, bad in zip(ways, indirect, strict=False) if not bad]
    if not direct or not works:
        return None
    text = f"reshard it first to {spec_text(works[0])}, by jax.lax.with_sharding_constraint"
    return Cure(text, f"compiled for {devices} CPU devices: XLA does not replicate it then")


def _ways(before: Dims, after: Dims) -> Iterator[Dims]:
    """Yields shardings over the axes of both, each axis along one dimension or none."""
    axes = list(dict.fromkeys(name for names in (*before, *after) for name in names))
    for places in product(range(-1, len(before)), repeat=len(axes)):
        pairs = list(zip(axes, places, strict=True))
        way = tuple(tuple(a for a, dim in pairs if dim == n) for n in range(len(before)))
        if any(way) and way not in (before, after):
            yield way


def _replicates(task: dict[str, Any], devices: int) -> list[bool]:
    """Returns of each chain of shardings whether XLA replicates the value; [] if unknown."""
    settings = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", **_SETTINGS}
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # not the folder it runs in
    command = [sys.executable, "-P", "-m", __name__, json.dumps(task)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, env=os.environ | settings
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [MARK in said for said in done.stderr.split(_NEXT)[1:]] if not done.returncode else []


def _trial(jax: Any, task: dict[str, Any], chain: Sequence[Sequence[Sequence[str]]]) -> None:
    """Compiles a chain of reshards, about which XLA may write to stderr."""
    names, sizes = zip(*task["mesh"], strict=True)
    mesh = jax.make_mesh(sizes, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names))

    def resharded(x: Any) -> Any:
        for dims in chain:
            spec = jax.sharding.PartitionSpec(*(tuple(axes) or None for axes in dims))
            place = jax.sharding.NamedSharding(mesh, spec)
            x = jax.lax.with_sharding_constraint(jax.numpy.sin(x), place)
        return jax.numpy.cos(x)

    jax.jit(resharded).lower(jax.ShapeDtypeStruct(task["shape"], "float32")).compile()


def _dims(one: Replication) -> tuple[Dims | None, Dims | None]:
    """Returns the mesh axes by dimension, before and after."""
    rank, devices = len(_shape(one.piece)), _devices(one)
    before, after = tiling(one.old, rank, devices), tiling(one.new, rank, devices)
    return partitioned(before, one.mesh), partitioned(after, one.mesh)


def _shape(type: str) -> list[int]:
    return [int(size) for size in type.partition("[")[2][:-1].split(",") if size]


def _devices(one: Replication) -> int:
    return math.prod(size for _, size in one.mesh)


if __name__ == "__main__":
    import jax

    task = json.loads(sys.argv[1])
    for chain in task["chains"]:
        print(_NEXT, file=sys.stderr, flush=True)
        _trial(jax, task, chain)
