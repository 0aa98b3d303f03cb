"""Splits an HLO instruction into pieces, in XLA's notation.

Metadata, layouts, backend configurations, shardings and long types and literals are folded. A
program has few distinct types and attributes, so their pieces are cached.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from jaxlens.ir.graph import Node, Type
from jaxlens.ir.hlo.text import CALLS
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
_EQUALS, _SPACE, _OPEN, _CLOSE = Piece(" = "), Piece(" "), Piece("("), Piece(")")


def instruction_pieces(node: Node, names: Mapping[str, str]) -> list[Piece]:
    """Returns the pieces of `name = type opcode(operands), attributes`.

    Args:
        node: The instruction.
        names: What the user's code calls the program's parameters, by id: a parameter's line has
            both, `params__w__.1 (params['w'])`, and other lines the user's.
    """
    key = IN_BRACKETS.get(node.opcode)
    inside = literal(node.attrs.get(key, "")) if key else _operands(node, names)
    pieces = [Piece(node.id, "name"), *called(node, names), _EQUALS, *type_pieces(node.type)]
    pieces += [_SPACE, _opcode(node.opcode), _OPEN, *inside, _CLOSE]
    return [*pieces, *(_attribute(k, value) for k, value in node.attrs.items() if k != key)]


def called(node: Node, names: Mapping[str, str]) -> list[Piece]:
    """Returns what the user's code calls a parameter, in parentheses."""
    own = names.get(node.id) if node.opcode == "parameter" else None
    return [Piece(f" ({own})", "comment")] if own else []


@lru_cache(maxsize=4096)
def type_pieces(kind: Type) -> Sequence[Piece]:
    """Returns a type with its layout folded; a long tuple as its number of elements."""
    text = str(kind)
    if len(text) > _LONG_TYPE:
        return [Piece(f"({len(kind.parts)} values)", "type"), Piece(text, "fold")]
    layout = [Piece(kind.layout, "fold")] if kind.layout else []
    return [Piece(text, "type"), *layout]


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


@lru_cache(maxsize=4096)
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
