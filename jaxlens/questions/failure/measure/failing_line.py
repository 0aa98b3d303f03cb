"""The user's source line that an exception was raised on, and the failing expression."""

import ast
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from jaxlens.ir.jaxpr.python_text import extent, parsed
from jaxlens.ir.spans import BOUNDARY, File, describe
from jaxlens.stages.trace.sources import source_text


@dataclass(frozen=True, slots=True)
class FailingLine:
    """The innermost user line of a traceback.

    Attributes:
        file: The file or cell.
        line: Line number.
        code: Text of the line, without indentation.
        frame: The Python frame, with its variables at the time of the exception.
        around: The AST nodes that enclose the failing expression, the module first; empty if the
            source is not available.
        expression: The smallest failing expression; None if it is not known.
        below: The frames called from the line, innermost first: those of JAX.
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
        """The file and line as displayed: "cell 2:3"."""
        return f"{self.file.name}:{self.line}"

    @property
    def variables(self) -> dict[str, Any]:
        """The values of names in the frame: globals, overridden by locals."""
        return {**self.frame.f_globals, **self.frame.f_locals}


def failing_line(traceback: TracebackType | None) -> FailingLine | None:
    """Returns the innermost user line of a traceback; without one, the innermost library line.

    Returns None if all frames belong to JAX or jaxlens.
    """
    links = []
    while traceback is not None:
        links.append(traceback)
        traceback = traceback.tb_next
    files = [describe(link.tb_frame.f_code.co_filename) for link in links]
    foreign = [n for n, file in enumerate(files) if not file.own and file.key != BOUNDARY]
    users = [n for n in foreign if not files[n].library]
    if not foreign:
        return None
    at = (users or foreign)[-1]
    link, file = links[at], files[at]
    text = source_text(file.key)
    lines = text.splitlines()
    number = link.tb_lineno
    code = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    around = _around(text, link)
    expression = next((node for node in reversed(around) if isinstance(node, ast.expr)), None)
    cut = around.index(expression) if expression is not None else len(around)
    below = tuple(link.tb_frame for link in reversed(links[at + 1 :]))
    return FailingLine(file, number, code, link.tb_frame, tuple(around[:cut]), expression, below)


def _around(text: str, link: TracebackType) -> list[ast.AST]:
    """Returns the nodes that enclose the failing bytecode instruction, the module first."""
    tree = parsed(text)
    positions = list(link.tb_frame.f_code.co_positions())
    index = link.tb_lasti // 2
    first, last, start, end = positions[index] if index < len(positions) else (None,) * 4
    if tree is None or first is None or last is None or start is None or end is None:
        return []
    # Siblings do not overlap, so that these are each other's parents: Module > FunctionDef > Return
    # > BinOp > Call. Python has no positions of a format such as ".3f".
    nodes = list(ast.walk(tree))
    formats = [n.format_spec for n in nodes if isinstance(n, ast.FormattedValue) and n.format_spec]
    unplaced = {id(part) for spec in formats for part in ast.walk(spec)}
    around: list[ast.AST] = [tree]
    for node in nodes:
        if isinstance(node, ast.stmt | ast.expr) and id(node) not in unplaced:
            place = extent(node)
            if place[:2] <= (first, start) and (last, end) <= place[2:]:
                around.append(node)
    while isinstance(test := getattr(around[-1], "test", None), ast.expr):
        around.append(test)  # for a bare name, CPython gives the statement's position
    return around
