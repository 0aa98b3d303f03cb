"""Builds the diff of two HLO programs: each fusion with its instructions, then other changes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from jaxlens.ir.facts import Input
from jaxlens.ir.hlo.traffic import Traffic
from jaxlens.ir.trips import runs
from jaxlens.links.match.instruction_fates import Fate, ProgramChange
from jaxlens.program.fusion_change import recomputed
from jaxlens.program.sentences import fusion_kind, lines_of, listed
from jaxlens.render.document import Diff, DiffGroup, DiffRow, Line, Piece
from jaxlens.report import count
from jaxlens.views.listings.hlo import instructions
from jaxlens.views.listings.hlo_pieces import short_type
from jaxlens.views.passes.rows import origins, successor

_MOST = 600  # maximum number of rows; the others are only counted
_OTHERS = (
    ("rewritten", "Rewritten", True),
    ("merged", "Merged: another instruction computes the same", True),
    ("folded", "Folded into constants", True),
    ("removed", "Removed", True),
)


def diff(
    change: ProgramChange,
    left: str,
    right: str,
    note: str = "",
    full: bool = False,
    inputs: Sequence[Input] = (),
) -> Diff:
    """Returns the diff of a change, in groups.

    Args:
        change: The fates of all instructions.
        left: Title of the program before.
        right: Title of the program after.
        note: A note on the comparison.
        full: Whether to leave nothing out.
        inputs: The inputs of the program.
    """
    columns = _Columns(change, full, inputs)
    groups, left_out = _bounded(columns.groups(), full)
    constants = "Constants inside fusions are left out." if columns.hides() else ""
    cut = f"{count(left_out, 'more row')} left out: full=True shows all." if left_out else ""
    notes = [note, constants, cut]
    return Diff(left, right, tuple(groups), " ".join(filter(None, notes)))


@dataclass(frozen=True, slots=True)
class _Group:
    """A group whose title and rows are made only if it is shown; a maker makes one row."""

    title: Callable[[], str]
    makers: Sequence[Callable[[], DiffRow]]
    open: bool = True


def _bounded(groups: Iterator[_Group], full: bool) -> tuple[list[DiffGroup], int]:
    """Returns the groups within `_MOST` rows, and the number of other rows, which are not made."""
    shown: list[DiffGroup] = []
    room, left_out = _MOST, 0
    for group in groups:
        makers = group.makers if full else group.makers[:room]
        room -= len(makers)
        left_out += len(group.makers) - len(makers)
        if makers:
            rows = tuple(make() for make in makers)
            shown.append(DiffGroup(group.title(), rows, group.open))
    return shown, left_out


class _Columns:
    """The instructions of both programs by id, and the groups that they belong to."""

    def __init__(self, change: ProgramChange, full: bool, inputs: Sequence[Input]) -> None:
        self.change = change
        self.full = full
        self.old = {node.id: node for node in change.before.nodes()}
        self.new = {node.id: node for node in change.after.nodes()}
        self.left = instructions(change.before, inputs, brief=not full)
        self.right = instructions(change.after, inputs, brief=not full)
        self.again = recomputed(change)
        self.origins = origins(change)
        self.shown_in: dict[str, str] = {}  # first fusion that shows a recomputed value, by id

    def groups(self) -> Iterator[_Group]:
        """Yields the groups of fusions, then of other changes, then of unchanged instructions."""
        yield from self._fusions()
        yield from self._changes()
        rows = [
            partial(self._same, fate)
            for fate in self.change.fates.values()
            if fate.name == "same" and self.old[fate.id].opcode != "parameter"
        ]
        title = f"The same ({len(rows):,}, parameters not counted)"
        yield _Group(partial(str, title), rows, open=False)

    def _fusions(self) -> Iterator[_Group]:
        """Yields a group for each fusion that is new or has newly fused instructions."""
        alone: dict[str, str] = {}
        for fusion in self._by_bytes():
            inner = self.change.contents[fusion]
            if all(self._was_inside(id, fusion) for id in inner):
                continue
            computed = [id for id in inner if self.new[id].opcode != "constant"]
            if not self.full and len(inner) == len(computed) == 1 and inner[0] in self.origins:
                alone[fusion] = inner[0]
                continue
            rows = [partial(self._fused, id, fusion) for id in inner if self._shown(id)]
            head = partial(self._right, fusion, "")
            yield _Group(partial(self._title, fusion, inner), [head, *rows])
        if alone:
            title = f"A fusion of its own each ({len(alone):,})"
            rows = [partial(self._wrapped, fusion, id) for fusion, id in alone.items()]
            yield _Group(partial(str, title), rows)

    def _by_bytes(self) -> list[str]:
        """Returns the fusions by the bytes that they move in all their runs, most first."""
        after = self.change.after
        traffic, moved = Traffic(after), dict.fromkeys(self.change.contents, 0)
        for name, often in runs(after).items():
            for node in after.regions[name].nodes:
                if node.id in moved:
                    moved[node.id] = traffic.alone(node) * often.times
        return sorted(moved, key=lambda id: -moved[id])

    def _right(self, id: str, fate: str) -> DiffRow:
        return DiffRow(None, self.right[id], fate)

    def _wrapped(self, fusion: str, id: str) -> DiffRow:
        origin = self.origins[id]
        by = f"by {origin.by}" if origin.by else ""
        return DiffRow(self.left[origin.id], self.right[fusion], "fused", by)

    def hides(self) -> bool:
        """Returns whether any instruction inside a fusion is not shown."""
        return not all(map(self._shown, chain.from_iterable(self.change.contents.values())))

    def _shown(self, id: str) -> bool:
        return self.full or self.new[id].opcode != "constant"

    def _title(self, fusion: str, inner: Sequence[str]) -> str:
        """Returns `add_fusion f32[8]: loop, 3 operations from cell 3:4, by fusion`."""
        node = self.new[fusion]
        nodes = [self.new[id] for id in inner]
        n = sum(inside.opcode != "constant" for inside in nodes)
        lines = listed(lines_of(nodes))
        origins = [self.origins[id] for id in inner if id in self.origins]
        passes = Counter(origin.by for origin in origins if origin.by).most_common(1)
        parts = [fusion_kind(node), count(n, "operation") + (f" from {lines}" if lines else "")]
        parts += [f"by {name}" for name, _ in passes]
        return f"{fusion} {short_type(node.type)}: {', '.join(filter(None, parts))}"

    def _was_inside(self, id: str, fusion: str) -> bool:
        origin = self.origins.get(id)
        return origin is not None and self.change.fusion_before.get(origin.id) == fusion

    def _fused(self, id: str, fusion: str) -> DiffRow:
        origin = self.origins.get(id)
        if origin is None:
            return self._right(id, "added")
        note = ""
        if origin.id in self.again and not self.full:
            first = self.shown_in.setdefault(origin.id, fusion)
            if first != fusion:
                return DiffRow(None, self.right[id], "fused", f"again, as in {first}")
        if origin.id in self.again:
            places = dict.fromkeys(place or "outside" for place in origin.fusions)
            note = f"computed in {listed([place for place in places if place != fusion])} too"
        elif origin.once and len({*origin.fusions}) > 1:  # an asynchronous collective
            note = f"one, from {origin.fusions[0]} to {origin.fusions[-1]}"
        left, right = self.left[origin.id], self.right[id]
        fate = "same" if self._was_inside(id, fusion) else "fused"
        return DiffRow(left, right if self.full else _beside(left, right), fate, note)

    def _changes(self) -> Iterator[_Group]:
        """Yields groups of instructions rewritten, merged, folded, removed or added elsewhere."""
        fates: defaultdict[str, list[Fate]] = defaultdict(list)
        for fate in self.change.fates.values():
            fates[fate.name].append(fate)
        for name, title, is_open in _OTHERS:
            rows = [partial(self._changed, fate) for fate in fates[name]]
            yield _Group(partial(str, f"{title} ({len(rows):,})"), rows, is_open)
        rows = [
            partial(self._right, id, "added")
            for id in self.change.added
            if id not in self.change.fusion_after and id not in self.change.contents
        ]
        yield _Group(partial(str, f"Added ({len(rows):,})"), rows)

    def _changed(self, fate: Fate) -> DiffRow:
        right = self.right[fate.into[0]] if fate.into else None
        by = f"by {fate.by}" if fate.by and not fate.by.startswith("after") else fate.by
        note = ", ".join(filter(None, (fate.note, by)))
        return DiffRow(self.left[fate.id], right, fate.name, note)

    def _same(self, fate: Fate) -> DiffRow:
        """Returns the row of an unchanged instruction, with one side if only its name differs."""
        left, right = self.left[fate.id], self.right[successor(fate)]
        if self.full or _unnamed(left) != _unnamed(right):
            return DiffRow(left, right, "same")
        return DiffRow(left, None, "same", fate.note)


def _beside(left: Line, right: Line) -> Line:
    """Returns the right line as its name if its type, attributes and opcode are as on the left."""
    if _kinds(left, ("type", "attr", "op")) != _kinds(right, ("type", "attr", "op")):
        return right
    return Line((Piece(right.id, "name"),), right.id, right.indent, right.line)


def _kinds(line: Line, kinds: Sequence[str]) -> list[Piece]:
    return [piece for piece in line.pieces if piece.kind in kinds]


def _unnamed(line: Line) -> tuple[Piece, ...]:
    """Returns the pieces of an instruction's line without its name."""
    return tuple(p for p in line.pieces if not (p.kind == "name" and p.text == line.id))
