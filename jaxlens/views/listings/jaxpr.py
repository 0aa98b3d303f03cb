"""Renders a jaxpr as lines in JAX's notation, nested jaxprs in place.

A jaxpr that several equations use is written out at its first use, and by name after that.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from jaxlens.ir.columns import columns
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.jaxpr.pallas import BLOCK, INDEX_MAP
from jaxlens.ir.jaxpr.user_names import UserNames
from jaxlens.render.document import Line, Listing, Piece
from jaxlens.render.html.lazy_lines import listed
from jaxlens.report import count
from jaxlens.views.listings.equation import equation, left, operands, params, scope
from jaxlens.views.listings.jaxpr_heads import binders, named_inputs, results
from jaxlens.views.listings.lines_by_id import LinesById

_WORD = re.compile(r"\w{1,40}$")
_LONGEST = 40  # characters of a field's name
LIMIT = 400  # lines in the page; a viewer renders the others on scrolling


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive equations of a region, from `low` to before `high`, on one line each."""

    region: Region
    low: int
    high: int
    indent: int


@dataclass(frozen=True, slots=True)
class Page:
    """Data shared by the lines of one listing.

    Attributes:
        module: The program.
        lines: Equations on one line, by id.
        shared: Names of the regions that several equations use.
        calls: Names of the nested regions, by region and step.
    """

    module: Module
    lines: LinesById
    shared: frozenset[str]
    calls: Mapping[str, Mapping[int, tuple[str, ...]]]


Steps: TypeAlias = "Iterator[Line | Stretch | Steps]"
"""Lines, runs of equations, and nested iterators of the same."""


def listing(
    module: Module,
    *,
    inputs: Sequence[str] = (),
    captured: Sequence[str] = (),
    limit: int = LIMIT,
    lines: LinesById | None = None,
    head: int | None = None,
) -> Listing:
    """Returns the listing of a whole jaxpr.

    Args:
        module: A jaxpr.
        inputs: Names of the entry's inputs ("params['w']"), without captured constants.
        captured: Names of the captured constants.
        limit: Maximum number of lines before `more`.
        lines: Result of `equations` for the module, to reuse.
        head: Number of lines before `more`, where it is less than what the note counts from.

    Returns:
        Lines with the ids of their equations; the first and last line of an equation with
        nested jaxprs both have its id. Lines beyond the limit are made on first use.
    """
    called = {name: region.calls for name, region in columns(module).regions.items()}
    regions = (names for inside in called.values() for names in inside.values())
    uses = Counter(chain.from_iterable(regions))
    shared = frozenset(name for name, n in uses.items() if n > 1)
    page = Page(module, lines or equations(module), shared, called)
    rows = list(_all_rows(page, inputs, captured))
    total = sum(row.high - row.low if isinstance(row, Stretch) else 1 for row in rows)
    left = module.size - len({line.id for line in islice(_written(page, rows), limit) if line.id})
    note = f"{count(left, 'more equation')}: cap.jaxpr.text has them all" if left else ""
    shown = min(limit if head is None else head, limit, total)
    return listed("jaxpr", total, shown, lambda: _written(page, rows), note)


def equations(module: Module, names: UserNames | None = None) -> LinesById:
    """Returns every equation on one line, by id; `names` are those of the values to show."""
    return LinesById(module, equation, names or UserNames(module))


def _written(page: Page, rows: Sequence[Line | Stretch]) -> Iterator[Line]:
    """Yields the lines, those of a stretch one by one."""
    for row in rows:
        if isinstance(row, Line):
            yield row
            continue
        for step in range(row.low, row.high):
            line = page.lines.at(row.region, step)
            yield Line(line.pieces, line.id, row.indent, line.line)


def _all_rows(
    page: Page, inputs: Sequence[str], captured: Sequence[str]
) -> Iterator[Line | Stretch]:
    """Yields all lines; nested jaxprs are walked with a stack of generators, not recursion."""
    yield from named_inputs(page.module, inputs, captured)
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


