"""Attributes the nodes of a module to lines of Python; every tint over source code is based on it.

The owner of a node is the innermost user frame of its call stack (`Node.owner`). JAX and libraries
jit functions of their own, and equations of such a body may lack the frames of its caller. A node
without user frames belongs to the line that calls its body, if all calls come from one line. If
several lines call it, the node belongs to a library line, or to none.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from jaxlens.ir.columns import ColumnsModule, Place
from jaxlens.ir.graph import Module, Span
from jaxlens.ir.lazy import LazyDict

_BACKWARD = "transpose("

Spot = tuple[str, int]
"""A line of Python: `Span.key` (`Span.file` where the key is unknown) and line number."""


@dataclass(frozen=True, slots=True)
class OwnedLines:
    """Nodes by line.

    Attributes:
        stage: The stage that the node ids belong to.
        owners: The owning span by node id; nodes without an owner are left out.
        own: Node ids by owning line, in program order.
        through: Number of nodes by line on their call stack, the stacks of the calls that reach
            their body included.
        made: Node ids by library line, for nodes whose innermost frame is a library's.
        names: `Span.file` by `Span.key`, in the order of first mention.
        total: Number of nodes.
        backward: Number of owned nodes of the backward pass by line. JAX marks their name stack
            with `transpose(...)`.
    """

    stage: str
    owners: Mapping[str, Span]
    own: Mapping[Spot, tuple[str, ...]]
    through: Mapping[Spot, int]
    made: Mapping[Spot, tuple[str, ...]]
    names: Mapping[str, str]
    total: int
    backward: Mapping[Spot, int] = field(default_factory=dict)


def spot(span: Span) -> Spot:
    """Returns the line where a span begins."""
    return span.key or span.file, span.line


def shared_frames(stacks: Sequence[Sequence[object]]) -> int:
    """Returns the number of outermost frames that call stacks share; the outermost comes first."""
    levels = zip(*stacks, strict=False)
    return sum(1 for _ in takewhile(lambda frames: len(set(frames)) == 1, levels))


def owners(module: Module) -> Mapping[str, Span]:
    """Returns the owning span by node id; nodes without an owner are left out."""
    rows = _rows(module)
    return _owners(rows, _handed(rows))


def _owners(rows: Sequence["_Rows"], handed: Mapping[str, Span | None]) -> Mapping[str, Span]:
    def spans() -> dict[str, Span]:
        by_id = {}
        for row in rows:
            owned = {n: _owner(row.places[n], handed[row.name]) for n in set(row.place)}
            for ident, place in zip(row.ids, row.place, strict=True):
                if (owner := owned[place]) is not None:
                    by_id[ident] = owner
        return by_id

    return LazyDict(spans)


def span_of(path: Sequence[str], owners: Mapping[str, Span | None]) -> Span | None:
    """Returns the user's line of an equation, or of the nearest call that leads to it.

    Args:
        path: Ids of the equations whose bodies lead to it, and its own.
        owners: The lines of the program's equations.
    """
    spans = [span for step in reversed(path) if (span := owners.get(step)) is not None]
    return next((span for span in spans if not span.library), spans[0] if spans else None)


def lines(module: Module) -> OwnedLines:
    """Attributes every node of a module to a line of Python.

    Nodes with the same `Place` (scope and call stack) are attributed together: a large program
    has few places.
    """
    rows = _rows(module)
    handed = _handed(rows)
    own: dict[Spot, list[str]] = {}
    library: dict[Spot, list[str]] = {}
    names: dict[str, str] = {}
    backward: Counter[Spot] = Counter()
    for row in rows:
        counts = Counter(row.place)  # in the order of first mention
        to_own: dict[int, list[str]] = {}
        to_library: dict[int, list[str]] = {}
        for n, nodes in counts.items():
            place = row.places[n]
            owner = _owner(place, handed[row.name])
            for span in (*((owner,) if owner else ()), *place.spans):
                names.setdefault(span.key or span.file, span.file)
            if owner is not None:
                to_own[n] = own.setdefault(spot(owner), [])
                backward[spot(owner)] += nodes * (_BACKWARD in place.scope)
            if place.spans and place.spans[0].library:
                to_library[n] = library.setdefault(spot(place.spans[0]), [])
        _sort(row, to_own)
        _sort(row, to_library)
    return OwnedLines(
        module.stage,
        _owners(rows, handed),
        {line: tuple(ids) for line, ids in own.items()},
        _through(rows, handed),
        {line: tuple(ids) for line, ids in library.items()},
        names,
        sum(len(row.place) for row in rows),
        +backward,
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The columns of one region that attribution reads: ids, places and called regions."""

    name: str
    ids: Sequence[str]
    place: Sequence[int]
    calls: Mapping[int, tuple[str, ...]]
    places: Sequence[Place]


