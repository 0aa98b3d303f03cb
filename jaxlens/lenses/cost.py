"""Flops and bytes of a program with its loops counted in, and XLA's own figure beside them.

Flops are counted over the jaxpr's equations: a scan's body `length` times; a while loop's as often
as XLA knows it to run, else once, and the report says so; of a cond the branch that costs most.
A body that several equations call is counted for each of them. Bytes are the least that can move:
every argument read once and every result written once.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.jaxpr_runs import running
from jaxlens.lenses.flops import flops
from jaxlens.lenses.quote import quoter
from jaxlens.lenses.report import Cell, Finding, Overlay, Report, Table, amount, count
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.started import idle
from jaxlens.lenses.trips import trips as trips_of

# Their bodies are applied to elements, or say nothing about what runs.
_APPLIED = ("reduce", "reduce_window", "scatter", "select_and_scatter", "argm", "sort")
_OPAQUE = frozenset({"pallas_call", "pure_callback", "io_callback", "debug_callback", "ffi_call"})
_PER_DEVICE = (
    Finding(
        "The count is for the equations as they are written: for all devices together, in a "
        "shard_map's body for one. So it is not compared with XLA's."
    ),
)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with what one pass through its body costs. `trips` is None where unknown."""

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
    loops: tuple[Loop, ...] = ()
    branches: tuple[str, ...] = ()
    unknown: Mapping[str, int] | None = None


def cost(capture: Capture, compiled: bool = True) -> Report:
    """What the program costs, by line, and how XLA's figure differs.

    Args:
        capture: Any capture.
        compiled: Look at the compiled program too, for XLA's figure and its trip counts.
    """
    found = of(capture, compiled)
    xla: Mapping[str, float] = {}
    missing = "" if compiled else "not compiled"
    if compiled:
        try:
            xla = capture.cost
        except UnavailableError as why:
            missing = str(why)
    devices = capture.program.target.devices
    count_, *open_ = _counted(found)
    findings = (*_answer(found, capture), count_, *_theirs(xla, compiled, missing, devices), *open_)
    if _given(xla):
        findings += tuple(_gap(found, xla["flops"], capture) if devices == 1 else _PER_DEVICE)
    overlay = Overlay("flops", "jaxpr", {id: float(n) for id, n in found.by_node.items()})
    tables = (_figures(found, xla), lines(found, quote=_codes(capture)))
    return Report("Cost", findings, tables, (overlay,))


def of(capture: Capture, compiled: bool = True) -> Cost:
    """Counts a capture's jaxpr; see `count_module`."""
    trips = known_trips(capture) if compiled else {}
    counted = count_module(capture.jaxpr.module, trips)
    moved = _moved((*capture.program.inputs, *capture.outputs))
    return Cost(
        counted.flops, counted.transcendentals, moved, counted.once, counted.by_node,
        counted.by_line, counted.loops, counted.branches, counted.unknown,
    )  # fmt: skip


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
    known = trips or {}
    own: dict[str, tuple[int, int]] = {}
    unknown: Counter[str] = Counter()
    sums: dict[str, _Sum] = {}
    for region in reversed(tuple(module.regions.values())):
        _own(region, own, unknown)
        sums[region.name] = _summed(region, own, sums, known)
    times: Counter[str] = Counter({module.entry: 1})
    by_node: dict[str, int] = {}
    by_line: Counter[str] = Counter()
    loops: list[Loop] = []
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
            if node.opcode in ("scan", "while"):
                loops.append(_loop(node, inner, sums, known))
            elif node.opcode == "cond":
                branches.append(node.id)
    whole = sums[module.entry]
    return Cost(
        whole.flops, whole.transcendentals, None, whole.once, by_node,
        {line: n for line, n in by_line.items() if n}, tuple(loops), tuple(branches), unknown,
    )  # fmt: skip


