"""Flops and bytes of a program with its loops counted in.

Flops are counted over the jaxpr's equations: a scan's body `length` times; a kernel's for each
point of its grid; a while loop's as often as XLA knows it to run, else once, which
`Loop.trips` says; of a cond the branch that costs most. A body that several equations call is
counted for each of them. Bytes are the least that can move: every argument read once and every
result written once.
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

# Their bodies are applied to elements: `applied` says how often, a rule of `flops` counts them.
_APPLIED = ("reduce", "reduce_window", "scatter", "select_and_scatter", "argm", "sort")
_GRID = re.compile(r"\bgrid=\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class LoopCost:
    """A loop, or a kernel's grid, with what one pass through its body costs.

    Attributes:
        id: The equation.
        kind: Its primitive.
        trips: How often the body runs; None where that is not known and it was counted once.
        flops: Flops of one pass.
        line: Its source line.
    """

    id: str
    kind: str
    trips: int | None
    flops: int
    line: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a program does when it runs once.

    Attributes:
        flops: Arithmetic operations, loops counted in.
        transcendentals: Exponentials, roots and the like.
        bytes: Arguments plus results, each once; None where a size is unknown.
        once: Flops with each loop body counted once, as XLA counts.
        by_node: Flops by equation, loops counted in.
        by_line: Flops by source line; "" collects what no line owns.
        loops: Every loop.
        branches: Conds, of which the costliest branch was counted.
        unknown: How many equations of each primitive could not be counted.
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
    """A program's cost by two counts: over its equations, and XLA's over what it compiled.

    Attributes:
        cost: Over the equations; None of a program that was opened from a later stage.
        lacking: Why there is none.
        xla: XLA's figures, under its names.
        compiled: Whether the compiled program is looked at.
        subject: The program.
    """

    cost: Cost | None
    lacking: str
    xla: Given[Mapping[str, float]] = field(repr=False)
    compiled: bool
    subject: Subject = field(repr=False)


NOT_COUNTED = Counted(None, "", Given(dict), False, NO_SUBJECT)
"""That of facts that were put together by hand."""


def counted(capture: Capture, compiled: bool = True) -> Counted:
    """Both counts of a capture.

    Args:
        capture: Any capture.
        compiled: Look at the compiled program too, for XLA's figure and its trip counts.
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
    """Counts a capture's jaxpr; see `count_module`."""
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
    """Trip counts that XLA worked out, for the while loops of the jaxpr.

    A loop of the optimised program is matched to an equation by its source position, where that
    is the only loop on either side.
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
    """What a region does once: with loops counted in, each loop once, and what no line owns."""

    flops: int = 0
    transcendentals: int = 0
    once: int = 0
    loose: int = 0


def count_module(module: Module, trips: Mapping[str, int] | None = None) -> Cost:
    """Counts a jaxpr, in time linear in its size.

    Args:
        module: A jaxpr; regions stand before those they call.
        trips: How often while loops run, by equation id, where it is known.
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
    """What the equations themselves do; `known` gets how often bodies are applied."""
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
    """Whether a line of the user's made it; else who calls it owns what it does."""
    return node.owner is not None and not node.owner.library


def _runs(
    node: Node, sums: Mapping[str, _Sum], known: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """The bodies that an equation runs, and how often."""
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
    """Points of a kernel's grid; None where a size of it is a value of the program."""
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
