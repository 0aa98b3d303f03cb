"""Runs the statements of the cell under a magic as IPython would have run them.

The code is compiled with the line numbers that the editor shows (the magic's own line is
line 1) under the cell's file name, and its text is in `linecache`, so that tracebacks, `inspect`
and every eqn's source span point at the user's lines.
"""

import ast
import asyncio
import inspect
import sys
import tokenize
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from IPython.core.displayhook import DisplayHook

from jaxlens.errors import CellError
from jaxlens.ir.spans import register_cell
from jaxlens.notebook.cell.offers import compiled


@dataclass(frozen=True, slots=True)
class ParsedCell:
    """The parsed code of a cell, or of a magic's line.

    Attributes:
        file: The file name that it is compiled with.
        body: Statements in order.
    """

    file: str
    body: tuple[ast.stmt, ...]


def read_cell(shell: Any, code: str) -> ParsedCell:
    """Parses the cell under a cell magic.

    Raises:
        SyntaxError: As Python raises it, with the editor's line number.
    """
    number, raw, _ = _place(shell)
    # The lines above the cell's code, among them the magic's, become comments: line numbers hold.
    start = raw.rfind(code.strip("\n")) if code.strip() else -1
    # IPython strips leading empty lines from a cell.
    blank = sum(1 for _ in takewhile(lambda line: not line.strip(), code.splitlines()))
    above = raw[:start].splitlines() if start > 0 else ["%%"] + [""] * blank
    text = "\n".join([*(f"# {line}".rstrip() for line in above), shell.transform_cell(code)])
    # In a kernel the raw text names the file, so a debugger's breakpoints in the cell hold.
    file = shell.compile.cache(text, number, raw_code=raw if start > 0 else None)
    return _parsed(shell, text, file)


def read_statement(shell: Any, magic: str, code: str) -> ParsedCell:
    """Parses the expression or statement behind a line magic."""
    if not code.strip():
        raise CellError(f"{magic} has nothing to look at: put a call behind it, {magic} f(x)")
    number, _, line = _place(shell)
    text = "\n" * (line - 1) + code.strip()
    return _parsed(shell, text, shell.compile.cache(text, number))


def name_cells(shell: Any) -> None:
    """Registers the execution number of every cell's file, so that spans say "cell 3"."""
    for file, number in dict(getattr(shell.compile, "_filename_map", {})).items():
        register_cell(file, number)


def _parsed(shell: Any, text: str, file: str) -> ParsedCell:
    """Parses code, and compiles it once to raise the errors that only the compiler detects."""
    name_cells(shell)
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=file))
    _compile(shell, ast.Module(tree.body, []), file)
    return ParsedCell(file, tuple(tree.body))


def _place(shell: Any) -> tuple[int, str, int]:
    """Returns number, raw text and current line of the cell that IPython is running."""
    numbers = getattr(shell.compile, "_filename_map", {})
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename not in numbers:
        frame = frame.f_back
    inputs = shell.history_manager.input_hist_raw if shell.history_manager else []
    if frame.f_code.co_filename not in numbers:  # called from a program, not from a cell
        return shell.execution_count, "", 1
    number = numbers[frame.f_code.co_filename]
    raw = inputs[number] if 0 < number < len(inputs) else ""
    return number, raw, frame.f_lineno


def check(shell: Any, cell: ParsedCell) -> None:
    """Raises, before any statement of a cell runs, if one awaits while an event loop runs.

    Raises:
        CellError: One of them awaits.
    """
    _check_awaits(_compile(shell, ast.Module([*cell.body], []), cell.file))


def run_one(
    shell: Any,
    cell: ParsedCell,
    statement: ast.stmt,
    objects: Mapping[str, Any] | None = None,
    shown: bool = False,
) -> None:
    """Executes one statement in the user's namespace.

    Args:
        shell: IPython's shell.
        cell: The cell of the statement.
        statement: The statement, possibly rewritten by `offers.offering`.
        objects: Objects that replace its placeholder constants, by constant.
        shown: Whether the value of an expression is displayed, as that of a cell's last one.
    """
    shown = shown or shell.ast_node_interactivity == "all"
    ast.fix_missing_locations(statement)

    def code() -> Any:
        if shown and isinstance(statement, ast.Expr):
            return _compile(shell, ast.Interactive([statement]), cell.file, "single")
        return _compile(shell, ast.Module([statement], []), cell.file)

    execute(shell, compiled(code, objects) if objects else code())
    _show_assigned(shell, statement, shown)


