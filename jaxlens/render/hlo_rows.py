"""Lines of an HLO listing written out for scripts, most of them from what XLA printed.

A program has few types and few texts of attributes, so each of those is marked once. What is not
printed as XLA prints most is written from its `Line`.
"""

import re
from collections.abc import Iterator, Sequence

from jaxlens.ir.graph import Type
from jaxlens.ir.hlo_text import attributes, read_type
from jaxlens.render.document import Line, Piece
from jaxlens.render.hlo_lines import (
    IN_BRACKETS,
    Plan,
    attribute,
    behind,
    lean,
    literal,
    type_pieces,
)
from jaxlens.render.html_marks import MARKS, marked
from jaxlens.render.late_lines import FIRST_WORD, Row, row_of

_PLACE = {False: "  ", True: f"  {MARKS['keyword']}ROOT \0"}
_OP = MARKS["op"]
_ARRAY = r'[a-z][a-z0-9]*\[[^\]"]*\](?:\{[^{}"]*\})?'
_TUPLE = r'\((?:[^()"]++|\([^()"]*\))*\)'
_HEAD = re.compile(
    rf"""(?:ROOT )?%?[^\s=()"{{}}\[\],]+ = ({_ARRAY}|{_TUPLE}) [a-z][\w\-]*\(([^()"]*)\)"""
)
_METADATA = re.compile(r', metadata=\{op_name="[^"\\]*"(?: \w+=(?:\d+|"[^"\\]*"))*\}')


def rows(plan: Plan) -> Iterator[Row]:
    """Every line of a plan without its folded pieces, written out."""
    types: dict[str, str] = {}
    attrs: dict[str, str] = {}
    for part in plan.parts():
        if isinstance(part, Line):
            yield row_of(lean(part))
            continue
        node = part.node
        text = printed(node.text)
        if text is None:
            yield row_of(lean(part.line()))
            continue
        shape, inside, rest = text
        if shape not in types:
            types[shape] = _marked(type_pieces(read_type(shape) or Type(shape)))
        if rest not in attrs:
            found = attributes(rest.strip().removeprefix(","))
            attrs[rest] = _marked([attribute(key, value) for key, value in found.items()])
        if node.opcode in IN_BRACKETS:
            value = _marked(literal(inside.strip()))
            inside = f"{value}\0" if value else ""
        else:
            inside = ", ".join(node.operands)
        more = _marked(behind(part.inner)) if part.inner else ""
        yield (
            f"{_PLACE[part.root]}{node.id} = {types[shape]}\0 {_OP}{node.opcode}\0({inside})"
            f"{attrs[rest]}{more}",
            FIRST_WORD,
            part.owner,
        )


def _marked(pieces: Sequence[Piece]) -> str:
    return marked(lean(Line(tuple(pieces))))


def printed(text: str) -> tuple[str, str, str] | None:
    """An instruction's type, what is in its brackets, and its attributes without metadata.

    Returns:
        None where it is not printed as XLA prints most: in ASCII, and without brackets or quotes
        in the brackets or quotes before the metadata.
    """
    head = _HEAD.match(text)
    if head is None or not (text.isascii() and text.isprintable()):
        return None
    shape, inside = head.groups()
    end, quote = head.end(), text.find('"', head.end())
    if quote < 0:
        return shape, inside, text[end:]
    metadata = _METADATA.match(text, text.rfind(", metadata={", end, quote))
    if metadata is None:
        return None
    return shape, inside, text[end : metadata.start()] + text[metadata.end() :]
