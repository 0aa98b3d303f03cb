"""Writes an HLO instruction in XLA's notation, with marks before its kinds of words.

Metadata, layouts, backend configurations, shardings and long types and literals are folded. A
program has few distinct types and attributes, so their texts are cached.
"""

from collections.abc import Mapping
from functools import lru_cache

from jaxlens.ir.graph import Node, Type
from jaxlens.ir.hlo.text import CALLS
from jaxlens.render.control_chars import visible
from jaxlens.render.html.lazy_lines import NAME, NEXT, LineForm
from jaxlens.render.html.marks import MARKS
from jaxlens.views.listings.hlo_folds import is_long, operands

_LONG_TYPE = 48  # characters; longer types are folded
_LONG_VALUE, _LONGEST_VALUE = 60, 400
_LITERAL = 40
_FOLDED = frozenset(
    "metadata backend_config frontend_attributes sharding operand_precision statistics origin "
    "original_value is_scheduled custom_call_schedule".split()
)
IN_BRACKETS = {"constant": "literal", "parameter": "index"}
_OP, _TYPE, _VALUE = MARKS["op"], MARKS["type"], MARKS["literal"]
_ATTR, _COMMENT, _FOLD = MARKS["attr"], MARKS["comment"], MARKS["fold"]
MARKED = LineForm(str)
"""Of text that is marked as a whole."""


def instruction_text(node: Node, names: Mapping[str, str], brief: bool = False) -> str:
    """Returns `name = type opcode(operands), attributes`.

    Args:
        node: The instruction.
        names: What the user's code calls the program's parameters, by id: a parameter's line has
            both, `params__w__.1 (params['w'])`, and other lines the user's.
        brief: Whether to leave out what is folded.
    """
    key = IN_BRACKETS.get(node.opcode)
    inside = literal(node.attrs.get(key, ""), brief) if key else _operands(node, names, brief)
    return (
        f"{NAME}{visible(node.id)}{NEXT}{called(node, names)} = {type_text(node.type, brief)} "
        f"{_OP}{node.opcode}\0({inside}){_attributes(node, key, brief)}"
    )


def called(node: Node, names: Mapping[str, str]) -> str:
    """Returns what the user's code calls a parameter, in parentheses."""
    own = names.get(node.id) if node.opcode == "parameter" else None
    return f"{_COMMENT} ({visible(own)})\0" if own else ""


def short_type(kind: Type) -> str:
    """Returns a type without its layout; a long tuple as `(19 values)`."""
    text = str(kind)
    return text if len(text) <= _LONG_TYPE else f"({len(kind.parts)} values)"


@lru_cache(maxsize=4096)
def type_text(kind: Type, brief: bool = False) -> str:
    """Returns a type with its layout folded; a long tuple as its number of elements."""
    text = short_type(kind)
    layout = kind.layout if text == str(kind) else str(kind)
    fold = f"{_FOLD}{visible(layout)}" if layout and not brief else ""
    return f"{_TYPE}{visible(text)}{fold}\0"


def behind_text(inner: Node) -> str:
    """Returns the comment on a fusion's only instruction: `  // compare, direction=LT`."""
    rest = _attributes(inner, IN_BRACKETS.get(inner.opcode), True)
    return f"{_COMMENT}  // {inner.opcode}{rest.replace(_ATTR, '').replace(NEXT, '')}"


def _operands(node: Node, names: Mapping[str, str], brief: bool) -> str:
    if not node.operands:
        return ""
    rest = is_long(node) and not brief
    fold = f"{_FOLD}: {visible(', '.join(node.operands))}\0" if rest else ""
    return f"{NAME}{visible(operands(node, names))}{fold or NEXT}"


def literal(value: str, brief: bool = False) -> str:
    """Returns a constant's value or a parameter's number; a long value is folded."""
    if len(value) <= _LITERAL:
        return f"{_VALUE}{visible(value)}\0" if value else ""
    fold = "" if brief else f"{_FOLD}{visible(_cut(value))}"
    return f"{_VALUE}{{...}}{fold}\0"


def _attributes(node: Node, without: str | None, brief: bool) -> str:
    """Returns `, key=value` for each attribute, folded if it is long or in `_FOLDED`."""
    texts: list[str] = []
    last = ""
    for key, value in node.attrs.items():
        kind, text = _attribute(key, value)
        if key != without and not (brief and kind == _FOLD):
            texts.append(f"{NEXT if kind == last else kind}{text}")
            last = kind
    return "".join(texts)


@lru_cache(maxsize=4096)
def _attribute(key: str, value: str) -> tuple[str, str]:
    """Returns the mark and the text of an attribute."""
    if key in CALLS:
        return _ATTR, visible(f", {key}={value.replace('%', '')}")
    folded = key in _FOLDED or len(value) > _LONG_VALUE
    return _FOLD if folded else _ATTR, visible(f", {key}={_cut(value)}")


def _cut(value: str) -> str:
    left = len(value) - _LONGEST_VALUE
    return value if left <= 0 else f"{value[:_LONGEST_VALUE]}... ({left:,} more characters)"
