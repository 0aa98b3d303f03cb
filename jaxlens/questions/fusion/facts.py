"""Fusions of the optimised program, the bytes that each saves, and values left between kernels.

A fusion saves the bytes that its instructions would move if each ran by itself, less the bytes
that the fusion moves: values inside it are neither written to memory nor read again. An
instruction that several fusions compute counts as saved in one of them only, because without
fusion it would run once. A reason why two neighbours were not fused is given only where XLA's log
has one (priority fusion on GPUs) or the program shows an obstacle; otherwise it is unknown.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import PassStage
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo.async_fusions import async_fusion, waits
from jaxlens.ir.hlo.fusion_log import refusals
from jaxlens.ir.hlo.instructions import ENDS, EXCHANGES, PLUMBING
from jaxlens.ir.hlo.traffic import Traffic
from jaxlens.ir.trips import runs
from jaxlens.links.match.instruction_fates import ProgramChange
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.links.match.same_compile import follow
from jaxlens.program.fusion_change import GLANCE_LIMIT, across_fusion, operations
from jaxlens.program.kernel_cost import kernel_costs, memories_of
from jaxlens.program.kernels import inside
from jaxlens.program.sentences import fusion_kind, lines_of
from jaxlens.program.subject import Given, ProgramFacts

_THROUGH = frozenset({"bitcast", "get-tuple-element", "tuple"}) | ENDS
_LIBRARY = frozenset({"dot", "convolution", "custom-call", "fft", "cholesky", "triangular-solve"})
_LOOPS = frozenset({"while", "conditional", "call"})
_PASS = "priority-fusion"


@dataclass(frozen=True, slots=True)
class Fused:
    """One fusion.

    Attributes:
        id: The fusion instruction.
        kind: "loop", "input", "output", "custom: ...".
        operations: Opcodes of the fused instructions, without parameters, constants, tuples and
            bitcasts.
        lines: Source lines that the fused instructions come from.
        saved: Bytes that one run neither writes nor reads because of the fusion; see the module.
        times: Number of runs, trips of enclosing loops included; see `Fusions.open`.
        repeated: Number of fused instructions that are also computed elsewhere.
    """

    id: str
    kind: str
    operations: tuple[str, ...]
    lines: tuple[str, ...]
    saved: int
    times: int = 1
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Boundary:
    """A value that one kernel writes and others read.

    Attributes:
        producer: The instruction that writes it.
        consumers: The instructions that read it.
        bytes: Bytes of the write and of every read in the device's main memory, for one run.
        times: Number of runs, trips of enclosing loops included.
        why: Why producer and consumers are not fused, as far as known; "" where unknown.
        trust: "xla" for a reason of XLA's log, "counted" for one seen in the program, "unknown".
        lines: Source lines of the producer.
    """

    producer: str
    consumers: tuple[str, ...]
    bytes: int
    times: int
    why: str
    trust: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fusions(ProgramFacts):
    """The fusions of a program and the values left between its kernels.

    Attributes:
        fusions: Every fusion of several operations, by bytes saved, largest first.
        wrapped: Number of fusions of a single operation, the form that XLA gives to an
            instruction that it generates code for.
        boundaries: Values that one kernel writes and others read, by bytes, largest first.
        before: Number of operations before fusion.
        after: Number of operations after fusion, a fusion counted as one.
        change: The fate of each instruction.
        note: The sentence that says which programs were compared.
        refused: XLA's reason not to fuse, by instruction; empty without a log.
        why_not: Why XLA's reasons are missing; "" where they are present.
        open: The loops whose trips are unknown, by line; sums are of a run with one pass of each,
            and `moved`, `saved` and `left` are None.
        memories: Bytes that the kernels read and write, by memory, the main memory first.
    """

    fusions: tuple[Fused, ...]
    wrapped: int
    boundaries: tuple[Boundary, ...]
    before: int
    after: int
    change: ProgramChange = field(repr=False)
    note: str
    refused: Mapping[str, str]
    why_not: str = ""
    open: tuple[str, ...] = ()
    memories: Mapping[str, int] = field(default_factory=dict)

    @property
    def moved(self) -> int | None:
        """Bytes that the kernels read from and write to the device's main memory in one run."""
        return None if self.open else next(iter(self.memories.values()), 0)

    @property
    def saved(self) -> int | None:
        """Bytes of memory traffic that fusion saves in one run of the program."""
        return None if self.open else self.sums[0]

    @property
    def left(self) -> int | None:
        """Bytes that kernels write and read for each other in one run of the program."""
        return None if self.open else self.sums[1]

    @cached_property
    def sums(self) -> tuple[int, int]:
        """Bytes saved and left, with one pass of each loop in `open`."""
        return (
            sum(fusion.saved * fusion.times for fusion in self.fusions),
            sum(value.bytes * value.times for value in self.boundaries),
        )


