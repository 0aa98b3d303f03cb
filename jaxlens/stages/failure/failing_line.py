"""The line of the user's at which an exception was raised, and the expression in it."""

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from jaxlens.ir.spans import File, describe


@dataclass(frozen=True, slots=True)
class FailingLine:
    """Where an exception left the user's code.

    Attributes:
        file: The file or cell.
        line: Line number.
        code: Its text, without indentation.
        frame: The running function, with its variables as they were.
        around: The innermost statement that failed and what stands around it, the module first;
            empty where the source is not to be had.
        expression: The smallest expression that failed; None where it is not known.
        below: The frames that the line had called, innermost first: JAX's.
    """

    file: File
    line: int
    code: str
    frame: FrameType
    around: tuple[ast.AST, ...]
    expression: ast.expr | None
    below: tuple[FrameType, ...]

    @property
    def place(self) -> str:
        """As it is written everywhere: "cell 2:3"."""
        return f"{self.file.name}:{self.line}"

    @property
    def variables(self) -> dict[str, Any]:
        """What its names are bound to: globals, and the function's own before them."""
        return {**self.frame.f_globals, **self.frame.f_locals}

    def parents(self) -> Iterator[ast.AST]:
        """What stands around the failing expression, the nearest first."""
        return reversed(self.around)


def failing_line(traceback: TracebackType | None) -> FailingLine | None:
    """The innermost line of the user's in a traceback; else the innermost of a library.

    JAX's lines and ours are no answer: None where there are no others.
    """
    links = []
    while traceback is not None:
        links.append(traceback)
        traceback = traceback.tb_next
    files = [describe(link.tb_frame.f_code.co_filename) for link in links]
    theirs = [n for n, file in enumerate(files) if not file.own]
    users = [n for n in theirs if not files[n].library]
    if not theirs:
        return None
    at = (users or theirs)[-1]
    below = tuple(link.tb_frame for link in reversed(links[at + 1 :]))
    return _line(links[at], files[at], below)


def _line(link: TracebackType, file: File, below: tuple[FrameType, ...]) -> FailingLine:
    text = source(file.key)
    lines = text.splitlines()
    number = link.tb_lineno
    code = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    around = _around(text, link)
    expression = next((node for node in reversed(around) if isinstance(node, ast.expr)), None)
    cut = next((n for n, node in enumerate(around) if node is expression), len(around))
    return FailingLine(file, number, code, link.tb_frame, tuple(around[:cut]), expression, below)


def source(key: str) -> str:
    """The text of a file or cell, from the cache where IPython keeps its cells."""
    if not key.startswith("<"):
        linecache.checkcache(key)
    return "".join(linecache.getlines(key))


def _around(text: str, link: TracebackType) -> list[ast.AST]:
    """The nodes that hold the failing instruction, the module first."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []  # a cell with magics in it, for one
    positions = list(link.tb_frame.f_code.co_positions())
    index = link.tb_lasti // 2
    first, last, start, end = positions[index] if index < len(positions) else (None,) * 4
    if first is None or last is None or start is None or end is None:
        return []
    found: list[ast.AST] = [tree]
    while True:
        inner = next(
            (node for node in _children(found[-1]) if _holds(node, (first, start), (last, end))),
            None,
        )
        if inner is None:
            break
        found.append(inner)
    while isinstance(test := getattr(found[-1], "test", None), ast.expr):
        found.append(test)  # of a condition that is a name alone, Python tells the whole's place
    return found


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Statements and expressions below a node; a `match` case or a handler is looked through."""
    if isinstance(node, ast.FormattedValue):
        yield node.value  # of its format, Python tells no place
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.expr):
            yield child
        elif not isinstance(child, ast.expr_context | ast.operator):
            yield from _children(child)


def _holds(node: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> bool:
    if not isinstance(node, ast.stmt | ast.expr):
        return False
    last, last_column = node.end_lineno, node.end_col_offset
    if last is None or last_column is None:
        return False
    return (node.lineno, node.col_offset) <= start and end <= (last, last_column)
