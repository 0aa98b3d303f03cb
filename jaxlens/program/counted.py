"""Counts the flops and bytes of a program, multiplied by the trip counts of its loops.

Flops are counted over the equations of the jaxpr. The body of a scan counts `length` times, that
of a Pallas kernel once per grid point, that of a `shard_map` once per device, and that of a while
loop as often as its condition or XLA says. Where that is unknown (`LoopCost.trips` is None), no
sum is known, and what is shown is that of a run with one pass of the loop. All flops are those of
all devices together. A cond counts its costliest branch. A body that several equations call is
counted for each of them.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.columns import Columns, columns
from jaxlens.ir.graph import Module, Node, Region, Type
from jaxlens.ir.jaxpr.bodies import running
from jaxlens.ir.jaxpr.equation_flops import APPLIED, applied, devices_of_body, flops
from jaxlens.ir.trips import counted_trips
from jaxlens.ir.trips import trips as trips_of
from jaxlens.links import name_stack
from jaxlens.links.name_stack import RECOMPUTED
from jaxlens.program.argument_bytes import bytes_of_arguments
from jaxlens.program.subject import Given, devices
from jaxlens.report import Cell

_LOOPS = ("scan", "while", "pallas_call")


@dataclass(frozen=True, slots=True)
class LoopCost:
    """A loop, the grid of a Pallas kernel, or a `shard_map` of an unknown number of devices.

    Attributes:
        id: The equation.
        kind: Its primitive.
        trips: Number of trips; None where it is unknown and one pass of the body was counted.
        flops: Flops of one trip.
        line: Its source line.
    """

    id: str
    kind: str
    trips: int | None
    flops: int
    line: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """The flops and bytes of one run of a program, of all devices together.

    Attributes:
        counted: Arithmetic operations, multiplied by trip counts; with one pass of each loop whose
            trips are unknown.
        functions: Exponentials, roots and the like, likewise.
        bytes: What is read of the arguments and written of the results, as `argument_bytes.py`
            counts it; None where that is unknown.
        once: Flops with each loop body counted once, as XLA counts.
        by_node: Flops by equation, multiplied by trip counts.
        by_line: Flops by source line; "" collects equations that no line owns.
        loops: Every loop.
        branches: The conds, whose costliest branch was counted.
        unknown: Number of equations that could not be counted, by primitive.
        recomputed: The part of `flops` that `jax.checkpoint` computes again.
    """

    counted: int
    functions: int
    bytes: int | None
    once: int
    by_node: Mapping[str, int]
    by_line: Mapping[str, int]
    loops: tuple[LoopCost, ...] = ()
    branches: tuple[str, ...] = ()
    unknown: Mapping[str, int] | None = None
    recomputed: int = 0

    @property
    def open(self) -> tuple[str, ...]:
        """The loops and grids whose trips are unknown, by line, each once."""
        unknown = (loop for loop in self.loops if loop.trips is None and loop.kind != "shard_map")
        return tuple(dict.fromkeys(loop.line or loop.id for loop in unknown))

    @property
    def _is_known(self) -> bool:
        return all(loop.trips is not None for loop in self.loops)

    @property
    def flops(self) -> int | None:
        """Arithmetic operations of a run; None where the trips of a loop are unknown."""
        return self.counted if self._is_known else None

    @property
    def transcendentals(self) -> int | None:
        """Exponentials, roots and the like of a run; None likewise."""
        return self.functions if self._is_known else None


@dataclass(frozen=True, slots=True)
class Counted:
    """The cost of a program by two counts: over its equations, and XLA's over its instructions.

    Attributes:
        cost: The count over the equations; None for a program without a jaxpr.
        lacking: Why `cost` is None.
        xla: XLA's cost analysis, under XLA's keys.
        subject: The program.
        devices: Number of devices that run it.
    """

    cost: Cost | None
    lacking: str
    xla: Given[Mapping[str, float]] = field(repr=False)
    subject: Capture = field(repr=False)
    devices: int = 1

    @property
    def flops(self) -> Mapping[str, int] | None:
        """The flops of each equation; None for a program without a jaxpr."""
        return None if self.cost is None else self.cost.by_node


def counted(capture: Capture) -> Counted:
    """Returns both counts of a capture."""
    cost, xla = Given(lambda: facts(capture)), Given(lambda: capture.cost)
    return Counted(cost.or_else(None), cost.lacking, xla, capture, devices(capture))


def facts(capture: Capture, compiled: bool = True) -> Cost:
    """Counts the flops and bytes of a capture's jaxpr; see `count_module`."""
    module = capture.jaxpr.module
    trips = known_trips(capture) if compiled else {}
    moved = bytes_of_arguments(module, capture.program.inputs, capture.outputs, trips)
    return replace(count_module(module, trips), bytes=moved)


