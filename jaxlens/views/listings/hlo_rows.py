"""Lines of an HLO listing written out for scripts, most of them from what XLA printed.

A program has few types and few texts of attributes, so each of those is marked once. What is not
printed as XLA prints most is written from its `Line`.
"""

from collections.abc import Iterator, Sequence

from jaxlens.ir.hlo.lazy_module import stamped
from jaxlens.render.document import Line, Piece
from jaxlens.render.html.lazy_lines import FIRST_WORD, Row, row_of
from jaxlens.render.html.marks import MARKS, marked
from jaxlens.views.listings.hlo import Plan, lean
from jaxlens.views.listings.hlo_pieces import (
    IN_BRACKETS,
    attribute_pieces,
    behind_pieces,
    literal,
    printed,
    shape_pieces,
)

_PLACE = {False: "  ", True: f"  {MARKS['keyword']}ROOT \0"}
_OP = MARKS["op"]


def rows(plan: Plan) -> Iterator[Row]:
    """Every line of a plan without its folded pieces, written out."""
    types: dict[str, str] = {}
    attrs: dict[str, str] = {}
    for part in plan.parts():
        if isinstance(part, Line):
            yield row_of(lean(part))
            continue
        node = part.node
        text = printed(stamped(node))  # stamps are in the metadata
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
            inside = ", ".join(node.operands)
        more = _marked(behind_pieces(part.inner)) if part.inner else ""
        yield (
            f"{_PLACE[part.root]}{node.id} = {types[shape]}\0 {_OP}{node.opcode}\0({inside})"
            f"{attrs[rest]}{more}",
            FIRST_WORD,
            part.owner,
        )


def _marked(pieces: Sequence[Piece]) -> str:
    return marked(lean(Line(tuple(pieces))))
