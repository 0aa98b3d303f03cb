"""The shardings of arrays over devices, and the collectives between devices.

Shardings are read from the input of XLA's SPMD partitioner, in which values have sharding
attributes; collectives from the optimised program, which each device executes. The bytes of a
collective are an estimate: what each device sends if the group is a ring (an all-reduce of n
devices sends each byte 2 (n - 1) / n times, the others (n - 1) / n times). Source: Patarasuk and
Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input, PassStage
from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.hlo.shardings import Device, Tiling, axes, groups, partitions, parts, tiling, whole
from jaxlens.lenses.program.instructions import inputs_of, parameters, written
from jaxlens.lenses.program.trip_counts import trips
from jaxlens.lenses.subject import ProgramFacts, subject_of

# A device in a group of n sends each byte this many times (n - 1) / n; 0: once, whatever n.
_SENT: Mapping[str, int] = {
    "all-reduce": 2,
    "reduce-scatter": 1,
    "all-gather": 1,
    "all-to-all": 1,
    "ragged-all-to-all": 1,
    "collective-permute": 0,
    "collective-broadcast": 0,
}
NO_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
# Collectives whose replica_groups can be groups of replicas, not of devices.
_NUMBERED = frozenset({"all-reduce", "all-gather", "reduce-scatter"})
_HEAD = 20_000  # characters of a program within which it declares its devices and mesh


@dataclass(frozen=True, slots=True)
class Spread:
    """An array and its sharding.

    Attributes:
        name: The pytree path of an input or output; the id of a value.
        kind: "input", "output" or "value".
        type: Type of the whole array.
        tiling: Its tiles; None if they are not known.
        spec: The mesh axes of each dimension as a PartitionSpec: "P('data', None)".
        line: The source line that owns a value.
    """

    name: str
    kind: str
    type: Type
    tiling: Tiling | None
    spec: str
    line: str = ""

    @property
    def piece(self) -> Type | None:
        """Type of one device's shard."""
        if self.tiling is None:
            return None
        return Type(self.type.dtype, self.tiling.piece(self.type.shape))


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective instruction.

    Attributes:
        id: Its id in the optimised program.
        opcode: "all-reduce", "all-gather", ..., without "-start".
        bytes: Bytes of one device's operands, or of an all-gather's result, for one execution.
        groups: Groups of devices; of a permute, pairs of source and target. None if the
            program's text does not determine them.
        over: Mesh axes along which the devices of a group differ.
        trips: Number of executions in a run; None in a loop of unknown trip count.
        lines: Source lines that it came from.
    """

    id: str
    opcode: str
    bytes: int | None
    groups: tuple[Device, ...] | None
    over: tuple[str, ...]
    trips: int | None
    lines: tuple[str, ...]

    @property
    def sent(self) -> float | None:
        """Bytes that a device sends in a run: an estimate for a ring.

        None if its bytes or its groups are not known.
        """
        if self.bytes is None or self.groups is None:
            return None
        size = max((len(group) for group in self.groups), default=1)
        often = _SENT[self.opcode]
        share = often * (size - 1) / size if often else 1.0
        return share * self.bytes * (self.trips or 1)


@dataclass(frozen=True, slots=True)
class Sharding(ProgramFacts):
    """The shardings and collectives of a program.

    Attributes:
        devices: Number of devices.
        axes: Names and sizes of the mesh axes; empty if the program declares none.
        inputs: Inputs in order.
        outputs: Outputs in order.
        values: Intermediate values, largest first.
        collectives: Collectives in program order.
    """

    devices: int
    axes: tuple[tuple[str, int], ...]
    inputs: tuple[Spread, ...]
    outputs: tuple[Spread, ...]
    values: tuple[Spread, ...]
    collectives: tuple[Collective, ...]
    _flops: float | None = None

    def flops(self) -> float | None:
        """Returns XLA's count of flops for one device; None if the backend has none."""
        return self._flops

    @property
    def sent(self) -> float:
        """Bytes that a device sends in a run: an estimate, loops of unknown trip count once.

        Collectives in `unknown` are not included.
        """
        return sum(c.sent or 0.0 for c in self.collectives)

    @property
    def unknown(self) -> tuple[Collective, ...]:
        """The collectives whose sent bytes are not known."""
        return tuple(c for c in self.collectives if c.sent is None)


def facts(capture: Capture) -> Sharding:
    """Returns the shardings of a capture; those of values need the dumps of all passes."""
    count, subject = devices(capture), subject_of(capture, "optimized")
    if count == 1:
        inputs = tuple(_alone(one, "input") for one in capture.program.inputs)
        outputs = tuple(_alone(one, "output") for one in capture.outputs)
        return Sharding(1, (), inputs, outputs, (), (), _subject=subject)
    dumps = _dumps(capture)
    optimized, hlo, mesh = capture.optimized.module, capture.hlo.module, axes(_head(capture))
    given = _given(dumps, hlo)
    inputs = _inputs(capture.program.inputs, given or hlo, optimized, count, mesh)
    outputs = _outputs(capture.outputs, given, optimized, count, mesh)
    values = _values(given, count, mesh) if given else ()
    travels = tuple(_collectives(capture, optimized, count, mesh))
    return Sharding(
        count, mesh, inputs, outputs, values, travels, _flops(capture), _subject=subject
    )