def known_trips(capture: Capture) -> dict[str, int]:
    """Returns the trip counts of the jaxpr's while loops that are known after compilation.

    A while instruction of the optimised program is matched to an equation by source position,
    if each is the only loop at that position.
    """
    equations = _while_loops(capture.jaxpr.module)
    if not equations:
        return {}
    try:
        module = capture.optimized.module
    except UnavailableError:
        return {}
    instructions = _while_loops(module)
    trips = {}
    for position, loops in equations.items():
        if len(loops) == len(instructions[position]) == 1:
            n = trips_of(*instructions[position][0], module)
            if n is not None:
                trips[loops[0][0].id] = n
    return trips


def _while_loops(module: Module) -> defaultdict[object, list[tuple[Node, Region]]]:
    """Returns while loops, with the region that each is in, by source position."""
    loops: defaultdict[object, list[tuple[Node, Region]]] = defaultdict(list)
    for region in module.regions.values():
        for node in region.nodes:
            if node.opcode == "while" and (owner := node.owner):
                loops[owner.file, owner.line, owner.column].append((node, region))
    return loops


@dataclass(slots=True)
class _Sum:
    """The flops of one run of a region.

    Attributes:
        flops: Flops, multiplied by trip counts.
        transcendentals: Exponentials and the like, multiplied by trip counts.
        once: Flops with each loop body counted once.
        loose: Flops of equations without a user line, which count for the line of the caller.
        recomputed: The part of `flops` that `jax.checkpoint` computes again.
        known: Whether every equation, and how often each body runs, is known.
    """

    known: bool = True
    flops: int = 0
    transcendentals: int = 0
    once: int = 0
    loose: int = 0
    recomputed: int = 0


def count_module(module: Module, trips: Mapping[str, int] | None = None) -> Cost:
    """Counts the flops of a jaxpr, in time linear in its size.

    The first pass goes from callees to callers and sums each region for one run, so that an
    equation can use the sums of the bodies that it calls. The second goes from callers to callees
    and multiplies by the number of runs of each region:

        scan of length 10 { scan of length 5 { mul } }    the mul runs 10 * 5 times

    Args:
        module: A jaxpr, its regions in the order of callers before callees.
        trips: Trip counts of while loops by equation id, where known.
    """
    sums = EquationSums(module, trips or {})
    times: Counter[str] = Counter({module.entry: 1})
    by_node: dict[str, int] = {}
    by_line: Counter[str] = Counter()
    loops: list[LoopCost] = []
    branches: list[str] = []
    for region in module.regions.values():
        factor = times[region.name]
        for node in region.nodes:
            bodies = list(sums.bodies(node)) if node.regions else []
            loose = sums.own[node.id] + sum(n * sums.region[name].loose for name, n in bodies)
            by_node[node.id] = factor * sums.own[node.id]
            if _is_users(node) or region.name == module.entry:
                by_line[str(node.owner or "")] += factor * loose
            for name, n in bodies:
                times[name] += factor * n
            if node.opcode in _LOOPS or (bodies and sums.trips(node) is None):
                once = sum(sums.region[name].flops for name, _ in bodies)
                line = str(node.owner or "")
                loops.append(LoopCost(node.id, node.opcode, sums.trips(node), once, line))
            elif node.opcode == "cond":
                branches.append(node.id)
    whole = sums.region[module.entry]
    return Cost(
        whole.flops,
        whole.transcendentals,
        None,
        whole.once,
        by_node,
        {line: n for line, n in by_line.items() if n},
        tuple(loops),
        tuple(branches),
        sums.unknown,
        whole.recomputed,
    )


