"""A jaxpr as lines in JAX's own notation, nested bodies in place.

A body that several equations use is written once, under its name, and named after that.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TypeAlias, overload

from jaxlens.ir.columns import ColumnsModule, calls
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.lenses.report import count
from jaxlens.render.document import Line, Listing, Piece
from jaxlens.render.equation_lines import binder, equation, left, operands, params, scope, shown
from jaxlens.render.lines_by_id import LinesById
from jaxlens.render.taken import root_name

LIMIT = 400  # lines at once; the others are made when somebody scrolls to them
_WIDTH = 96  # characters after which a list of variables goes on in the next line
_MANY = 24  # inputs named one by one, and results
_FEW = 8  # rows of inputs that are shown whole; results where there are many


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring equations that take one line each."""

    region: Region
    low: int
    high: int
    indent: int


Steps: TypeAlias = "Iterator[Line | Stretch | Steps]"
"""Lines, runs of lines, and further steps that stand where they come."""


@dataclass(frozen=True, slots=True)
class _Page:
    """What all lines of one listing need to know."""

    module: Module
    known: LinesById
    shared: frozenset[str]
    calls: Mapping[str, Mapping[int, tuple[str, ...]]]


class Rows(Sequence[Line]):
    """All lines of a listing; those of equations without new bodies are made when looked at."""

    def __init__(self, page: _Page, rows: Iterable[Line | Stretch], first: int = 0) -> None:
        self._page = page
        self._rows = list(rows)
        self._first = first
        sizes = (row.high - row.low if isinstance(row, Stretch) else 1 for row in self._rows)
        self._starts = [0, *accumulate(sizes)]

    def after(self, first: int) -> "Rows":
        """The lines from `first` on."""
        later = copy(self)
        later._first = self._first + first
        return later

    @property
    def module(self) -> Module:
        """The program."""
        return self._page.module

    def stretches(self, count: int) -> Iterator[Line | Stretch]:
        """The first `count` of these lines, the equations among them not made."""
        end = self._first + count
        for start, row in zip(self._starts, self._rows, strict=False):
            if start >= end:
                return
            if isinstance(row, Line):
                if start >= self._first:
                    yield row
                continue
            low = row.low + max(0, self._first - start)
            high = min(row.high, row.low + end - start)
            if low < high:
                yield Stretch(row.region, low, high, row.indent)

    def __len__(self) -> int:
        return max(0, self._starts[-1] - self._first)

    @overload
    def __getitem__(self, place: int) -> Line: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Line, ...]: ...
    def __getitem__(self, place: int | slice) -> Line | tuple[Line, ...]:
        if isinstance(place, slice):
            return tuple(self._line(n) for n in range(*place.indices(len(self))))
        index = place + len(self) if place < 0 else place
        if not 0 <= index < len(self):
            raise IndexError(place)
        return self._line(index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(len(self))

    def place(self, id: str) -> int | None:
        """Which of these lines is the first with a node's id; None for none."""
        where = _where(self._page.module, id)
        if where is None:
            return None
        region, step = where
        for start, row in zip(self._starts, self._rows, strict=False):
            if isinstance(row, Line):
                found = start if row.id == id else None
            else:
                mine = row.region.name == region and row.low <= step < row.high
                found = start + step - row.low if mine else None
            if found is not None and found >= self._first:
                return found - self._first
        return None

    def _line(self, index: int) -> Line:
        place = bisect_right(self._starts, index + self._first) - 1
        row = self._rows[place]
        if isinstance(row, Line):
            return row
        step = row.low + index + self._first - self._starts[place]
        line = self._page.known.at(row.region, step)
        return Line(line.pieces, line.id, row.indent, line.line)


def _where(module: Module, id: str) -> tuple[str, int] | None:
    """Region and step of a node."""
    if isinstance(module, ColumnsModule):
        try:
            return module.locate(id)
        except KeyError:
            return None
    every = (
        (r.name, n) for r in module.regions.values() for n, e in enumerate(r.nodes) if e.id == id
    )
    return next(every, None)


def listing(
    module: Module,
    *,
    inputs: Sequence[str] = (),
    captured: Sequence[str] = (),
    limit: int = LIMIT,
    known: LinesById | None = None,
) -> Listing:
    """The whole program.

    Args:
        module: A jaxpr.
        inputs: Names of the entry's inputs ("params['w']"), captured constants not counted.
        captured: Names of the captured constants.
        limit: Most lines.
        known: What `equations` gave for the module, if it was asked before.

    Returns:
        Lines with the ids of their equations; the lines that open and close an equation
        with bodies both have its id. Lines beyond the limit are made when looked at.
    """
    page = _page(module, known or equations(module))
    rows = Rows(page, _all_rows(page, inputs, captured))
    kept = rows[:limit]
    total = sum(len(region.nodes) for region in module.regions.values())
    left = total - len({line.id for line in kept if line.id})
    note = f"{count(left, 'more equation')}: cap.jaxpr.text has them all" if left else ""
    return Listing("jaxpr", kept, note, rows.after(limit) if limit < len(rows) else ())


def equations(module: Module) -> LinesById:
    """Every equation on one line, by id."""
    return LinesById(module, equation)


def _page(module: Module, known: LinesById) -> _Page:
    called = calls(module)
    uses = Counter(
        inner for inside in called.values() for regions in inside.values() for inner in regions
    )
    return _Page(module, known, frozenset(name for name, n in uses.items() if n > 1), called)


def _all_rows(
    page: _Page, inputs: Sequence[str], captured: Sequence[str]
) -> Iterator[Line | Stretch]:
    """Bodies are entered through a stack, so that nesting costs no recursion."""
    yield from _named_inputs(page.module, inputs, captured)
    written: set[str] = set()
    stack: list[Steps] = [_body(page, page.module.body(), 0, [], "", written)]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
        elif isinstance(step, Line | Stretch):
            yield step
        else:
            stack.append(step)


def _named_inputs(
    module: Module, inputs: Sequence[str], captured: Sequence[str]
) -> Iterator[Line]:  # fmt: skip
    """Says which letter is which input, and which are captured constants."""
    names = [value.name for value in module.body().parameters]
    split = _constants(module)
    pairs: list[tuple[str, str]] = []
    if len(inputs) == len(names) - split:
        pairs = list(zip(names[split:], inputs, strict=True))
    if len(captured) != split:
        captured = [""] * split
    words = [
        f"{name} = {full} (captured)" if full else f"{name} captured"
        for name, full in zip(names, captured, strict=False)
    ]
    words += _by_argument(pairs) if len(pairs) > _MANY else [f"{n} = {full}" for n, full in pairs]
    rows = _wrapped([[Piece(f"{word}, ")] for word in words])
    for row in rows:
        text = "".join(piece.text for piece in row).rstrip(", ")
        more: list[Piece] = []
        if row is rows[-1] and len(pairs) > _MANY:
            every = ", ".join(f"{name} = {full}" for name, full in pairs)
            more = [Piece(f"; one by one: {every}", "fold")]
        yield Line((Piece(f"# {text}", "comment"), *more))


def _by_argument(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """`a to z = params (26 arrays)` for each run of inputs of one argument."""
    for root, run in groupby(pairs, lambda pair: root_name(pair[1])):
        names = [name for name, _ in run]
        if len(names) == 1:
            yield f"{names[0]} = {root}"
        else:
            yield f"{names[0]} to {names[-1]} = {root} ({len(names)} arrays)"


def _body(
    page: _Page, region: Region, indent: int, start: list[Piece], node: str, written: set[str]
) -> Steps:
    """`{ lambda ; a:f32[]. let`, the equations, `in (b,) }`."""
    written.add(region.name)
    owner = page.known.owner(node)
    if region.name in page.shared:
        start = [*start, Piece(region.name, "keyword"), Piece(" = ")]
    split = _constants(page.module) if region.name == page.module.entry else 0
    binders = [[*binder(value), Piece(" ")] for value in region.parameters]
    if split:
        binders[split - 1].pop()
    groups = [*binders[:split], [Piece("; ")], *binders[split:]]
    rows = _headed(_wrapped(groups, sum(len(piece.text) for piece in start) + 9))
    for index, row in enumerate(rows):
        head = [*start, Piece("{ "), Piece("lambda ", "keyword")] if index == 0 else []
        tail = [Piece(". "), Piece("let", "keyword")] if index == len(rows) - 1 else []
        yield Line(
            (*head, *_trimmed(row, bool(tail)), *tail), node, indent + 2 * (index > 0), owner
        )
    low = 0
    for step, called in page.calls[region.name].items():
        if all(name in written for name in called):
            continue  # on one line, like an equation without bodies
        yield Stretch(region, low, step, indent + 1)
        yield _nested(page, region.nodes[step], indent + 1, written)
        low = step + 1
    yield Stretch(region, low, len(region.nodes), indent + 1)
    yield Line((Piece("in ", "keyword"), *_results(region)), node, indent, owner)


def _results(region: Region) -> list[Piece]:
    """`(a, b) }`, those beyond a few folded."""
    names = list(map(shown, region.results))
    if len(names) <= _MANY:
        return [Piece(f"({', '.join(names)}{',' if len(names) == 1 else ''}) }}")]
    few, rest = ", ".join(names[:_FEW]), ", ".join(names[_FEW:])
    more = Piece(f", ... {len(names) - _FEW:,} more", "comment")
    return [Piece(f"({few}"), more, Piece(f": {rest}", "fold"), Piece(") }")]


def _headed(rows: list[list[Piece]]) -> list[list[Piece]]:
    """The rows of many inputs as a few: a train step's parameters would fill a page."""
    if len(rows) <= _FEW:
        return rows
    rest = [piece for row in rows[2:] for piece in row]
    inputs = sum(piece.kind == "name" for piece in rest)
    words = "".join(piece.text for piece in rest).strip()
    return [*rows[:2], [Piece(f"... {inputs:,} more ", "comment"), Piece(words, "fold")]]


def _nested(page: _Page, node: Node, indent: int, written: set[str]) -> Steps:
    """`c:f32[] = scan[length=8`, the bodies, `] a b`."""
    owner = page.known.owner(node.id)
    plain = {k: v for k, v in node.attrs.items() if not _refers(k, v, node.regions)}
    first = params(node, plain, close=False) or [Piece("[")]
    yield Line((*left(node), Piece(node.opcode, "op"), *first), node.id, indent, owner)
    for label, name in _labels(node):
        start = [Piece(f"{label}=", "attr")]
        if name in written:
            yield Line((*start, Piece(name, "keyword")), node.id, indent + 1, owner)
        else:
            inner = page.module.regions[name]
            yield _body(page, inner, indent + 1, start, node.id, written)
    yield Line((Piece("]"), *operands(node), *scope(node)), node.id, indent, owner)


def _labels(node: Node) -> Iterator[tuple[str, str]]:
    """Parameter name and region name, in order; "branches 0" where one holds several."""
    waiting = list(node.regions)
    for key, value in node.attrs.items():
        inside = [name for name in waiting if _refers(key, value, (name,))]
        for index, name in enumerate(inside):
            waiting.remove(name)
            yield (key if len(inside) == 1 else f"{key}[{index}]"), name
    for name in waiting:
        yield "jaxpr", name


def _refers(key: str, value: str, names: Sequence[str]) -> bool:
    """Whether a parameter's text is that of these regions: the name, or a tuple of names."""
    if key == "name":  # of the callee; its body often has the same
        return False
    if value in names:
        return True
    return value.startswith("(") and any(n in names for n in value.strip("(),").split(", "))


def _constants(module: Module) -> int:
    return len(module.attrs.get("constants", "").split())


def _wrapped(groups: Sequence[list[Piece]], start: int = 2) -> list[list[Piece]]:
    """Groups of pieces in rows of bounded width."""
    rows: list[list[Piece]] = []
    width = _WIDTH + 1
    for group in groups:
        size = sum(len(piece.text) for piece in group)
        if width + size > _WIDTH:
            rows.append([])
            width = start
        rows[-1] += group
        width += size
    return rows


def _trimmed(row: list[Piece], last: bool) -> list[Piece]:
    """Without the space before the full stop."""
    return row[:-1] if last and row and row[-1].text == " " else row