def _flops(capture: Capture) -> float | None:
    try:
        flops = capture.cost.get("flops", -1.0)
    except UnavailableError:
        return None
    return flops if flops >= 0 else None


def devices(capture: Capture) -> int:
    """Returns the number of devices; a `shard_map` can have more than the inputs are on."""
    return max(capture.program.target.devices, partitions(_head(capture)))


def _head(capture: Capture) -> str:
    try:
        return capture.stablehlo.raw[:_HEAD]
    except UnavailableError:  # opened from a later stage; its target has the number of devices
        return ""


def _alone(one: Input, kind: str) -> Spread:
    return Spread(one.name, kind, one.type, whole(len(one.type.shape), 1), "")


def _dumps(capture: Capture) -> Sequence[PassStage]:
    try:
        return capture.passes
    except UnavailableError:
        return ()


def _given(dumps: Sequence[PassStage], hlo: Module) -> Module | None:
    """Returns the program before SPMD partitioning: the dump with most sharding attributes."""
    whole = sorted(_parameters(hlo))
    best, most = None, 0
    for stage in dumps:
        count = stage.stage.raw.count("sharding={") if stage.changed or stage is dumps[0] else 0
        if count > most:
            if sorted(_parameters(stage.stage.module)) != whole:
                break  # partitioned
            best, most = stage.stage.module, count
    return best


def _parameters(module: Module) -> list[str]:
    return [f"{Type(p.type.dtype, p.type.shape)}" for p in module.body().parameters]


def _inputs(
    inputs: Sequence[Input],
    module: Module,
    optimized: Module,
    devices: int,
    mesh: Sequence[tuple[str, int]],
) -> tuple[Spread, ...]:
    """Returns the inputs with their shardings, from the parameters that have their names.

    An input whose sharding is left to XLA has no attribute; it is replicated if the parameter of
    one device has the whole shape.
    """

    def by_name(of: Module) -> dict[str, Node]:
        known = inputs_of(of, inputs)
        return {known[node.id].name: node for node in parameters(of) if node.id in known}

    given, taken = by_name(module), by_name(optimized)
    return tuple(
        _spread(
            one.name,
            "input",
            one.type,
            given[one.name].attrs.get("sharding", "") if one.name in given else "",
            devices,
            mesh,
            of_a_device=taken[one.name].type if one.name in taken else None,
        )
        for one in inputs
    )


def _outputs(
    outputs: Sequence[Input],
    given: Module | None,
    optimized: Module,
    devices: int,
    mesh: Sequence[tuple[str, int]],
) -> tuple[Spread, ...]:
    texts = [""] * len(outputs)
    if given is not None:
        root = next((n for n in given.body().nodes if n.id in given.body().results), None)
        found = parts(root.attrs.get("sharding", "")) if root else []
        texts = found if len(found) == len(outputs) else texts
    body = optimized.body()
    root = next((node for node in body.nodes if node.id in body.results), None)
    types: Sequence[Type] = (root.type.parts or (root.type,)) if root else ()
    taken = types if len(types) == len(outputs) else (None,) * len(outputs)
    return tuple(
        _spread(one.name, "output", one.type, text, devices, mesh, of_a_device=type)
        for one, text, type in zip(outputs, texts, taken, strict=True)
    )


def _values(given: Module, devices: int, mesh: Sequence[tuple[str, int]]) -> tuple[Spread, ...]:
    """Returns values by size, largest first, one for each type, sharding and line."""
    seen: dict[tuple[str, str, str], Spread] = {}
    for node in given.nodes():
        text = node.attrs.get("sharding", "")
        if not text or node.opcode in NO_WORK or node.opcode == "custom-call":
            continue
        line = str(node.owner or "")
        key = str(node.type), text, line
        if key not in seen:
            seen[key] = _spread(node.id, "value", node.type, text, devices, mesh, line)
    known = (one for one in seen.values() if one.tiling is not None)  # manual ones have no tiling
    return tuple(sorted(known, key=lambda one: -(one.type.bytes or 0)))


def _spread(
    name: str,
    kind: str,
    type: Type,
    text: str,
    devices: int,
    mesh: Sequence[tuple[str, int]],
    line: str = "",
    of_a_device: Type | None = None,
) -> Spread:
    rank = len(type.shape)
    found = tiling(text, rank, devices) if text else None
    if not text and of_a_device is not None and of_a_device.shape == type.shape:
        found = whole(rank, devices)
    plain = Type(type.dtype, type.shape)
    return Spread(name, kind, plain, found, _spec(found, mesh), line)


