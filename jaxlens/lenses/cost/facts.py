"""Counts the flops and bytes of a program, multiplied by the trip counts of its loops.

Flops are counted over the equations of the jaxpr. The body of a scan counts `length` times, that
of a Pallas kernel once per grid point, and that of a while loop as often as XLA's known trip count,
else once (`LoopCost.trips` is then None). A cond counts its costliest branch. A body that several
equations call is counted for each of them. Bytes are a lower bound: every argument read once and
every result written once.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Region, Type
from jaxlens.ir.jaxpr.executed_bodies import running
from jaxlens.lenses.program.equation_flops import applied, flops
from jaxlens.lenses.program.trip_counts import trips as trips_of
from jaxlens.lenses.subject import NO_SUBJECT, Given, Subject, subject_of

# Primitives whose body is applied to elements: `applied` counts how often, or `flops` has a rule.
_APPLIED = ("reduce", "reduce_window", "scatter", "select_and_scatter", "argm", "sort")
_GRID = re.compile(r"\bgrid=\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class LoopCost:
    """A loop, or the grid of a Pallas kernel, with the flops of one trip.

    Attributes:
        id: The equation.
        kind: Its primitive.
        trips: Number of trips; None where it is unknown and the body was counted once.
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
    """The flops and bytes of one run of a program.

    Attributes:
        flops: Arithmetic operations, multiplied by trip counts.
        transcendentals: Exponentials, roots and the like, multiplied by trip counts.
        bytes: Arguments plus results, each once; None where a size is unknown.
        once: Flops with each loop body counted once, as XLA counts.
        by_node: Flops by equation, multiplied by trip counts.
        by_line: Flops by source line; "" collects equations that no line owns.
        loops: Every loop.
        branches: The conds, whose costliest branch was counted.
        unknown: Number of equations that could not be counted, by primitive.
    """

    flops: int
    transcendentals: int
    bytes: int | None
    once: int
    by_node: Mapping[str, int]
    by_line: Mapping[str, int]
    loops: tuple[LoopCost, ...] = ()
    branches: tuple[str, ...] = ()
    unknown: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """The cost of a program by two counts: over its equations, and XLA's over its instructions.

    Attributes:
        cost: The count over the equations; None for a program without a jaxpr.
        lacking: Why `cost` is None.
        xla: XLA's cost analysis, under XLA's keys.
        compiled: Whether the compiled program is used.
        subject: The program.
    """

    cost: Cost | None
    lacking: str
    xla: Given[Mapping[str, float]] = field(repr=False)
    compiled: bool
    subject: Subject = field(repr=False)


NOT_COUNTED = Counted(None, "", Given(dict), False, NO_SUBJECT)
"""The default counts of facts that are constructed without a capture."""


def counted(capture: Capture, compiled: bool = True) -> Counted:
    """Returns both counts of a capture.

    Args:
        capture: Any capture.
        compiled: Use the compiled program too, for XLA's figure and its trip counts.
    """
    cost, lacking = None, ""
    try:
        cost = facts(capture, compiled)
    except UnavailableError as why:
        if not compiled:
            raise
        lacking = str(why)
    subject = subject_of(capture, "jaxpr", "optimized")
    return Counted(cost, lacking, Given(lambda: capture.cost), compiled, subject)


def facts(capture: Capture, compiled: bool = True) -> Cost:
    """Counts the flops and bytes of a capture's jaxpr; see `count_module`."""
    trips = known_trips(capture) if compiled else {}
    counted = count_module(capture.jaxpr.module, trips)
    moved = _moved((*capture.program.inputs, *capture.outputs))
    return Cost(
        counted.flops,
        counted.transcendentals,
        moved,
        counted.once,
        counted.by_node,
        counted.by_line,
        counted.loops,
        counted.branches,
        counted.unknown,
    )


def _moved(values: tuple[Input, ...]) -> int | None:
    sizes = [value.type.bytes for value in values]
    return None if None in sizes else sum(s for s in sizes if s is not None)


def known_trips(capture: Capture) -> dict[str, int]:
    """Returns the trip counts of the jaxpr's while loops that are known after compilation.

    A while instruction of the optimised program is matched to an equation by source position,
    if each is the only loop at that position.
    """
    wanted: defaultdict[object, list[str]] = defaultdict(list)
    for node in capture.jaxpr.module.nodes():
        if node.opcode == "while" and node.owner:
            wanted[_position(node)].append(node.id)
    if not wanted:
        return {}
    try:
        module = capture.optimized.module
    except UnavailableError:
        return {}
    found: defaultdict[object, list[int | None]] = defaultdict(list)
    for region in module.regions.values():
        for node in region.nodes:
            if node.opcode == "while" and node.owner:
                found[_position(node)].append(trips_of(node, region, module))
    pairs = ((ids[0], found[p][0]) for p, ids in wanted.items() if len(ids) == len(found[p]) == 1)
    return {id: n for id, n in pairs if n is not None}


def _position(node: Node) -> object:
    return node.owner and (node.owner.file, node.owner.line, node.owner.column)