def _own(region: Region, own: dict[str, tuple[int, int]], unknown: Counter[str]) -> None:
    types = {value.name: value.type for value in region.parameters}
    for node in region.nodes:
        types.update((value.name, value.type) for value in node.results)
    for node in region.nodes:
        done = flops(node, types)
        opaque = node.opcode in _OPAQUE or not node.regions
        if done.arithmetic is None and opaque:
            unknown[node.opcode] += 1
        own[node.id] = done.arithmetic or 0, done.transcendental


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
            total.once += sums[name].once
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
    if not node.regions or node.opcode in _OPAQUE or node.opcode.startswith(_APPLIED):
        return
    if node.opcode == "scan":
        yield node.regions[0], int(node.attrs["length"])
    elif node.opcode == "while":
        trips = known.get(node.id, 1)
        yield node.attrs["body_jaxpr"], trips
        yield node.attrs["cond_jaxpr"], trips + 1 if node.id in known else 1
    elif node.opcode == "cond":
        yield max(node.regions, key=lambda name: sums[name].flops), 1
    else:
        for name in running(node):
            yield name, 1


def _loop(
    node: Node, inner: list[tuple[str, int]], sums: Mapping[str, _Sum], known: Mapping[str, int]
) -> Loop:
    trips = known.get(node.id) if node.opcode == "while" else int(node.attrs["length"])
    line = str(node.owner or "")
    return Loop(node.id, node.opcode, trips, sum(sums[name].flops for name, _ in inner), line)


def _codes(capture: Capture) -> Callable[[str], str]:
    """Gives the text of a line by its name."""
    spans = {str(node.owner): node.owner for node in capture.jaxpr.module.nodes() if node.owner}
    quote = quoter(capture)
    return lambda line: quote(spans.get(line))


def _answer(found: Cost, capture: Capture) -> Iterator[Finding]:
    """The line that does most."""
    line = min(found.by_line, key=lambda line: (-found.by_line[line], line), default="")
    if line and found.by_line[line]:
        code = _codes(capture)(line)
        share = _percent(found.by_line[line] / found.flops)
        text = f"{line}{f' ({code})' if code else ''} does {share} of {amount(found.flops, 'flop')}"
        ways = []
        if any(loop.trips is not None and loop.trips > 1 for loop in found.loops):
            ways.append("loops counted by their trips")
        open_ = sum(1 for loop in found.loops if loop.trips is None)
        if open_:
            ways.append(f"{count(open_, 'loop')} of unknown length counted once")
        yield Finding(f"{', '.join([text, *ways])}.")


def _counted(found: Cost) -> Iterator[Finding]:
    """What was counted, and what the count leaves open."""
    beside = f" and {amount(found.transcendentals, '').strip()} transcendentals"
    also = beside if found.transcendentals else ""
    yield Finding(f"{amount(found.flops, 'flop')}{also} counted over the equations.")
    open_ended = [loop for loop in found.loops if loop.trips is None]
    if open_ended:
        places = listed(list(dict.fromkeys(loop.line for loop in open_ended if loop.line)))
        one = len(open_ended) == 1
        head = "A while loop" if one else f"{len(open_ended)} while loops"
        where = f" ({places})" if places else ""
        rest = (
            "runs an unknown number of times; its body counts"
            if one
            else ("run an unknown number of times; their bodies count")
        )
        ids = tuple(loop.id for loop in open_ended)
        yield Finding(f"{head}{where} {rest} once.", "unknown", ids)
    if found.branches:
        text = f"{count(len(found.branches), 'cond')}: the branch that costs most was counted."
        yield Finding(text, "counted", found.branches)
    if found.unknown:
        names = [f"{name} x {n}" if n > 1 else name for name, n in found.unknown.items()]
        yield Finding(f"Not counted, for want of a rule: {listed(names, 6)}.", "unknown")


def _given(xla: Mapping[str, float]) -> bool:
    return xla.get("flops", -1.0) >= 0


def _theirs(
    xla: Mapping[str, float], compiled: bool, missing: str, devices: int
) -> Iterator[Finding]:
    """XLA's figure, to stand beside the count."""
    if _given(xla):
        figure = amount(xla["flops"], "flop")
        each = f" on each of {devices} devices" if devices > 1 else ""
        yield Finding(f"XLA's own figure for the optimised program{each}: {figure}.", "xla")
    elif compiled:
        reason = missing or "its cost analysis is empty for this target"
        yield Finding(f"XLA gives no flops here: {reason}.", "unknown")