class EquationSums:
    """The flops of each region of a jaxpr for one run, callees before callers.

    Attributes:
        own: Flops by equation id, without the bodies that the equation calls.
        region: The sum of each region, by name.
        unknown: Number of equations that cannot be counted, by primitive.
    """

    def __init__(self, module: Module, trips: Mapping[str, int]) -> None:
        self._module = module
        self._program = columns(module)
        self._times = dict(trips)  # runs of a body by equation id: trips, and uses by a reduction
        self.own: dict[str, int] = {}
        self.region: dict[str, _Sum] = {}
        self.unknown: Counter[str] = Counter()
        self._uncounted: set[str] = set()  # ids of those equations
        self._steps: dict[str, list[int | None]] = {}  # the flops of each step, by region
        for name in reversed(tuple(module.regions)):
            self.region[name] = self._sum(name)

    def _sum(self, region: str) -> _Sum:
        nodes, rows = self._module.regions[region].nodes, self._program.regions[region]
        whole = _Sum()
        for (_, _, _, *read), steps in _alike(rows):
            node = nodes[rows.steps[steps[0]]]
            of = zip(node.operands, read, strict=True)
            types = {name: self._program.types[n] for name, n in of if n is not None}
            count = flops(node, types)
            arithmetic = loose = count.arithmetic or 0
            ids = [rows.ids[step] for step in steps]
            if count.arithmetic is None:
                self._apply(node, types, ids)
            if node.opcode == "while" and (n := counted_trips(node, self._module)) is not None:
                self._times.setdefault(node.id, n)
            self.own.update(dict.fromkeys(ids, arithmetic))
            whole.transcendentals += count.transcendental * len(ids)
            arithmetic *= len(ids)
            whole.flops += arithmetic
            whole.once += arithmetic
            is_again = RECOMPUTED in node.scope
            whole.recomputed += arithmetic if is_again else 0
            for name, n in self.bodies(node) if node.regions else ():
                body = self.region[name]
                whole.recomputed += n * (body.flops if is_again else body.recomputed)
                whole.flops += n * body.flops
                whole.transcendentals += n * body.transcendentals
                whole.once += body.once * (1 if node.opcode in _LOOPS else n)
                loose += n * body.loose
            whole.loose += 0 if _is_users(node) else loose * len(ids)
            whole.known = whole.known and self._whole(node) is not None
        return whole

    def run(self, region: str, low: int, high: int) -> int | None:
        """Returns the flops of the steps `low` to before `high`; None where some are unknown."""
        if region not in self._steps:
            nodes, rows = self._module.regions[region].nodes, self._program.regions[region]
            costs = [None if id in self._uncounted else self.own[id] for id in rows.ids]
            for step in rows.calls:
                costs[step] = self._whole(nodes[rows.steps[step]])
            self._steps[region] = costs
        known = [cost for cost in self._steps[region][low:high] if cost is not None]
        return sum(known) if len(known) == high - low else None

    def _whole(self, node: Node) -> int | None:
        """Returns the flops of an equation and of the bodies that it runs; None where unknown."""
        bodies = list(self.bodies(node)) if node.regions else []
        is_known = node.id not in self._uncounted and all(self.region[n].known for n, _ in bodies)
        if not is_known or (bodies and self.trips(node) is None):
            return None
        return self.own[node.id] + sum(n * self.region[name].flops for name, n in bodies)

    def _apply(self, node: Node, types: Mapping[str, Type], ids: Sequence[str]) -> None:
        """Stores how often a reduction applies its body, or that equations cannot be counted."""
        times = applied(node, types)
        if times is not None:
            self._times[node.id] = times
        elif not node.regions or node.opcode.startswith(APPLIED):
            self.unknown[node.opcode] += len(ids)
            self._uncounted.update(ids)

    def trips(self, node: Node) -> int | None:
        """Returns how often an equation runs its body; None where that is unknown."""
        match node.opcode:
            case "scan":
                return int(node.attrs["length"])
            case "while":
                return self._times.get(node.id)
            case "shard_map":
                return devices_of_body(node)
            case "pallas_call":  # once per grid point; None where a size of the grid is dynamic
                sizes = node.attrs.get("grid", "?").strip("(),").replace(" ", "").split(",")
                sizes = [size for size in sizes if size]
                return math.prod(map(int, sizes)) if all(n.isdigit() for n in sizes) else None
        return 1

    def bodies(self, node: Node) -> Iterator[tuple[str, int]]:
        """Yields the bodies that an equation runs, and how often."""
        if node.opcode.startswith(APPLIED):
            if node.id in self._times:
                yield node.regions[0], self._times[node.id]
            return
        trips = self.trips(node)
        times = 1 if trips is None else trips
        match node.opcode:
            case "scan":
                yield node.regions[0], times
            case "while":
                yield node.attrs["body_jaxpr"], times
                yield node.attrs["cond_jaxpr"], 1 if trips is None else trips + 1
            case "cond":
                yield max(node.regions, key=lambda name: self.region[name].flops), 1
            case _:
                for name in running(node):
                    yield name, times


