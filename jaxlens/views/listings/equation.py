"""Renders one eqn in JAX's notation: `c:f32[8,4] = dot_general[...] a b`.

Parameters that are defaults, repeat the avals, or are long are folded.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import repeat

from jaxlens.ir.graph import Node, Value
from jaxlens.ir.jaxpr.types import notation, short_dtype
from jaxlens.render.document import Kind, Line, Piece

_LONG = 60  # characters of a parameter that is folded for its length
_QUIET_VALUES = frozenset({"None", "()", "Mesh()", "{}"})
_QUIET = frozenset(
    {
        ("broadcast_in_dim", "shape", ""),
        ("broadcast_in_dim", "sharding", ""),
        ("dot_general", "out_sharding", ""),
        ("convert_element_type", "sharding", ""),
        ("custom_jvp_call", "num_consts", "0"),
        ("custom_vjp_call", "num_consts", "0"),
        ("custom_jvp_call", "symbolic_zeros", "False"),
        ("custom_vjp_call", "out_trees", ""),
        ("custom_vjp_call", "symbolic_zeros", "False"),
        ("convert_element_type", "weak_type", "False"),
        ("pallas_call", "debug", "False"),
        ("pallas_call", "interpret", "False"),
        ("pallas_call", "out_avals", ""),
        ("get", "tree", ""),
        ("swap", "tree", ""),
        ("addupdate", "tree", ""),
    }
)
_DTYPES = frozenset({"preferred_element_type", "dtype"})
_UNSAID = re.compile(r"\((?:(?:None|False|UnspecifiedValue)(?:, |,?(?=\))))+\)")
_TUPLE = re.compile(r"\((\d[\d, ]*?),?\)")


def equation(node: Node, owner: str = "", called: Sequence[str] = ()) -> Line:
    """Returns an equation on one line, with its nested jaxprs by name.

    Args:
        node: The equation.
        owner: Name of the source line that owns it.
        called: What the user's code calls its results, "" for a result without a name.
    """
    pieces = [
        *left(node, called),
        Piece(node.opcode, "op"),
        *params(node, node.attrs),
        *operands(node),
    ]
    pieces += scope(node)
    return Line(tuple(pieces), node.id, 0, owner)


def left(node: Node, called: Sequence[str] = ()) -> list[Piece]:
    """Returns `a:f32[] b:i32[2] = `; nothing for an equation without results."""
    pieces: list[Piece] = []
    names = called or repeat("")
    for value, name in zip(node.results, names, strict=False):
        pieces += [*binder(value, name), Piece(" ")]
    return [*pieces, Piece("= ")] if pieces else []


def binder(value: Value, called: str = "") -> list[Piece]:
    """Returns a variable with its aval, as in a binder: `a:f32[8]`.

    A name of the user's stands behind the letter, `a (h):f32[8]`, unless it is that letter; other
    lines have the letter only.
    """
    letter = shown(value.name)
    own = [Piece(f" ({called})", "comment")] if called not in ("", letter) else []
    return [Piece(letter, "name"), *own, Piece(f":{notation(value.type)}", "type")]


def shown(name: str) -> str:
    """Returns the name as JAX prints it: `_` for an unused value (numbered in the module)."""
    return "_" if name[0] == "_" else name


def operands(node: Node) -> list[Piece]:
    """Returns the operands; a literal is followed by its aval."""
    return [Piece(f" {name}", "literal" if ":" in name else "name") for name in node.operands]


def scope(node: Node) -> list[Piece]:
    """Returns the name stack (named scopes and transforms) as a folded comment."""
    return [Piece(f"  # in {node.scope}", "fold")] if node.scope else []


def params(node: Node, attrs: Mapping[str, str], close: bool = True) -> list[Piece]:
    """Returns `[axes=(0,)]` with `quiet` parameters folded, and the brackets if all are.

    A parameter that repeats the dtype of the first result is folded too.
    """
    pieces: list[Piece] = []
    dtype = node.results[0].type.dtype if node.results else None
    loud = False
    for key, value in attrs.items():
        value = _readable(node.opcode, key, value)
        hidden = quiet(node.opcode, key, value) or (key in _DTYPES and short_dtype(value) == dtype)
        space = " " if pieces else ""
        if not hidden and not loud and pieces:
            pieces[:] = [*pieces, Piece(" ", "fold")]
            space = ""
        loud = loud or not hidden
        pieces.append(Piece(f"{space}{key}={value}", "fold" if hidden else "attr"))
    if not pieces:
        return []
    edge: Kind = "" if loud or not close else "fold"
    return [Piece("[", edge), *pieces, *([Piece("]", edge)] if close else [])]


@lru_cache(4096)
def quiet(opcode: str, key: str, value: str) -> bool:
    """Returns whether a parameter is folded: it is a default, repeats an aval, or is long."""
    if value in _QUIET_VALUES or len(value) > _LONG or _UNSAID.fullmatch(value):
        return True
    return (opcode, key, "") in _QUIET or (opcode, key, value) in _QUIET


@lru_cache(4096)
def _readable(opcode: str, key: str, value: str) -> str:
    """Returns `dimension_numbers` as JAX prints them: `(([1], [0]), ([], []))`."""
    if opcode == "dot_general" and key == "dimension_numbers":
        return _TUPLE.sub(r"[\1]", value).replace("()", "[]")
    return value