def _show_assigned(shell: Any, statement: ast.stmt, shown: bool) -> None:
    """Displays the value of a final assignment if IPython is set to `last_expr_or_assign`."""
    single = isinstance(statement, ast.Expr)
    if shown and not single and shell.ast_node_interactivity == "last_expr_or_assign":
        for name in [t for t in getattr(statement, "targets", ()) if isinstance(t, ast.Name)][:1]:
            shell.displayhook(shell.user_ns[name.id])


def run_last(
    shell: Any,
    cell: ParsedCell,
    statement: ast.stmt,
    objects: Mapping[str, Any] | None = None,
    *,
    shown: bool | None,
) -> Any:
    """Executes the last statement of a cell; returns the value if it is an expression and `shown`.

    Args:
        shell: IPython's shell.
        cell: The cell of the statement.
        statement: The statement.
        objects: See `run_one`.
        shown: Whether its value is displayed, by `shows_last`; None for a line magic, which gives
            its value to IPython.
    """
    if not isinstance(statement, ast.Expr) or shown is False:
        run_one(shell, cell, statement, objects, bool(shown))
        return None
    value = evaluate(shell, cell, statement.value, objects)
    if shown:
        sys.displayhook(value)  # IPython's, as for any last expression of a cell
    return value


def shows_last(shell: Any, text: str) -> bool:
    """Whether IPython displays the value of a cell's last line: not where it ends in `;`."""
    with suppress(tokenize.TokenError, IndentationError, SyntaxError):
        if DisplayHook.semicolon_at_end_of_expression(text):
            return False
    return bool(shell.ast_node_interactivity.startswith("last"))


def execute(shell: Any, code: Any) -> Any:
    """Runs one code object; an `await` in it runs in IPython's loop."""
    result = eval(code, shell.user_global_ns, shell.user_ns)
    return shell.loop_runner(result) if _awaits(code) else result


def evaluate(
    shell: Any,
    cell: ParsedCell,
    expression: ast.expr,
    objects: Mapping[str, Any] | None = None,
) -> Any:
    """Evaluates an expression of the cell in the user's namespace."""
    tree = ast.fix_missing_locations(ast.Expression(expression))
    code = compiled(lambda: _compile(shell, tree, cell.file, "eval"), objects or {})
    _check_awaits(code)
    return execute(shell, code)


def define(shell: Any, cell: ParsedCell, function: ast.FunctionDef) -> Callable[..., Any]:
    """Defines a function over the user's globals, without binding its name there."""
    code = _compile(shell, ast.fix_missing_locations(ast.Module([function], [])), cell.file)
    names: dict[str, Any] = {}
    exec(code, shell.user_global_ns, names)
    defined = names[function.name]
    # Its source text is an expression; a traceback that searched for a def would show other lines.
    defined.__code__ = defined.__code__.replace(co_name="<module>", co_qualname="<module>")
    return defined  # type: ignore[no-any-return]


def call_at(
    shell: Any, cell: ParsedCell, call: ast.Call | None, function: Callable[[], Any]
) -> Any:
    """Calls `function` from a frame at the line of the user's call.

    The user's line is then on the stack as it would be without the magic: in a traceback, and as
    the source of eqns that a library traces.
    """
    if call is None:
        return function()
    code = ast.parse("look()", mode="eval")
    for node in ast.walk(code.body):
        ast.copy_location(node, call)
    return eval(compile(code, cell.file, "eval"), shell.user_global_ns, {"look": function})


def _compile(shell: Any, tree: ast.AST, file: str, mode: str = "exec") -> Any:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0
    with shell.compile.extra_flags(flags):
        return shell.compile(tree, file, mode)


def _awaits(code: Any) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _check_awaits(code: Any) -> None:
    if not _awaits(code):
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise CellError(
        "a cell under a magic cannot await while the kernel's own loop runs: "
        "await in a cell of its own, and look at its result in the next"
    )
