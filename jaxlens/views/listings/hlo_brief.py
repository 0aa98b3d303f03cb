"""Renders HLO in short lines, without the folded pieces, for diffs and for panes.

A program has few distinct types and attribute texts, so the rows for the viewer's script mark up
each of those once. A line that `printed` cannot split is marked up through its `Line`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.lazy_module import stamped
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line, Listing, Piece
from jaxlens.render.html.lazy_lines import (
    FIRST_WORD,
    LazyLines,
    Row,
    head_first,
    row_folds,
    row_of,
)
from jaxlens.render.html.marks import MARKS, marked
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings.hlo import Plan, lean
from jaxlens.views.listings.hlo_folds import operands
from jaxlens.views.listings.hlo_pieces import (
    IN_BRACKETS,
    attribute_pieces,
    behind_pieces,
    called,
    literal,
    printed,
    shape_pieces,
)
from jaxlens.views.listings.lines_by_id import LinesById

_IN_GROUP = ("calls=", "kind=")  # a diff lists the fused instructions under the fusion
_PLACE = {False: "  ", True: f"  {MARKS['keyword']}ROOT \0"}
_OP = MARKS["op"]


def instructions(
    module: Module, full: bool = False, inputs: Sequence[Input] = ()
) -> Mapping[str, Line]:
    """Returns the line of every instruction, by id.

    Args:
        module: An HLO module.
        full: Whether to keep folded pieces.
        inputs: The inputs of its program.
    """
    if full:
        return hlo_lines.instructions(module, inputs)
    return LinesById(module, partial(_instruction, names=hlo_lines.names_of(module, inputs)))


def _instruction(node: Node, owner: str, names: Mapping[str, str]) -> Line:
    line = lean(hlo_lines.instruction(node, owner, names=names))
    pieces = (p for p in line.pieces if not p.text.lstrip(", ").startswith(_IN_GROUP))
    return Line(tuple(pieces), line.id, line.indent, line.line)


def listing(module: Module, limit: int, inputs: Sequence[Input] = ()) -> Listing:
    """Returns the listing of an HLO module, with at most `limit` lines before `more`."""
    plan = Plan(module, brief=True, inputs=inputs)
    head = min(limit, plan.in_sight)

    def lines() -> Iterator[Line]:
        return map(lean, head_first(plan.lines(), head, lambda line: line.folds))

    def write() -> Iterator[Row]:
        return head_first(rows(plan), head, row_folds)

    option = f"%%hlo --stage {module.stage}" if module.stage in ("hlo", "optimized") else "--full"
    note = f"Metadata and layouts are left out: {option} has them."
    more = LazyLines(plan.total - head, lines, write, head)
    return Listing(module.stage, tuple(islice(lines(), head)), note, more or ())


def rows(plan: Plan) -> Iterator[Row]:
    """Yields the row of every line of a plan, without folded pieces."""
    types: dict[str, str] = {}
    attrs: dict[str, str] = {}
    for part in plan.parts():
        if isinstance(part, Line):
            yield row_of(lean(part))
            continue
        node = part.node
        text = printed(stamped(node))  # the text with the stamps, which are in the metadata
        if text is None:
            yield row_of(lean(part.line()))
            continue
        shape, inside, before, after, _ = text
        rest = before + after
        if shape not in types:
            types[shape] = _marked(shape_pieces(shape))
        if rest not in attrs:
            attrs[rest] = _marked(attribute_pieces(rest))
        if node.opcode in IN_BRACKETS:
            value = _marked(literal(inside.strip()))
            inside = f"{value}\0" if value else ""
        else:
            inside = visible(operands(node, part.names))
        user = called(node, part.names)
        own = f"{_marked(user)}\0" if user else ""
        more = _marked(behind_pieces(part.inner)) if part.inner else ""
        yield (
            f"{_PLACE[part.root]}{node.id}{own} = {types[shape]}\0 {_OP}{node.opcode}\0({inside})"
            f"{attrs[rest]}{more}",
            FIRST_WORD,
            part.owner,
        )


def _marked(pieces: Sequence[Piece]) -> str:
    return marked(lean(Line(tuple(pieces))))
