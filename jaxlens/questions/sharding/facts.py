"""The shardings of arrays over devices, and the collectives between devices.

Shardings are read from the input of XLA's SPMD partitioner, in which values have sharding
attributes; collectives from the optimised program (`collectives.py`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input, Limits, PassStage
from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.hlo.instructions import inputs_of, parameters
from jaxlens.ir.hlo.shardings import (
    Device,
    Tiling,
    axes,
    partitioned,
    parts,
    spec_text,
    strides,
    tiling,
    whole,
)
from jaxlens.program.kernel_cost import kernel_costs
from jaxlens.program.subject import Given, ProgramFacts, devices, head
from jaxlens.questions.sharding.collectives import Collective, collectives_of
from jaxlens.questions.sharding.overlap import Overlap, overlaps, rates
from jaxlens.questions.sharding.reasons import TrafficReason, reasons

_NO_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})


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
class OtherSharding:
    """What a program with one other sharding does; it was compiled, and not run.

    Attributes:
        change: What is other, in words; "" for the program as it is.
        sent: Bytes that a device sends in a run, at most; None where a loop's trips are unknown.
        held: Bytes of arguments, results and temporaries of a device; None if not known.
        flops: Flops of a device in a run.
    """

    change: str
    sent: float | None
    held: int | None
    flops: int


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
        overlaps: What a device computes while each collective travels; () on a CPU, where it waits.
        reasons: Why the collectives are there, of those where it is known.
        rates: The published rates of the device; None for none.
        others: The program, and with other shardings for its largest collective; () if none was
            tried.
    """

    devices: int
    axes: tuple[tuple[str, int], ...]
    inputs: tuple[Spread, ...]
    outputs: tuple[Spread, ...]
    values: tuple[Spread, ...]
    collectives: tuple[Collective, ...]
    processes: tuple[int, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    reasons: tuple[TrafficReason, ...] = ()
    rates: Limits | None = None
    others: tuple[OtherSharding, ...] = ()

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
    def explained(self) -> tuple[Collective, TrafficReason] | None:
        """The collective that sends most of those whose reason is known, and why it is there."""
        known = {reason.collective: reason for reason in self.reasons}
        of = [c for c in self.collectives if c.id in known]
        most = max(of, key=lambda c: c.most or 0.0, default=None)
        return None if most is None else (most, known[most.id])

    @property
    def between(self) -> tuple[float, float]:
        """Bytes that all devices send in a run, inside a process and between two: an estimate.

        Collectives in `unknown` are not included. Zeros if the processes are not known.
        """
        here = self.collectives if self.processes else ()
        known = [c.between(self.processes) or (0.0, 0.0) for c in here]
        return sum(inside for inside, _ in known), sum(crossing for _, crossing in known)

    @property
    def unknown(self) -> tuple[Collective, ...]:
        """The collectives whose sent bytes are not known."""
        return tuple(c for c in self.collectives if c.by_device is None)


def facts(capture: Capture, reshard: bool = False) -> Sharding:
    """Returns the shardings of a capture; those of values need the dumps of all passes.

    Args:
        capture: Any capture with an optimised program.
        reshard: Whether to compile it with other shardings for its largest collective.
    """
    count = devices(capture)
    inputs, outputs = capture.program.inputs, capture.outputs
    if count == 1:
        one_device = [
            tuple(Spread(v.name, kind, v.type, whole(len(v.type.shape), 1), "") for v in values)
            for kind, values in (("input", inputs), ("output", outputs))
        ]
        return Sharding(1, (), one_device[0], one_device[1], (), (), _subject=capture)
    dumps = Given(lambda: capture.passes).or_else(())
    optimized = capture.optimized.module
    hlo = Given(lambda: capture.hlo.module).or_else(optimized)
    travels = exchanges(capture)
    mesh = _Mesh(count, travels.axes)
    unpartitioned = _unpartitioned(dumps, hlo)
    waits = capture.program.target.platform == "cpu"
    known = replace(
        travels,
        overlaps=() if waits else overlaps(capture, {c.id: c.done for c in travels.collectives}),
        rates=rates(capture),
        reasons=Given(lambda: _reasons(capture, travels, mesh, unpartitioned)).or_else(()),
        inputs=_inputs(inputs, unpartitioned or hlo, optimized, mesh),
        outputs=_outputs(outputs, unpartitioned, optimized, mesh),
        values=_values(unpartitioned, mesh) if unpartitioned else (),
    )
    return replace(known, others=tuple(_others(capture, known))) if reshard else known


def _others(capture: Capture, sharding: Sharding) -> Iterator[OtherSharding]:
    """Yields the program as it is, and without each cut that its largest collective is for."""
    if sharding.explained is None:
        return
    from jaxlens.questions.sharding.measure import variations

    _, reason = sharding.explained
    yield _other("", capture)
    size = dict(sharding.axes).get(reason.cuts[0].axis)
    for change, made in variations(capture, reason, size):
        yield _other(change, made)


def _other(change: str, capture: Capture) -> OtherSharding:
    memory = Given(lambda: capture.memory).or_else(None)
    flops = sum(cost.flops for cost in kernel_costs(capture))
    return OtherSharding(change, exchanges(capture).sent, memory.needed if memory else None, flops)


def exchanges(capture: Capture) -> Sharding:
    """Returns the collectives alone, for which no dump of a pass is needed."""
    count, processes = devices(capture), capture.program.target.processes
    mesh = _Mesh(count, axes(head(capture)))
    collectives = tuple(collectives_of(capture, count, mesh.over))
    known = processes if len(processes) == count else ()
    return Sharding(count, mesh.axes, (), (), (), collectives, known, _subject=capture)


def _reasons(
    capture: Capture, travels: Sharding, mesh: "_Mesh", unpartitioned: Module | None
) -> tuple[TrafficReason, ...]:
    """Returns why the collectives are there, where Shardy's propagation can be followed."""
    over = {c.id: c.over for c in travels.collectives if c.over}
    if not over or unpartitioned is None:
        return ()
    try:
        from jaxlens.questions.sharding.measure import steps
    except ImportError:
        raise UnavailableError("Shardy's propagation needs JAX") from None
    chosen = {
        path[-1]: mesh.spread(node.id, "value", node.type, node.attrs["sharding"]).spec
        for node in unpartitioned.nodes()
        if "sharding" in node.attrs
        for path in node.stamps
    }
    names = frozenset(name for name, _ in mesh.axes)
    return reasons(capture, steps(capture.stablehlo.raw), over, chosen, names)


def _unpartitioned(dumps: Sequence[PassStage], hlo: Module) -> Module | None:
    """Returns the program before SPMD partitioning: the dump with most sharding attributes."""

    def parameters_of(module: Module) -> list[str]:
        types = (parameter.type for parameter in module.body().parameters)
        return sorted(str(Type(type.dtype, type.shape)) for type in types)

    best, most = None, 0
    for stage in dumps:
        count = stage.stage.raw.count("sharding={") if stage.changed or stage is dumps[0] else 0
        if count > most:
            if parameters_of(stage.stage.module) != parameters_of(hlo):
                break  # partitioned
            best, most = stage.stage.module, count
    return best


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