@dataclass(slots=True)
class _Sum:
    """The flops of one run of a region.

    Attributes:
        flops: Flops, multiplied by trip counts.
        transcendentals: Exponentials and the like, multiplied by trip counts.
        once: Flops with each loop body counted once.
        loose: Flops of equations without a user line, which count for the line of the caller.
    """

    flops: int = 0
    transcendentals: int = 0
    once: int = 0
    loose: int = 0


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
    known = dict(trips or {})
    own: dict[str, tuple[int, int]] = {}
    unknown: Counter[str] = Counter()
    sums: dict[str, _Sum] = {}
    for region in reversed(tuple(module.regions.values())):
        _own(region, own, unknown, known)
        sums[region.name] = _summed(region, own, sums, known)
    times: Counter[str] = Counter({module.entry: 1})
    by_node: dict[str, int] = {}
    by_line: Counter[str] = Counter()
    loops: list[LoopCost] = []
    branches: list[str] = []
    for region in module.regions.values():
        factor = times[region.name]
        for node in region.nodes:
            inner = list(_runs(node, sums, known))
            by_node[node.id] = factor * own[node.id][0]
            loose = own[node.id][0] + sum(n * sums[name].loose for name, n in inner)
            if _users(node) or region.name == module.entry:
                by_line[str(node.owner or "")] += factor * loose
            for name, n in inner:
                times[name] += factor * n
            if node.opcode in ("scan", "while", "pallas_call"):
                loops.append(_loop(node, inner, sums, known))
            elif node.opcode == "cond":
                branches.append(node.id)
    whole = sums[module.entry]
    return Cost(
        whole.flops,
        whole.transcendentals,
        None,
        whole.once,
        by_node,
        {line: n for line, n in by_line.items() if n},
        tuple(loops),
        tuple(branches),
        unknown,
    )


def _own(
    region: Region, own: dict[str, tuple[int, int]], unknown: Counter[str], known: dict[str, int]
) -> None:
    """Counts the equations of a region without the bodies that they call.

    Args:
        region: The region.
        own: Receives flops and transcendentals by equation id.
        unknown: Receives the number of equations that cannot be counted, by primitive.
        known: Receives how often a reduction applies its body, by equation id.
    """
    types: dict[str, Type] = {value.name: value.type for value in region.parameters}
    for node in region.nodes:
        types.update((value.name, value.type) for value in node.results)
    for node in region.nodes:
        done = flops(node, types)
        own[node.id] = done.arithmetic or 0, done.transcendental
        if done.arithmetic is not None:
            continue
        often = applied(node, types)
        if often is not None:
            known[node.id] = often
        elif not node.regions or node.opcode.startswith(_APPLIED):
            unknown[node.opcode] += 1


def _summed(
    region: Region,
    own: Mapping[str, tuple[int, int]],
    sums: Mapping[str, _Sum],
    known: Mapping[str, int],
) -> _Sum:
    total = _Sum()
    for node in region.nodes:
        arithmetic, transcendental = own[node.id]
        loose = arithmetic
        total.flops += arithmetic
        total.once += arithmetic
        total.transcendentals += transcendental
        for name, n in _runs(node, sums, known):
            total.flops += n * sums[name].flops
            total.transcendentals += n * sums[name].transcendentals
            total.once += sums[name].once * (n if node.opcode.startswith(_APPLIED) else 1)
            loose += n * sums[name].loose
        total.loose += 0 if _users(node) else loose
    return total


def _users(node: Node) -> bool:
    """Whether a user line owns an equation; if not, its flops count for the caller's line."""
    return node.owner is not None and not node.owner.library


def _runs(
    node: Node, sums: Mapping[str, _Sum], known: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """Yields the bodies that an equation runs, and how often."""
    if not node.regions:
        return
    if node.opcode.startswith(_APPLIED):
        if node.id in known:
            yield node.regions[0], known[node.id]
    elif node.opcode == "scan":
        yield node.regions[0], int(node.attrs["length"])
    elif node.opcode == "while":
        trips = known.get(node.id, 1)
        yield node.attrs["body_jaxpr"], trips
        yield node.attrs["cond_jaxpr"], trips + 1 if node.id in known else 1
    elif node.opcode == "cond":
        yield max(node.regions, key=lambda name: sums[name].flops), 1
    else:
        points = _grid(node) if node.opcode == "pallas_call" else 1
        for name in running(node):
            yield name, 1 if points is None else points


def _grid(node: Node) -> int | None:
    """Returns the number of grid points of a Pallas kernel; None where a size is dynamic."""
    found = _GRID.search(node.attrs.get("grid_mapping", ""))
    sizes = [size for size in found[1].replace(" ", "").split(",") if size] if found else ["?"]
    return math.prod(map(int, sizes)) if all(size.isdigit() for size in sizes) else None


def _loop(
    node: Node, inner: list[tuple[str, int]], sums: Mapping[str, _Sum], known: Mapping[str, int]
) -> LoopCost:
    match node.opcode:
        case "while":
            trips = known.get(node.id)
        case "pallas_call":
            trips = _grid(node)
        case _:
            trips = int(node.attrs["length"])
    line = str(node.owner or "")
    return LoopCost(node.id, node.opcode, trips, sum(sums[name].flops for name, _ in inner), line)
