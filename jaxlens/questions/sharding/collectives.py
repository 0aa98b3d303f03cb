"""The collectives of the optimised program, which each device executes.

What a device sends in one is an estimate, as if each group were a ring (an all-reduce of n devices
sends each byte 2 (n - 1) / n times, the others (n - 1) / n times). Source: Patarasuk and Yuan,
"Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo.instructions import written
from jaxlens.ir.hlo.shardings import Device, groups
from jaxlens.ir.trips import runs
from jaxlens.links.match.numbered import NumberedModule
from jaxlens.program.subject import Given
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
# Collectives whose replica_groups can be groups of replicas, not of devices.
_NUMBERED = frozenset({"all-reduce", "all-gather", "reduce-scatter"})


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
        done: The instruction that waits for its end, where other work can run before; "" if it is
            its own.
        values: How many values it joins.
    """

    id: str
    opcode: str
    bytes: int | None
    groups: tuple[Device, ...] | None
    over: tuple[str, ...]
    runs: int
    lines: tuple[str, ...]
    open: tuple[str, ...] = ()
    done: str = ""
    values: int = 1

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
    def most(self) -> float | None:
        """Bytes that a device sends, at most, with one pass of a loop in `open`; None likewise."""
        sums = self.by_device
        return None if sums is None else max(sums.values(), default=0.0)

    @property
    def sent(self) -> float | None:
        """Bytes that a device sends in a run, at most; None likewise, and where `trips` is."""
        return None if self.open else self.most

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


def collectives_of(
    capture: Capture, devices: int, over: Callable[[tuple[Device, ...] | None], tuple[str, ...]]
) -> Iterator[Collective]:
    """Yields the collectives of the optimised program.

    Args:
        capture: The program.
        devices: Its number of devices.
        over: Returns the mesh axes along which the devices of a group differ.
    """
    module = capture.optimized.module
    program = capture.links.programs().numbered(module)
    started = {
        name for node in module.nodes() if node.opcode == "async-start" for name in node.regions
    }
    for region_name, often in runs(module).items():
        if region_name in started:  # the instruction that starts it is the collective
            continue
        for sending in _sending(module, module.regions[region_name], program):
            node, inner, nodes = sending.first, sending.inner, sending.beside
            opcode = inner.opcode.removesuffix("-start")
            # A ragged one also takes the buffer of its result, offsets and sizes.
            names = inner.operands[: 1 if opcode.startswith("ragged") else None]
            operands = total(nodes[name].type.bytes for name in names if name in nodes)
            joined = _groups(inner, opcode, operands, devices)
            piece = written(node).bytes or 0
            # Where a fusion cuts the sum, a device gets no more than its piece.
            if opcode == "all-reduce" and joined and piece * len(joined[0]) == operands:
                opcode = "reduce-scatter"
            yield Collective(
                node.id,
                opcode,
                written(inner).bytes if opcode == "all-gather" else operands,
                joined,
                over(joined),
                often.times,
                _lines(capture, inner, nodes),
                often.open,
                sending.last.id if sending.last is not node else "",
                len(names),
            )


@dataclass(slots=True)
class _Sending:
    """A collective of a computation.

    Attributes:
        first: The instruction that starts it.
        inner: The collective itself, which may be in a fusion.
        beside: The instructions of its computation, by id.
        last: The instruction that waits for its end.
    """

    first: Node
    inner: Node
    beside: Mapping[str, Node]
    last: Node


def _sending(module: Module, region: Region, program: NumberedModule) -> Iterable[_Sending]:
    """Returns the collectives of a computation.

    Libtpu puts one into several fusions, of which the first starts it, the last waits for its end,
    and those between compute meanwhile: its value and channel tell that they are one.

    Args:
        module: The program.
        region: The computation.
        program: The same program, numbered.
    """
    here = {node.id: node for node in region.nodes}
    found: dict[object, _Sending] = {}
    going: dict[str, _Sending] = {}  # by the instruction that another can wait for
    for node in region.nodes:
        if node.opcode.removesuffix("-start") in _SENT:
            found[node.id] = going[node.id] = _Sending(node, node, here, node)
        elif node.opcode in ("fusion", "async-start"):
            for nodes in (module.regions[name].nodes for name in node.regions):
                for inner in (n for n in nodes if n.opcode in _SENT):
                    key = inner.attrs.get("channel_id"), program.value_of[inner.id]
                    if key not in found:
                        found[key] = _Sending(node, inner, {n.id: n for n in nodes}, node)
                    going[node.id] = found[key]
                    found[key].last = node
        elif node.opcode.endswith(("-done", "-update")):
            for sending in [going[name] for name in node.operands if name in going]:
                going[node.id], sending.last = sending, node
    return found.values()


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
