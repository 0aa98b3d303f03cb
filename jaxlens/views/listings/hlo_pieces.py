"""Splits an HLO instruction into pieces, in XLA's notation.

Metadata, layouts, backend configurations, shardings and long types and literals are folded. A
program has few distinct types and attribute texts, so their pieces are cached by text.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from jaxlens.ir.graph import Node, Type
from jaxlens.ir.hlo.text import CALLS, attributes, read_type
from jaxlens.render.document import Kind, Piece
from jaxlens.views.listings.hlo_folds import is_long, operands

_LONG_TYPE = 48  # characters; longer types are folded
_LONG_VALUE, _LONGEST_VALUE = 60, 400
_LITERAL = 40
_FOLDED = frozenset(
    "metadata backend_config frontend_attributes sharding operand_precision statistics origin "
    "original_value is_scheduled custom_call_schedule".split()
)
IN_BRACKETS = {"constant": "literal", "parameter": "index"}
_ARRAY = r'[a-z][a-z0-9]*\[[^\]"]*\](?:\{[^{}"]*\})?'
_TUPLE = r'\((?:[^()"]++|\([^()"]*\))*\)'
_HEAD = re.compile(
    rf"""(?:ROOT )?%?[^\s=()"{{}}\[\],]+ = ({_ARRAY}|{_TUPLE}) [a-z][\w\-]*\(([^()"]*)\)"""
)
_METADATA = re.compile(r', metadata=\{(op_name="[^"\\]*"(?: \w+=(?:\d+|"[^"\\]*"))*)\}')
_EQUALS, _SPACE, _OPEN, _CLOSE = Piece(" = "), Piece(" "), Piece("("), Piece(")")


def instruction_pieces(node: Node, names: Mapping[str, str]) -> list[Piece]:
    """Returns the pieces of `name = type opcode(operands), attributes`.

    Args:
        node: The instruction.
        names: What the user's code calls the program's parameters, by id: a parameter's line has
            both, `params__w__.1 (params['w'])`, and other lines the user's.
    """
    parts = printed(node.text)
    if parts is None or parts[3].strip():
        return _read(node, names)
    shape, inside, before, _, metadata = parts
    key = node.opcode in IN_BRACKETS
    return [
        Piece(node.id, "name"),
        *called(node, names),
        _EQUALS,
        *shape_pieces(shape),
        _SPACE,
        _opcode(node.opcode),
        _OPEN,
        *(literal(inside.strip()) if key else _operands(node, names)),
        _CLOSE,
        *attribute_pieces(before),
        *([_attribute("metadata", metadata)] if metadata else []),
    ]


def called(node: Node, names: Mapping[str, str]) -> list[Piece]:
    """Returns what the user's code calls a parameter, in parentheses."""
    own = names.get(node.id) if node.opcode == "parameter" else None
    return [Piece(f" ({own})", "comment")] if own else []


def _read(node: Node, names: Mapping[str, str]) -> list[Piece]:
    """Returns the same from the node's fields, for text that `printed` cannot split."""
    key = IN_BRACKETS.get(node.opcode)
    inside = literal(node.attrs.get(key, "")) if key else _operands(node, names)
    pieces = [Piece(node.id, "name"), *called(node, names), _EQUALS, *type_pieces(node.type)]
    pieces += [_SPACE, _opcode(node.opcode), _OPEN, *inside, _CLOSE]
    return [*pieces, *(_attribute(k, value) for k, value in node.attrs.items() if k != key)]


def printed(text: str) -> tuple[str, str, str, str, str] | None:
    """Splits the text of an instruction in XLA's most common form.

    Returns:
        Its type, the text in its parentheses, its attributes before and after the metadata, and
        the metadata. None if it is not ASCII, has parentheses or quotes in its parentheses, or
        quotes before its metadata.
    """
    head = _HEAD.match(text)
    if head is None or not (text.isascii() and text.isprintable()):
        return None
    shape, inside = head.groups()
    end, quote = head.end(), text.find('"', head.end())
    if quote < 0:
        return shape, inside, text[end:], "", ""
    metadata = _METADATA.match(text, text.rfind(", metadata={", end, quote))
    if metadata is None:
        return None
    before, behind = text[end : metadata.start()], text[metadata.end() :]
    return shape, inside, before, behind, f"{{{metadata[1]}}}"


def type_pieces(kind: Type) -> list[Piece]:
    """Returns a type with its layout folded; a long tuple as its number of elements."""
    text = str(kind)
    if len(text) > _LONG_TYPE:
        return [Piece(f"({len(kind.parts)} values)", "type"), Piece(text, "fold")]
    layout = [Piece(kind.layout, "fold")] if kind.layout else []
    return [Piece(text, "type"), *layout]


@lru_cache(maxsize=4096)
def shape_pieces(text: str) -> Sequence[Piece]:
    """Returns `type_pieces` of a printed type."""
    return type_pieces(read_type(text) or Type(text))


@lru_cache(maxsize=4096)
def attribute_pieces(text: str) -> Sequence[Piece]:
    """Returns the pieces of the attributes, as printed after the operands."""
    values = attributes(text.strip().removeprefix(","))
    return [_attribute(key, value) for key, value in values.items()]


@lru_cache(maxsize=512)
def _opcode(name: str) -> Piece:
    return Piece(name, "op")


def behind_pieces(inner: Node) -> list[Piece]:
    """Returns the comment on a fusion's only instruction: `  // compare, direction=LT`."""
    key = IN_BRACKETS.get(inner.opcode)
    rest = [_attribute(k, value) for k, value in inner.attrs.items() if k != key]
    text = "".join(piece.text for piece in rest if piece.kind != "fold")
    return [Piece(f"  // {inner.opcode}{text}", "comment")]


def _operands(node: Node, names: Mapping[str, str]) -> list[Piece]:
    if not node.operands:
        return []
    rest = [Piece(f": {', '.join(node.operands)}", "fold")] if is_long(node) else []
    return [Piece(operands(node, names), "name"), *rest]


def literal(value: str) -> list[Piece]:
    """Returns a constant's value or a parameter's number; a long value is folded."""
    if len(value) <= _LITERAL:
        return [Piece(value, "literal")]
    return [Piece("{...}", "literal"), Piece(_cut(value), "fold")]


def _attribute(key: str, value: str) -> Piece:
    """Returns `, key=value`, folded if it is long or in `_FOLDED`."""
    if key in CALLS:
        return Piece(f", {key}={value.replace('%', '')}", "attr")
    folded = key in _FOLDED or len(value) > _LONG_VALUE
    kind: Kind = "fold" if folded else "attr"
    return Piece(f", {key}={_cut(value)}", kind)


def _cut(value: str) -> str:
    left = len(value) - _LONGEST_VALUE
    return value if left <= 0 else f"{value[:_LONGEST_VALUE]}... ({left:,} more characters)"