def facts(capture: Capture, limit: int = GLANCE_LIMIT) -> Fusions:
    """Computes what the fusions of a capture save.

    Args:
        capture: Any capture.
        limit: Characters of dumps that may be read to name the responsible passes.

    Raises:
        UnavailableError: There is no optimised HLO.
    """
    programs = capture.links.programs()  # kept alive: `across_fusion` uses the same ones
    try:
        dumps: Sequence[PassStage] | None = capture.fusing
    except UnavailableError:
        dumps = None
    change, note = across_fusion(capture, limit, dumps)
    module = change.after
    traffic, often = Traffic(module), runs(module)
    refused, missing = _refusals(capture, dumps or (), module, programs)
    fusions = [
        _fused(node, times.times, traffic, change)
        for name, times in often.items()
        for node in module.regions[name].nodes
        if node.opcode == "fusion" and not waits(node, module)
    ]
    joined = [fusion for fusion in fusions if len(fusion.operations) > 1]
    joined.sort(key=lambda fusion: -fusion.saved * fusion.times)
    edges = sorted(_boundaries(capture, module, traffic, refused), key=lambda b: -b.bytes * b.times)
    return Fusions(
        tuple(joined),
        len(fusions) - len(joined),
        tuple(edges),
        len(operations(change.before)),
        len(operations(module)),
        change,
        note,
        refused,
        missing,
        tuple(dict.fromkeys(loop for times in often.values() for loop in times.open)),
        memories_of(kernel_costs(capture)),
        _subject=capture,
    )


def _fused(node: Node, times: int, traffic: Traffic, change: ProgramChange) -> Fused:
    fused = inside(node, change.after)
    operations = [inner for inner in fused if inner.opcode not in PLUMBING]
    repeated = {inner.id for inner in fused if _is_repeated(inner, node.id, change)}
    alone = sum(traffic.alone(inner) for inner in fused if inner.id not in repeated)
    return Fused(
        node.id,
        fusion_kind(node),
        tuple(inner.opcode for inner in operations),
        tuple(lines_of(fused)),
        max(alone - traffic.alone(node), 0) if len(operations) > 1 else 0,
        times,
        sum(1 for inner in operations if inner.id in repeated),
    )


def _is_repeated(inner: Node, home: str, change: ProgramChange) -> bool:
    """Whether the bytes of a fused instruction are counted elsewhere than in the fusion `home`.

    An instruction that several places compute counts outside of fusions, if it also runs there,
    and otherwise in the first fusion of its fate.
    """
    for tail in change.relation.back(inner.id):
        fate = change.fates.get(tail)
        if fate is not None and fate.copies > 1:
            return "" in fate.fusions or fate.fusions[0] != home
    return False


def _refusals(
    capture: Capture, dumps: Sequence[PassStage], module: Module, programs: NumberedModules
) -> tuple[dict[str, str], str]:
    """Returns XLA's reasons not to fuse instructions into their users, by XLA's log.

    The log has the names that the priority-fusion pass used; later passes rename and merge.

    Returns:
        The reasons by instruction of the optimised program, and why there is no log, or "".
    """
    try:
        reasons = refusals(capture.fusion_log)
        before = next(p.stage.module for p in dumps if p.name == _PASS and p.changed)
    except UnavailableError as why:
        return {}, str(why)
    except StopIteration:
        return {}, f"{_PASS} changed nothing"
    names = _later_names(before, module, programs)
    found = ((name, reason) for old, reason in reasons.items() for name in names.get(old, ()))
    return dict(found), ""


def _later_names(
    before: Module, after: Module, programs: NumberedModules
) -> dict[str, tuple[str, ...]]:
    """Maps the names of one program to those of a later one, a fused instruction to its fusion.

    The contents of one fusion can end up in several. Each instruction of it votes for the
    fusion that it ends up in, and the later names are ordered by votes:

        fusion.1 = {add, mul, tanh}; later add and mul are in fusion.7, tanh in fusion.8
        names["fusion.1"] == ("fusion.7", "fusion.8")
    """
    first, last = programs.numbered(before), programs.numbered(after)
    relation = follow(first, last)
    homes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for node in before.nodes():
        home = first.fusion_of.get(node.id, node.id)
        if node.opcode not in PLUMBING | {"fusion"}:
            homes[home].update(last.fusion_of.get(h, h) for h in relation.forward(node.id))
    return {name: tuple(name for name, _ in votes.most_common()) for name, votes in homes.items()}


