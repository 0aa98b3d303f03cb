"""The shardings of arrays over devices, and the collectives between devices.

Shardings are read from the input of XLA's SPMD partitioner, in which values have sharding
attributes; collectives from the optimised program, which each device executes. The bytes of a
collective are an estimate: what each device sends if the group is a ring (an all-reduce of n
devices sends each byte 2 (n - 1) / n times, the others (n - 1) / n times). Source: Patarasuk and
Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.ir.facts import Input, PassStage
from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.hlo.instructions import inputs_of, parameters, written
from jaxlens.ir.hlo.shardings import (
    Device,
    Tiling,
    axes,
    groups,
    partitioned,
    parts,
    spec_text,
    strides,
    tiling,
    whole,
)
from jaxlens.ir.trips import runs
from jaxlens.program.subject import Given, ProgramFacts, devices, head
from jaxlens.report import total

# A device in a group of n sends each byte this many times (n - 1) / n; 0: once, whatever n.
# None: how much is sent is an operand, whose value is known in a run only.
_SENT: Mapping[str, int | None] = {
    "all-reduce": 2,
    "reduce-scatter": 1,
    "all-gather": 1,
    "all-to-all": 1,
    "ragged-all-to-all": None,
    "collective-permute": 0,
    "collective-broadcast": 1,
}
_NO_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
# Collectives whose replica_groups can be groups of replicas, not of devices.
_NUMBERED = frozenset({"all-reduce", "all-gather", "reduce-scatter"})


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
        runs: Number of executions in a run, with one pass of each loop in `open`.
        lines: Source lines that it came from.
        open: The loops around it whose trips are unknown, by line.
    """

    id: str
    opcode: str
    bytes: int | None
    groups: tuple[Device, ...] | None
    over: tuple[str, ...]
    runs: int
    lines: tuple[str, ...]
    open: tuple[str, ...] = ()

    @property
    def trips(self) -> int | None:
        """Number of executions in a run; None in a loop of unknown trip count."""
        return None if self.open else self.runs

    @property
    def by_device(self) -> Mapping[int, float] | None:
        """Bytes that each device that sends does in its runs: an estimate for a ring.

        None if its bytes or its groups are not known, and for a ragged all-to-all.
        """
        if not self._is_known:
            return None
        sums = Counter[int]()
        for source, _, sent in self._messages():
            sums[source] += sent  # type: ignore[assignment]
        return {device: sent for device, sent in sums.items() if sent}

    @property
    def sent(self) -> float | None:
        """Bytes that a device sends in a run, at most; None likewise, and where `trips` is."""
        sums = self.by_device
        return None if sums is None or self.open else max(sums.values(), default=0.0)

    @property
    def _is_known(self) -> bool:
        return None not in (self.bytes, self.groups, _SENT[self.opcode])

    def _messages(self, processes: Sequence[int] = ()) -> Iterator[tuple[int, int, float]]:
        """Yields who sends to whom how many bytes in all executions.

        In an all-to-all each device sends the others equal parts. In a ring it sends to the next,
        which lies in the same process where one does: a ring enters and leaves each once.
        """
        often, size = _SENT[self.opcode] or 0, (self.bytes or 0) * self.runs
        for group in self.groups or ():
            n = len(group)
            if self.opcode == "collective-permute":  # of a pair the source sends to the target
                yield from ((group[0], other, size) for other in group[1:] if other != group[0])
            elif self.opcode == "all-to-all":
                yield from ((a, b, size / n) for a in group for b in group if a != b)
            else:
                ring = sorted(group, key=lambda device: processes[device]) if processes else group
                for a, b in zip(ring, (*ring[1:], *ring[:1]), strict=True):
                    yield a, b, often * (n - 1) / n * size

    def between(self, processes: Sequence[int]) -> tuple[float, float] | None:
        """Returns the bytes that all devices send in a run: inside a process, and between two.

        Args:
            processes: The process of each device.

        Returns:
            The two sums, an estimate; None if the bytes or the groups are not known.
        """
        if not self._is_known:
            return None
        messages = [(processes[a] != processes[b], n) for a, b, n in self._messages(processes)]
        crossing = sum(sent for crosses, sent in messages if crosses)
        return sum(sent for _, sent in messages) - crossing, crossing


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
        processes: The process of each device; () if all are of one, or it is not known.
    """

    devices: int
    axes: tuple[tuple[str, int], ...]
    inputs: tuple[Spread, ...]
    outputs: tuple[Spread, ...]
    values: tuple[Spread, ...]
    collectives: tuple[Collective, ...]
    processes: tuple[int, ...] = ()

    @property
    def by_device(self) -> Mapping[int, float]:
        """Bytes that each device that sends does in a run: an estimate.

        Loops in `open` count one pass; collectives in `unknown` are not included.
        """
        sums = Counter[int]()
        for collective in self.collectives:
            sums.update(collective.by_device or {})
        return sums

    @property
    def open(self) -> tuple[str, ...]:
        """The loops with collectives whose trips are unknown, by line."""
        return tuple(dict.fromkeys(loop for c in self.collectives for loop in c.open))

    @property
    def sent(self) -> float | None:
        """Bytes that a device sends in a run, at most; None where the trips of a loop are unknown.

        Collectives in `unknown` are not included.
        """
        return None if self.open else max(self.by_device.values(), default=0.0)

    @property
    def between(self) -> tuple[float, float]:
        """Bytes that all devices send in a run, inside a process and between two: an estimate.

        Collectives in `unknown` are not included. Zeros if the processes are not known.
        """
        if not self.processes:
            return 0.0, 0.0
        known = [c.between(self.processes) or (0.0, 0.0) for c in self.collectives]
        return sum(inside for inside, _ in known), sum(crossing for _, crossing in known)

    @property
    def unknown(self) -> tuple[Collective, ...]:
        """The collectives whose sent bytes are not known."""
        return tuple(c for c in self.collectives if c.by_device is None)


def facts(capture: Capture) -> Sharding:
    """Returns the shardings of a capture; those of values need the dumps of all passes."""
    count = devices(capture)
    inputs, outputs = capture.program.inputs, capture.outputs
    if count == 1:
        one_device = [
            tuple(Spread(v.name, kind, v.type, whole(len(v.type.shape), 1), "") for v in values)
            for kind, values in (("input", inputs), ("output", outputs))
        ]
        return Sharding(1, (), one_device[0], one_device[1], (), (), _subject=capture)
    dumps = Given(lambda: capture.passes).or_else(())
    optimized, hlo = capture.optimized.module, capture.hlo.module
    travels = exchanges(capture)
    mesh = _Mesh(count, travels.axes)
    unpartitioned = _unpartitioned(dumps, hlo)
    return replace(
        travels,
        inputs=_inputs(inputs, unpartitioned or hlo, optimized, mesh),
        outputs=_outputs(outputs, unpartitioned, optimized, mesh),
        values=_values(unpartitioned, mesh) if unpartitioned else (),
    )


def exchanges(capture: Capture) -> Sharding:
    """Returns the collectives alone, for which no dump of a pass is needed."""
    count, processes = devices(capture), capture.program.target.processes
    mesh = _Mesh(count, axes(head(capture)))
    collectives = tuple(_collectives(capture, capture.optimized.module, mesh))
    known = processes if len(processes) == count else ()
    return Sharding(count, mesh.axes, (), (), (), collectives, known, _subject=capture)


def _unpartitioned(dumps: Sequence[PassStage], hlo: Module) -> Module | None:
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


@dataclass(frozen=True, slots=True)
class _Mesh:
    """The devices of a program; their mesh has no axes where the program declares none."""

    devices: int
    axes: tuple[tuple[str, int], ...]

    def spread(
        self, name: str, kind: str, type: Type, text: str, shard: Type | None = None, line: str = ""
    ) -> Spread:
        """Returns an array with its sharding.

        Args:
            name: See `Spread`, as for `kind`, `type` and `line`.
            kind: Likewise.
            type: Likewise.
            text: Its sharding attribute; "" if its sharding is left to XLA.
            shard: Its type in the program of one device; it is replicated if that has its shape.
            line: See `Spread`.
        """
        rank = len(type.shape)
        tiles = tiling(text, rank, self.devices) if text else None
        if not text and shard is not None and shard.shape == type.shape:
            tiles = whole(rank, self.devices)
        spec = spec_text(partitioned(tiles, self.axes))
        return Spread(name, kind, Type(type.dtype, type.shape), tiles, spec, line)

    def over(self, groups: tuple[Device, ...] | None) -> tuple[str, ...]:
        """Returns the axes along which the devices of a group differ."""
        names = []
        for name, stride, size in strides(self.axes):
            coordinates = ({device // stride % size for device in group} for group in groups or ())
            if any(len(distinct) > 1 for distinct in coordinates):
                names.append(name)
        return tuple(reversed(names))


def _inputs(
    inputs: Sequence[Input], module: Module, optimized: Module, mesh: _Mesh
) -> tuple[Spread, ...]:
    """Returns the inputs with their shardings, from the parameters that have their names."""

    def by_name(program: Module) -> dict[str, Node]:
        leaves = inputs_of(program, inputs)
        return {leaves[node.id].name: node for node in parameters(program) if node.id in leaves}

    before, after = by_name(module), by_name(optimized)
    spreads = []
    for leaf in inputs:
        text = before[leaf.name].attrs.get("sharding", "") if leaf.name in before else ""
        shard = after[leaf.name].type if leaf.name in after else None
        spreads.append(mesh.spread(leaf.name, "input", leaf.type, text, shard))
    return tuple(spreads)


def _outputs(
    outputs: Sequence[Input], unpartitioned: Module | None, optimized: Module, mesh: _Mesh
) -> tuple[Spread, ...]:
    root = _root(unpartitioned) if unpartitioned else None
    texts = parts(root.attrs.get("sharding", "")) if root else []
    if len(texts) != len(outputs):
        texts = [""] * len(outputs)
    root = _root(optimized)
    shards: Sequence[Type | None] = (root.type.parts or (root.type,)) if root else ()
    if len(shards) != len(outputs):
        shards = [None] * len(outputs)
    return tuple(
        mesh.spread(leaf.name, "output", leaf.type, text, shard)
        for leaf, text, shard in zip(outputs, texts, shards, strict=True)
    )


def _root(module: Module) -> Node | None:
    body = module.body()
    return next((node for node in body.nodes if node.id in body.results), None)


def _values(module: Module, mesh: _Mesh) -> tuple[Spread, ...]:
    """Returns values by size, largest first, one for each type, sharding and line."""
    distinct: dict[tuple[str, str, str], Spread] = {}
    for node in module.nodes():
        text = node.attrs.get("sharding", "")
        if not text or node.opcode in _NO_WORK or node.opcode == "custom-call":
            continue
        line = str(node.owner or "")
        key = str(node.type), text, line
        if key not in distinct:
            distinct[key] = mesh.spread(node.id, "value", node.type, text, line=line)
    tiled = (spread for spread in distinct.values() if spread.tiling)  # manual ones have no tiling
    return tuple(sorted(tiled, key=lambda spread: -(spread.type.bytes or 0)))


def _collectives(capture: Capture, module: Module, mesh: _Mesh) -> Iterator[Collective]:
    for region_name, often in runs(module).items():
        region = module.regions[region_name]
        nodes = {node.id: node for node in region.nodes}
        for node in region.nodes:
            opcode = node.opcode.removesuffix("-start")
            if opcode not in _SENT:
                continue
            # A ragged one also takes the buffer of its result, offsets and sizes.
            names = node.operands[: 1 if opcode.startswith("ragged") else None]
            operands = total(nodes[name].type.bytes for name in names if name in nodes)
            joined = _groups(node, opcode, operands, mesh.devices)
            yield Collective(
                node.id,
                opcode,
                written(node).bytes if opcode == "all-gather" else operands,
                joined,
                mesh.over(joined),
                often.times,
                _lines(capture, node, nodes),
                often.open,
            )


def _groups(
    node: Node, opcode: str, operands: int | None, devices: int
) -> tuple[Device, ...] | None:
    """Returns the groups of devices; None if they are not known or contradict the types.

    With a `channel_id` and without `use_global_device_ids` the groups are of replicas, each with
    all of its partitions.

    Args:
        node: A collective.
        opcode: Its opcode, without "-start".
        operands: Bytes of its operands; None if they are not known.
        devices: Number of devices.
    """
    text = node.attrs.get("replica_groups", node.attrs.get("source_target_pairs", ""))
    joined = groups(text, devices)
    of_replicas = "channel_id" in node.attrs and "use_global_device_ids" not in node.attrs
    if joined is not None and opcode in _NUMBERED and of_replicas:
        joined = (tuple(range(devices)),) if joined in (((0,),), (tuple(range(devices)),)) else None
    if opcode in ("all-gather", "reduce-scatter") and joined and operands is not None:
        small, large = sorted((operands, written(node).bytes or 0))
        if any(small * len(group) != large for group in joined):
            return None
    return joined


def _lines(capture: Capture, node: Node, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """Returns the source lines of all collectives that were combined in one instruction.

    Links have more lines than the instruction's own frames. If they have one line for several
    operands, the operands' lines are added.
    """
    own = (str(node.owner),) if node.owner else ()
    linked = Given(lambda: capture.links.back(node.id, "source", at="optimized"))
    lines = linked.or_else(()) or own
    if len(lines) == 1 and len(node.operands) > 1:
        owners = [nodes[name].owner for name in node.operands if name in nodes]
        lines = tuple(dict.fromkeys([*lines, *(str(owner) for owner in owners if owner)]))
    return lines