def _alike(rows: Columns) -> Iterable[tuple[tuple[Any, ...], list[int]]]:
    """Groups steps that differ only in the values that they read; one that calls is alone."""
    pairs = zip(rows.reads(), rows.distance, strict=True)
    types = [rows.types[n] if distance else None for n, distance in pairs]
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for step, (low, high) in enumerate(pairwise(rows.first_operand)):
        alone = step if step in rows.calls else None
        groups[alone, rows.kind[step], rows.place[step], *types[low:high]].append(step)
    return groups.items()


def _is_users(node: Node) -> bool:
    """Whether a user line owns an equation; if not, its flops count for the caller's line."""
    return node.owner is not None and not node.owner.library


class OfModule(Protocol):
    """What was measured of an equation."""

    @property
    def path(self) -> tuple[str, ...]:
        """The equation, within its calls."""

    @property
    def module(self) -> tuple[str, ...]:
        """The module that it belongs to, that which this is in first; () for none."""

    @property
    def backward(self) -> bool:
        """Whether a derivative's transpose made it."""


_T = TypeVar("_T", bound=OfModule)


def grouped(rows: Iterable[_T]) -> list[list[_T]]:
    """Returns rows by module and pass, in the order of execution; [] with fewer than 2 modules."""
    groups: dict[object, list[_T]] = {}
    for row in rows:
        groups.setdefault((row.module, row.backward), []).append(row)
    modules = {group[0].module for group in groups.values()}
    return list(groups.values()) if len(modules - {()}) > 1 else []


def cells(group: Sequence[OfModule]) -> tuple[Cell, Cell]:
    """Returns the cells of a group's module and pass."""
    ids = tuple(dict.fromkeys(row.path[-1] for row in group))
    first = group[0]
    return Cell(module_text(first), ids=ids), Cell("backward" if first.backward else "")


def module_text(row: OfModule) -> str:
    """Returns `Model / Block_0 / Dense_1`, or `model.blocks[0].dense`."""
    return name_stack.module_text(row.module) or "no module"
