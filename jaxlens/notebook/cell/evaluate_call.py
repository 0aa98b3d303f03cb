"""What there is to look at: a call, evaluated and not made; an expression; a def on shapes."""

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

_WORDS = {
    ast.Assign: "an assignment",
    ast.AnnAssign: "an assignment",
    ast.AugAssign: "an assignment",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.ClassDef: "a class",
    ast.AsyncFunctionDef: "an async def",
    ast.If: "an if statement",
    ast.For: "a for loop",
    ast.While: "a while loop",
    ast.With: "a with statement",
    ast.Try: "a try statement",
    ast.Delete: "a del statement",
    ast.Assert: "an assert",
    ast.Raise: "a raise statement",
}
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Taken:
    """A call, not made.

    Attributes:
        function: What would be called.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        name: What the user calls it; "" where its own name says it.
        shapes: Arguments as written shapes, instead of `args` and `kwargs`.
        call: The call in the user's text; None where nothing is called.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    shapes: str = ""
    call: ast.Call | None = None


def call_of(
    shell: Any, cell: ParsedCell, call: ast.Call, names: dict[str, Any] | None = None
) -> Taken:
    """Evaluates callee and arguments as Python does for a call, and does not call.

    `f(*a, **b)` becomes `(f, (lambda *args, **kwargs: (args, kwargs))(*a, **b))`: Python's
    own order and errors, and no name of ours in the user's namespace.

    Args:
        shell: IPython's shell.
        cell: The cell that the call is of.
        call: The call.
        names: Where its names are looked up; by default in the user's namespace.
    """
    catch = ast.parse("lambda *args, **kwargs: (args, kwargs)", mode="eval").body
    for node in ast.walk(catch):
        ast.copy_location(node, call)
    caught = ast.copy_location(ast.Call(catch, call.args, call.keywords), call)
    pair = ast.copy_location(ast.Tuple([call.func, caught], ast.Load()), call)
    function, (args, kwargs) = cells.evaluate(shell, cell, pair, names)
    return Taken(function, args, kwargs, name_of(call.func), call=call)


def name_of(callee: ast.expr) -> str:
    """The name that stands in the call, where it is one: "model.predict"."""
    plain = isinstance(callee, ast.Name | ast.Attribute | ast.Subscript)
    return short(callee) if plain else ""


def define(
    shell: Any, cell: ParsedCell, expression: ast.expr, inputs: list[str]
) -> Callable[..., Any]:
    """`def expression(x, w): return x @ w`; what it returns keeps its place in the text."""
    function = ast.parse("def expression(): return 0").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.args.args = [ast.copy_location(ast.arg(name), expression) for name in inputs]
    function.body = [ast.copy_location(ast.Return(expression), expression)]
    return cells.define(shell, cell, function)


def on_shapes(last: ast.stmt) -> ast.expr | None:
    """The function that the last line of a cell names for `--in`; None for a def.

    Raises:
        OptionError: It brings arguments of its own, or is no function.
    """
    if isinstance(last, ast.FunctionDef):
        return None
    if isinstance(last, ast.Expr) and isinstance(
        last.value, ast.Name | ast.Attribute | ast.Subscript | ast.Lambda
    ):
        return last.value
    ending = short(last.value) if isinstance(last, ast.Expr) else _word(last)
    raise OptionError(
        "--in gives the shapes, so end with the function alone (a def, or its name), "
        f"not with {ending}"
    )


def no_call(last: ast.stmt | None, names: Mapping[str, Any]) -> str:
    """Says what a cell ends in instead of something to look at, and how to end it."""
    shapes = 'or give shapes for its arguments: --in "f32[8,128], f32[128]"'
    if last is None:
        return "the cell is empty: end it with a call to look at, such as f(x)"
    if isinstance(last, ast.FunctionDef):
        return f"the cell ends in def {last.name}: call it in the last line, {shapes}"
    if not isinstance(last, ast.Expr):
        return f"the cell ends in {_word(last)}: end it with a call to look at, such as f(x)"
    value = names.get(last.value.id) if isinstance(last.value, ast.Name) else None
    if callable(value):
        return f"{short(last.value)} is a function and no call: call it, {shapes}"
    return "end the cell with a call to look at, such as f(x)"


def _word(last: ast.stmt) -> str:
    return _WORDS.get(type(last), "a statement")


def short(node: ast.AST) -> str:
    """The text of code, on one line and of bounded length."""
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST and "\n" not in text else text[: _LONGEST - 3] + "..."


class LineError(Exception):
    """The magic's line asks for what there is not; `error` says what."""

    def __init__(self, error: LensError) -> None:
        super().__init__(str(error))
        self.error = error


class EmptyError(Exception):
    """A function without results was traced: it is called for what it does."""


def names_text(last: ast.stmt, names: dict[str, Any]) -> bool:
    """Whether a cell ends in text or a path, which may be a program that no JAX has to make."""
    node = last.value if isinstance(last, ast.Expr) else None
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = names.get(node.id)
    return isinstance(value, str | os.PathLike)


def may_look(function: Any, made: bool) -> bool:
    """Whether a function that a call turns out to call can be looked at.

    Args:
        function: What is called.
        made: Whether an expression made it: `jax.grad(f)` is looked at, `jnp.tanh` is not.
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        return False
    if inspect.isgeneratorfunction(function):
        return False
    return not is_foreign(function) or (
        made and str(getattr(function, "__module__", "")).startswith(("jax", "numpy"))
    )


def taken_of(candidate: Candidate, function: Any, args: Any, kwargs: Any) -> Taken:
    """A call that was evaluated and not made; of `make_jaxpr(f)` it is the call of `f`."""
    made = candidate.function
    plain = isinstance(made, ast.Name | ast.Attribute | ast.Subscript)
    name = short(made) if plain else ""
    if str(getattr(function, "__qualname__", "")).startswith("make_jaxpr("):
        function, name = function.__wrapped__, ""
    return Taken(function, args, kwargs, name, call=candidate.call)


def call_text(taken: Taken) -> str:
    """A call as it is written, for a message."""
    return short(taken.call) if taken.call is not None else "the last line"
