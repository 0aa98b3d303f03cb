"""The target of a capture: an evaluated call that is not made, an expression, a def on shapes."""

import ast
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxlens.errors import LensError, OptionError
from jaxlens.notebook.cell import run_cell as cells
from jaxlens.notebook.cell.callee import is_foreign
from jaxlens.notebook.cell.find_calls import Candidate
from jaxlens.notebook.cell.run_cell import ParsedCell

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class EvaluatedCall:
    """A call whose function and arguments are evaluated, and which is not made.

    Attributes:
        function: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        name: The function's name in the user's text; "" for its own name.
        shapes: Arguments as written shapes, instead of `args` and `kwargs`.
        node: The call in the user's text; None if there is none.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    shapes: str = ""
    node: ast.Call | None = None


def name_of(callee: ast.expr) -> str:
    """Returns the callee's text if it is a name, attribute or item ("model.predict"), else ""."""
    plain = isinstance(callee, ast.Name | ast.Attribute | ast.Subscript)
    return short(callee) if plain else ""


def define(
    shell: Any, cell: ParsedCell, expression: ast.expr, inputs: list[str]
) -> Callable[..., Any]:
    """Defines `def expression(x, w): return x @ w`, whose body keeps its position in the text."""
    function = ast.parse("def expression(): return 0").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.args.args = [ast.copy_location(ast.arg(name), expression) for name in inputs]
    function.body = [ast.copy_location(ast.Return(expression), expression)]
    return cells.define(shell, cell, function)


def on_shapes(last: ast.stmt) -> ast.expr | None:
    """Returns the function expression in a cell's last line, for `--in`; None for a def.

    Raises:
        OptionError: The line has arguments itself, or is no function.
    """
    if isinstance(last, ast.FunctionDef):
        return None
    if isinstance(last, ast.Expr) and isinstance(
        last.value, ast.Name | ast.Attribute | ast.Subscript | ast.Lambda
    ):
        return last.value
    raise OptionError(
        "--in gives the shapes, so end with the function alone (a def, or its name), "
        f"not with {short(last)}"
    )


def no_call(last: ast.stmt | None, names: Mapping[str, Any]) -> str:
    """Returns a hint: what the cell ends in instead of a call, and how to end it."""
    shapes = 'or give shapes for its arguments: --in "f32[8,128], f32[128]"'
    if last is None:
        return "the cell is empty: end it with a call to look at, such as f(x)"
    if isinstance(last, ast.FunctionDef):
        return f"the cell ends in def {last.name}: call it in the last line, {shapes}"
    if not isinstance(last, ast.Expr):
        return f"the cell ends in `{short(last)}`: end it with a call to look at, such as f(x)"
    value = names.get(last.value.id) if isinstance(last.value, ast.Name) else None
    if callable(value):
        return f"{short(last.value)} is a function and no call: call it, {shapes}"
    return "end the cell with a call to look at, such as f(x)"


def short(node: ast.AST) -> str:
    """Returns the text of code, shortened if it is long or has several lines."""
    text = ast.unparse(node)
    first = text.partition("\n")[0]
    return text if len(text) <= _LONGEST and text == first else f"{first[: _LONGEST - 3]}..."


class LineError(Exception):
    """An option of the magic's line cannot be met; `error` says why."""

    def __init__(self, error: LensError) -> None:
        super().__init__(str(error))
        self.error = error


class EmptyError(Exception):
    """The traced function has no outputs: it is called for its side effects."""


def names_text(last: ast.stmt, names: dict[str, Any]) -> bool:
    """Whether a cell ends in text or a path, which may be a program that needs no JAX."""
    node = last.value if isinstance(last, ast.Expr) else None
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = names.get(node.id)
    return isinstance(value, str | os.PathLike)


def may_look(function: Any) -> bool:
    """Whether the evaluated function of a call can be captured."""
    if not callable(function) or inspect.iscoroutinefunction(function):
        return False
    if inspect.isgeneratorfunction(function):
        return False
    return not is_foreign(function)


def evaluated(candidate: Candidate, function: Any, args: Any, kwargs: Any) -> EvaluatedCall:
    """Returns a call with its evaluated parts; for `jax.make_jaxpr(f)(x)` that of `f`."""
    name = name_of(candidate.function)
    if str(getattr(function, "__qualname__", "")).startswith("make_jaxpr("):
        function, name = function.__wrapped__, ""
    return EvaluatedCall(function, args, kwargs, name, node=candidate.call)


def call_text(call: EvaluatedCall) -> str:
    """Returns the source text of a call, for a message."""
    return short(call.node) if call.node is not None else "the last line"