def _boundaries(
    capture: Capture, module: Module, traffic: Traffic, refused: Mapping[str, str]
) -> Iterator[Boundary]:
    """Yields every value that one kernel writes and another reads."""
    kernels = Given(lambda: capture.kernels).or_else(())
    library = frozenset(k.instruction for k in kernels if k.kind == "library call")
    results = bool(module.body().results)
    for name, times in runs(module).items():
        region = module.regions[name]
        nodes = {node.id: node for node in region.nodes}
        readers, out = _readers(module, region)
        sends = {n.id for n in region.nodes if any(map(_sends, inside(n, module)))}
        for id, users in readers.items():
            producer = nodes[id]
            if not users or producer.opcode in PLUMBING | _LOOPS:
                continue
            names = {name for read in users.values() for name in read}
            whole = min(traffic.main(id), sum(map(traffic.main, names)))
            size = whole
            for user, read in users.items():
                most = (traffic.moved(nodes[user]).read or {}).get(0)  # it may read a slice of it
                size += min(whole, sum(map(traffic.main, read)), most or whole)
            is_result = results and name == module.entry and id in out
            consumers = [nodes[user] for user in users]
            why, trust = _why(producer, consumers, is_result, library, sends, refused)
            lines = tuple(lines_of(inside(producer, module)))
            yield Boundary(id, tuple(users), size, times.times, why, trust, lines)


def _readers(module: Module, region: Region) -> tuple[dict[str, dict[str, list[str]]], set[str]]:
    """Collects the users of each value; bitcasts and tuples between them are skipped.

    A user of one tuple element reads it under the name of its `get-tuple-element`. What a fusion
    hands on of an asynchronous collective is skipped, too.

    Returns:
        By value its users, with the names under which each reads it; and the values that are
        results of the computation.
    """
    through: dict[str, tuple[tuple[str, str], ...]] = {}
    readers: dict[str, dict[str, list[str]]] = {}
    out: set[str] = set()
    same: dict[tuple[str, str], str] = {}  # operands that a fusion hands on, by it and index
    for node in region.nodes:
        operands = list(node.operands)
        if sent := async_fusion(node, module):
            same |= {(node.id, str(n)): name for n, name in sent.handed.items()}
            operands = [name for n, name in enumerate(operands) if n not in sent.passed]
        is_part = node.opcode == "get-tuple-element"
        alias = same.get((operands[0], node.attrs["index"])) if is_part else None
        if sent and sent.part == "done":
            alias = node.operands[1]
        read = dict.fromkeys(s for o in operands for s in through.get(o, ((o, o),)))
        if alias is not None:
            through[node.id] = through.get(alias, ((alias, alias),))
        elif node.opcode in _THROUGH:
            through[node.id] = tuple((s, node.id if is_part else name) for s, name in read)
        else:
            readers[node.id] = {}
            for source, name in read:
                if source in readers and source != node.id:
                    readers[source].setdefault(node.id, []).append(name)
        if node.id in region.results:
            out.update(source for source, _ in through.get(node.id, ((node.id, node.id),)))
    return readers, out


def _sends(node: Node) -> bool:
    return node.opcode.removesuffix("-start") in EXCHANGES


def _why(
    producer: Node,
    consumers: Sequence[Node],
    result: bool,
    library: Container[str],
    sends: Container[str],
    refused: Mapping[str, str],
) -> tuple[str, str]:
    """Returns why a producer and its users are not fused, and how far to trust that reason."""
    if reason := refused.get(producer.id):
        return f'XLA: "{reason}"', "xla"
    both = (producer, *consumers)
    calls = [n.id for n in both if n.id in library or n.opcode in _LIBRARY]
    loops = [n.id for n in consumers if n.opcode in _LOOPS]
    between = [n.id for n in both if n.id in sends]
    reasons = []
    if between:
        reasons.append(f"{between[0]} exchanges data between devices")
    if calls:
        reasons.append(f"{calls[0]} is a library call")
    if loops:
        reasons.append(f"{loops[0]} is a loop or a branch, whose state lies in memory")
    if result:
        reasons.append("a result of the program, written anyway")
    if len(consumers) > 1:
        reasons.append(f"{len(consumers)} kernels read it")
    return ("; ".join(reasons), "counted") if reasons else ("", "unknown")