def _rows(module: Module) -> list[_Rows]:
    """Returns the columns of every region, callers before callees."""
    if isinstance(module, ColumnsModule):
        program = module.columns
        return [
            _Rows(region.name, region.ids, region.place, region.calls, program.places)
            for region in program.regions.values()
        ]
    places: list[Place] = []
    # By identity of the call stack: readers share equal stacks, and hashing them is slow.
    numbers: dict[tuple[int, bool], int] = {}
    rows = []
    for region in module.regions.values():
        place, calls = array("i"), {}
        for n, node in enumerate(region.nodes):
            key = id(node.spans), _BACKWARD in node.scope
            if key not in numbers:
                numbers[key] = len(places)
                places.append(Place(node.scope, node.spans))
            place.append(numbers[key])
            if node.regions:
                calls[n] = node.regions
        rows.append(_Rows(region.name, [n.id for n in region.nodes], place, calls, places))
    return rows


def _sort(row: _Rows, lists: Mapping[int, list[str]]) -> None:
    """Appends the id of each node of a region to the list of its place."""
    if lists:
        appends = {place: ids.append for place, ids in lists.items()}
        for ident, place in zip(row.ids, row.place, strict=True):
            if append := appends.get(place):
                append(ident)


def _owner(place: Place, handed: Span | None) -> Span | None:
    """Returns the owner of nodes of a place; `handed` is the span inherited from the callers."""
    own = place.owner
    if own is None or (own.library and handed is not None and not handed.library):
        return handed
    return own


def _handed(rows: Sequence[_Rows]) -> dict[str, Span | None]:
    """Returns, by region, the span that its nodes without frames inherit from its callers.

    None where the calls come from several lines or from an unknown one. `rows` has callers before
    callees, so the span of a caller's region is known when its callees are reached.
    """
    callers: dict[str, list[tuple[_Rows, int]]] = {}
    for row in rows:
        for step, regions in row.calls.items():
            for inner in regions:
                callers.setdefault(inner, []).append((row, step))
    handed: dict[str, Span | None] = {}
    for row in rows:
        calls = callers.get(row.name, ())
        spans = [_owner(caller.places[caller.place[n]], handed[caller.name]) for caller, n in calls]
        lines = {spot(span) if span else None for span in spans}
        handed[row.name] = spans[-1] if len(lines) == 1 else None
    return handed


def _through(rows: Sequence[_Rows], handed: Mapping[str, Span | None]) -> Counter[Spot]:
    """Counts each node for every line on its call stack and on those of its region's callers."""
    around: dict[str, frozenset[Spot]] = {}
    count: Counter[Spot] = Counter()
    for row in rows:
        outside = around.get(row.name, frozenset())
        inherited = handed[row.name]
        count.update(dict.fromkeys(outside, len(row.place)))
        stacks: dict[int, frozenset[Spot]] = {}
        for n, nodes in Counter(row.place).items():
            spans = row.places[n].spans or ((inherited,) if inherited else ())
            stacks[n] = frozenset(map(spot, spans))
            count.update(dict.fromkeys(stacks[n] - outside, nodes))
        for step, regions in row.calls.items():
            inside = outside | stacks[row.place[step]]
            for inner in regions:
                around[inner] = around.get(inner, frozenset()) | inside
    return count