def _body(
    page: Page, region: Region, indent: int, start: list[Piece], node: str, written: set[str]
) -> Steps:
    """Yields the lines of one jaxpr: `{ lambda ; a:f32[]. let`, equations, `in (b,) }`."""
    written.add(region.name)
    owner = page.lines.owner(node)
    if region.name in page.shared:
        start = [*start, Piece(region.name, "keyword"), Piece(" = ")]
    # The entry's are above it, in comments of their own.
    own = {} if region.name == page.module.entry else page.lines.called(region.name)
    rows = binders(region, sum(len(piece.text) for piece in start) + 9, own)
    for index, row in enumerate(rows):
        head = [*start, Piece("{ "), Piece("lambda ", "keyword")] if index == 0 else []
        tail = [Piece(". "), Piece("let", "keyword")] if index == len(rows) - 1 else []
        yield Line((*head, *row, *tail), node, indent + 2 * (index > 0), owner)
    low = 0
    for step, called in page.calls[region.name].items():
        if all(name in written for name in called):
            continue  # on one line, like an equation without nested jaxprs
        yield Stretch(region, low, step, indent + 1)
        yield _nested(page, region, step, indent + 1, written)
        low = step + 1
    yield Stretch(region, low, len(region.nodes), indent + 1)
    yield Line((Piece("in ", "keyword"), *results(region)), node, indent, owner)


def _nested(page: Page, region: Region, step: int, indent: int, written: set[str]) -> Steps:
    """Yields an equation's lines: `c:f32[] = scan[length=8`, nested jaxprs, `] a b`."""
    node = region.nodes[step]
    owner, called = page.lines.owner(node.id), page.lines.results(region.name, step)
    plain = {k: v for k, v in node.attrs.items() if not _refers(k, v, node.regions)}
    blocks = {key: plain.pop(key) for key in list(plain) if key.endswith(BLOCK)}
    first = params(node, plain, close=False) or [Piece("[")]
    yield Line((*left(node, called), Piece(node.opcode, "op"), *first), node.id, indent, owner)
    for label, name in _labels(node):
        start = [Piece(f"{label}=", "attr")]
        block = label.removesuffix(INDEX_MAP) + BLOCK
        if block in blocks:
            start = [Piece(f"{block}={blocks[block]} ", "attr"), *start]
        if name in written:
            yield Line((*start, Piece(name, "keyword")), node.id, indent + 1, owner)
        else:
            inner = page.module.regions[name]
            yield _body(page, inner, indent + 1, start, node.id, written)
    yield Line((Piece("]"), *operands(node), *scope(node)), node.id, indent, owner)


def _labels(node: Node) -> Iterator[tuple[str, str]]:
    """Yields label and region name of each nested jaxpr; "branches[0]" if one of several."""
    waiting = list(node.regions)
    for key, value in node.attrs.items():
        inside = [name for name in waiting if _refers(key, value, (name,))]
        for index, name in enumerate(inside):
            waiting.remove(name)
            yield (key if len(inside) == 1 else f"{key}[{index}]"), name
    places: dict[str, int] = {}
    for name in waiting:
        yield _field(node, name, places), name


def _field(node: Node, name: str, places: dict[str, int]) -> str:
    """Returns the field whose value is a jaxpr: `solve` for g in `Solve(matvec=f, solve=g)`.

    `places` has the end of the last such field by parameter: a jaxpr can be in several fields.
    """
    for key, value in node.attrs.items():
        start = value.find(f"={name}", places.get(key, 0))
        end = start + 1 + len(name)
        if start > 0 and value[end : end + 1] in (",", ")", "]", "}"):
            places[key] = end
            field = _WORD.search(value, max(0, start - _LONGEST), start)
            return field[0] if field else key
    return "jaxpr"


def _refers(key: str, value: str, names: Sequence[str]) -> bool:
    """Returns whether a parameter's text is one of these region names, or a tuple with one."""
    if key == "name":  # the callee's name, which its region often has too
        return False
    if value in names:
        return True
    return value.startswith("(") and any(n in names for n in value.strip("(),").split(", "))