def _spec(found: Tiling | None, mesh: Sequence[tuple[str, int]]) -> str:
    """Returns `P('data', None)`: the mesh axes along which each dimension's tile index changes.

    Device number `stride` differs from device 0 in the coordinate of one axis only, so that axis
    partitions the dimensions in which the tiles of the two differ:

        mesh data 2, model 4: strides 4 and 1
        tiles 2 x 1: device 4 has tile 1, devices 0 and 1 have tile 0, so P('data', None)
    """
    if found is None or not mesh:
        return ""
    tile_of = {device: n for n, held in enumerate(found.holders) for device in held}
    words = []
    for dim in range(len(found.tiles)):
        names = [
            name
            for name, step, size in reversed(list(_strides(mesh)))
            if size > 1
            and _index(found, tile_of.get(step, 0), dim) != _index(found, tile_of.get(0, 0), dim)
        ]
        words.append(repr(names[0]) if len(names) == 1 else str(tuple(names)) if names else "None")
    return f"P({', '.join(words)})"


def _strides(mesh: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """Yields each mesh axis with its stride in device numbers and its size, innermost first."""
    stride = 1
    for name, size in reversed(mesh):
        yield name, stride, size
        stride *= size


def _index(found: Tiling, tile: int, dim: int) -> int:
    """Returns the index along one dimension of a tile; tiles are numbered in row-major order."""
    for size in found.tiles[:dim:-1]:
        tile //= size
    return tile % found.tiles[dim]


def _collectives(
    capture: Capture, module: Module, devices: int, mesh: Sequence[tuple[str, int]]
) -> Iterator[Collective]:
    runs = _runs(module)
    for region in module.regions.values():
        nodes = {node.id: node for node in region.nodes}
        types = {node.id: node.type for node in region.nodes}
        for node in region.nodes:
            opcode = node.opcode.removesuffix("-start")
            if opcode not in _SENT:
                continue
            joined = _joined(node, opcode, types, devices)
            yield Collective(
                node.id,
                opcode,
                _bytes(node, opcode, types),
                joined,
                _over(joined, mesh),
                runs[region.name],
                _lines(capture, node, nodes),
            )


def _joined(
    node: Node, opcode: str, types: Mapping[str, Type], devices: int
) -> tuple[Device, ...] | None:
    """Returns the groups of devices; None if they are not known or contradict the types.

    With a `channel_id` and without `use_global_device_ids` the groups are of replicas, each with
    all of its partitions.
    """
    said = node.attrs.get("replica_groups", node.attrs.get("source_target_pairs", ""))
    joined = groups(said, devices)
    of_replicas = "channel_id" in node.attrs and "use_global_device_ids" not in node.attrs
    if joined is not None and opcode in _NUMBERED and of_replicas:
        joined = (tuple(range(devices)),) if joined in (((0,),), (tuple(range(devices)),)) else None
    if opcode not in ("all-gather", "reduce-scatter") or joined is None:
        return joined
    sizes = [types[name].bytes for name in node.operands if name in types]
    whole, wrote = sum(size or 0 for size in sizes), written(node).bytes or 0
    small, large = sorted((whole, wrote))
    fits = None in sizes or all(small * len(group) == large for group in joined)
    return joined if fits else None


def _bytes(node: Node, opcode: str, types: Mapping[str, Type]) -> int | None:
    """Returns the bytes of one device's operands, or of an all-gather's result."""
    if opcode == "all-gather":
        return written(node).bytes
    sizes = [types[name].bytes for name in node.operands if name in types]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _runs(module: Module) -> dict[str, int | None]:
    """Returns the executions of each computation; None in a loop of unknown trip count."""
    found: dict[str, int | None] = {module.entry: 1}
    for region in module.regions.values():  # callers before callees
        times = found.setdefault(region.name, 1)
        for node in region.nodes:
            often = trips(node, region, module) if node.opcode == "while" else 1
            inner = times * often if times is not None and often is not None else None
            for name in node.regions:
                found.setdefault(name, inner)
    return found


def _over(joined: tuple[Device, ...] | None, mesh: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Returns the mesh axes along which the devices of a group differ."""
    names = []
    for name, stride, size in _strides(mesh):
        places = ({device // stride % size for device in group} for group in joined or ())
        if any(len(place) > 1 for place in places):
            names.append(name)
    return tuple(reversed(names))


def _lines(capture: Capture, node: Node, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """Returns the source lines of all collectives that were combined in one instruction.

    Links have more lines than the instruction's own frames. If they have one line for several
    operands, the operands' lines are added.
    """
    try:
        found = capture.links.back(node.id, "source", at="optimized")
    except UnavailableError:
        found = ()
    lines = found or ((str(node.owner),) if node.owner else ())
    if len(lines) == 1 and len(node.operands) > 1:
        owners = [nodes[name].owner for name in node.operands if name in nodes]
        lines = tuple(dict.fromkeys([*lines, *(str(owner) for owner in owners if owner)]))
    return lines