def _gap(found: Cost, theirs: float, capture: Capture) -> Iterator[Finding]:
    """Why XLA's flops are others."""
    counted = [loop for loop in found.loops if loop.trips is not None and loop.flops]
    if counted and found.once != found.flops:
        alike = Counter(f"{loop.trips:,} trips at {loop.line or 'no line'}" for loop in counted)
        words = [f"{n} loops of {trips}" if n > 1 else trips for trips, n in alike.items()]
        yield Finding(
            f"XLA counts a loop's body once ({listed(words)}): "
            f"counted like that the equations have {amount(found.once, 'flop')}.",
            ids=tuple(loop.id for loop in counted),
        )
    yield from _rest(found.once, theirs, capture, found.once != found.flops)


def _rest(ours: int, theirs: float, capture: Capture, loops: bool) -> Iterator[Finding]:
    """What is left of the gap once loops are counted alike."""
    share = (theirs - ours) / ours if ours else 0.0
    called = _calls(capture)
    if called:
        yield Finding(f"XLA counts nothing for what a custom call does: {listed(called)}.", "xla")
    if abs(share) < 0.005:
        yield Finding("Apart from that the two agree." if loops or called else "The two agree.")
    else:
        start = "With loops counted once the" if loops else "The"
        text = f"{start} optimised program does {_percent(abs(share))}"
        why = (
            "more: values computed again inside fusions, loop counters or what passes added"
            if share > 0
            else "less: lowering or passes removed, merged or simplified the rest"
        )
        yield Finding(f"{text} {why}.")


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _calls(capture: Capture) -> list[str]:
    try:
        nodes = list(capture.optimized.module.nodes())
    except UnavailableError:
        return []
    calls = (n for n in nodes if n.opcode == "custom-call" and not idle(n))
    named = (n.attrs.get("custom_call_target", n.id) for n in calls)
    return list(dict.fromkeys(name.strip('"') for name in named))


def _figures(found: Cost, xla: Mapping[str, float]) -> Table:
    """The count and XLA's figures side by side."""

    def theirs(key: str, unit: str) -> Cell:
        value = xla.get(key)
        return Cell(
            "not given" if value is None or value < 0 else amount(value, unit).strip(), value
        )

    rows = (
        (
            Cell("flops"),
            Cell(amount(found.flops, "flop"), found.flops),
            Cell(amount(found.once, "flop"), found.once),
            theirs("flops", "flop"),
        ),
        (
            Cell("transcendentals"),
            Cell(amount(found.transcendentals, "").strip(), found.transcendentals),
            Cell(""),
            theirs("transcendentals", ""),
        ),
        (
            Cell("bytes"),
            Cell(amount(found.bytes), found.bytes),
            Cell(""),
            theirs("bytes accessed", "B"),
        ),
    )
    return Table(
        "Cost",
        ("", "counted", "loops once", "XLA, optimised program"),
        rows,
        "Counted bytes are arguments and results once each: a lower bound. XLA's are what the "
        "instructions of the optimised program access, each loop body once.",
        right=(1, 2, 3),
    )


def lines(found: Cost, most: int = 12, quote: Callable[[str], str] = lambda line: "") -> Table:
    """Flops by source line, largest first.

    Args:
        found: What was counted.
        most: Rows.
        quote: Gives the text of a line.
    """
    ranked = sorted(found.by_line.items(), key=lambda item: (-item[1], item[0]))
    rows = [
        (
            Cell(line or "(no line)"),
            Cell(quote(line) if line else ""),
            Cell(amount(n, "flop"), n, bar=n / ranked[0][1] if ranked[0][1] else 0.0),
            Cell(f"{n / found.flops:.1%}" if found.flops else "", n),
        )
        for line, n in ranked[:most]
    ]
    left = len(ranked) - len(rows)
    note = f"{count(left, 'more line')} below these." if left else ""
    columns = ("line", "code", "flops", "share")
    return Table("Flops by line", columns, tuple(rows), note, right=(2, 3))
