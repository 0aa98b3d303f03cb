"""Reads the user's Python text: its statements, and the name that each expression is assigned to.

A text is parsed once, however many questions read it. Positions are those of `Span`: lines from 1,
columns in UTF-8 bytes from 0, as Python's own column tables have them.
"""

import ast
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

Extent: TypeAlias = tuple[int, int, int, int]
"""First line, first column, last line, and the column after the last."""

Target: TypeAlias = "str | tuple[Target, ...]"
"""A name, "" for what is none (`self.x`, `a[0]`), or a tuple of targets."""

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_SEVERAL = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp  # the name is no item's
_PARSED = 200_000  # characters of a text that is parsed


def parsed(text: str) -> ast.Module | None:
    """Returns the syntax tree of a user's text; None on a syntax error, or for a very long text.

    Lines of a cell that are IPython's own count as blank.
    """
    python = "\n".join("" if row.lstrip()[:1] in ("%", "!") else row for row in text.splitlines())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's text, such as an invalid escape
            return ast.parse(python) if len(text) <= _PARSED else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(32)
def statements(text: str) -> tuple[ast.stmt, ...]:
    """Returns every statement, nested ones too; none on a syntax error."""
    tree = parsed(text)
    found: list[ast.stmt] = []
    pending: list[ast.AST] = [tree] if tree else []
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            found.append(node)
        for block in _BLOCKS:  # a statement stands in a block, so expressions are skipped
            pending.extend(getattr(node, block, ()))
    return tuple(found)


@lru_cache(32)
def assignments(text: str) -> Mapping[Extent, Target]:
    """Returns the target of each assigned expression, by the extent of the expression.

    `h += f(x)` assigns the value of the whole statement to `h`, which is how Python marks it.
    """
    found: dict[Extent, Target] = {}
    for statement in statements(text):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            found.update(_pairs(statement.targets[0], statement.value))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            found.update(_pairs(statement.target, statement.value))
        elif isinstance(statement, ast.AugAssign):
            found[extent(statement)] = _target(statement.target)
    return {place: target for place, target in found.items() if target}


def extent(node: ast.stmt | ast.expr) -> Extent:
    """Returns the extent of a statement or an expression."""
    end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return node.lineno, node.col_offset, *end


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[Extent, Target]]:
    """Yields expressions with their targets: two of `a, b = f(x), g(x)`."""
    if (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(target.elts) == len(value.elts)
    ):
        for one, of in zip(target.elts, value.elts, strict=True):
            yield extent(of), _target(one)
    elif not isinstance(value, _SEVERAL):
        yield extent(value), _target(target)


def _target(node: ast.expr, deep: int = 8) -> Target:
    if isinstance(node, ast.Name):
        return node.id if node.id.strip("_") else ""
    if isinstance(node, ast.Tuple | ast.List) and deep:
        return tuple(_target(part, deep - 1) for part in node.elts)
    return ""
