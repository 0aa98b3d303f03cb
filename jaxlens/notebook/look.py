"""What a cell ends in, and from it the function and the arguments to look at.

The last expression is not run. Of a call of the user's own function, callee and arguments
are evaluated once, in Python's order. Any other expression becomes a function of the
arrays that it names. A `def`, or the name of a function, is looked at on written shapes.
"""

import ast
import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxlens.errors import CellError, OptionError
from jaxlens.notebook import cell as cells
from jaxlens.notebook.callee import is_own
from jaxlens.notebook.cell import Cell

_WORDS = {
    ast.Assign: "an assignment", ast.AnnAssign: "an assignment", ast.AugAssign: "an assignment",
    ast.Import: "an import", ast.ImportFrom: "an import", ast.ClassDef: "a class",
    ast.AsyncFunctionDef: "an async def", ast.If: "an if statement", ast.For: "a for loop",
    ast.While: "a while loop", ast.With: "a with statement", ast.Try: "a try statement",
    ast.Delete: "a del statement", ast.Assert: "an assert", ast.Raise: "a raise statement",
}  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class Arrays:
    """How values are told apart, given by whoever may import JAX.

    Attributes:
        is_array: Whether a value is one array.
        holds: Whether it is an array or a pytree with arrays in it.
        is_program: Whether it is a program that is there already, which is opened and not called.
    """

    is_array: Callable[[Any], bool]
    holds: Callable[[Any], bool]
    is_program: Callable[[Any], bool] = lambda value: False


def take(
    shell: Any,
    cell: Cell,
    shapes: str,
    arrays: Arrays,
    names: dict[str, Any] | None = None,
) -> Taken:
    """Runs the cell up to its last expression, and takes that.

    Args:
        shell: IPython's shell.
        cell: The cell under the magic, or the expression behind it.
        shapes: What `--in` says, "" without it.
        arrays: Tells arrays from other values.
        names: Where a call's names are looked up; by default in the user's namespace.

    Raises:
        CellError: There is nothing to look at; all of the cell has run, as usual.
        OptionError: `--in` with a call that brings its own arguments.
    """
    if not cell.body:
        raise CellError("the cell is empty: end it with a call to look at, such as f(x)")
    last = cell.body[-1]
    if isinstance(last, ast.FunctionDef) and shapes:
        cells.run(shell, cell, cell.body)
        return Taken(shell.user_ns[last.name], name=last.name, shapes=shapes)
    if not isinstance(last, ast.Expr) or _is_for_show(last.value, shell.user_ns):
        cells.run(shell, cell, cell.body)
        raise CellError(_nothing(last))
    cells.run(shell, cell, cell.body[:-1])
    if shapes:
        return _on_shapes(shell, cell, last.value, shapes)
    expression = _waited_for(last.value)
    if (program := _program(shell, cell, expression, arrays)) is not None:
        return program
    if isinstance(expression, ast.Call) and is_own(expression.func, shell.user_ns, arrays.is_array):
        return _call(shell, cell, expression, names)
    return _expression(shell, cell, expression, arrays)


def _program(shell: Any, cell: Cell, expression: ast.expr, arrays: Arrays) -> Taken | None:
    """A program that is there already, named alone: `lowered`, `stages[0]`, "a folder"."""
    if not isinstance(expression, ast.Name | ast.Attribute | ast.Subscript | ast.Constant):
        return None
    value = cells.evaluate(shell, cell, expression)
    return Taken(value, name=_name(expression)) if arrays.is_program(value) else None


def _waited_for(expression: ast.expr) -> ast.expr:
    """`f(x)` of `f(x).block_until_ready()` and of `jax.block_until_ready(f(x))`.

    Waiting is no part of a program, and the method is none of a tracer's.
    """
    match expression:
        case ast.Call(func=ast.Attribute(value, "block_until_ready"), args=[], keywords=[]):
            return value
        case ast.Call(
            func=ast.Attribute(ast.Name("jax"), "block_until_ready"), args=[value], keywords=[]
        ):
            return value
    return expression


def _nothing(last: ast.stmt) -> str:
    """Says what a cell ends in instead of something to look at, and how to end it."""
    if isinstance(last, ast.FunctionDef):
        return (
            f"the cell ends in def {last.name}: call it in the last line, "
            'or give shapes for its arguments: --in "f32[8,128], f32[128]"'
        )
    if isinstance(last, ast.Assign | ast.AnnAssign | ast.AugAssign) and last.value is not None:
        value = ast.unparse(last.value)
        shown = value if len(value) <= _LONGEST and "\n" not in value else "the call alone"
        return (
            f"the cell ends in an assignment, which ran as usual: end it with {shown} to look at it"
        )
    if isinstance(last, ast.Expr):
        return (
            "the cell ends in a line that shows or runs something else, which it did: "
            "end it with a call to look at, such as f(x)"
        )
    what = _WORDS.get(type(last), "a statement")
    return (
        f"the cell ends in {what}, which ran as usual: end it with a call to look at, such as f(x)"
    )


def _is_for_show(expression: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether it prints or is IPython's own: a magic, `!ls`, `f?`, `print(x)`."""
    callee = expression
    while isinstance(callee, ast.Call | ast.Attribute):
        callee = callee.func if isinstance(callee, ast.Call) else callee.value
    if not isinstance(callee, ast.Name) or callee is expression:
        return False
    found = names.get(callee.id, getattr(builtins, callee.id, None))
    return found is print or str(getattr(found, "__module__", "")).startswith("IPython.")


def _on_shapes(shell: Any, cell: Cell, expression: ast.expr, shapes: str) -> Taken:
    """A function that the last line names, on written shapes."""
    if not isinstance(expression, ast.Name | ast.Attribute | ast.Subscript | ast.Lambda):
        raise OptionError(
            "--in gives the shapes, so end with the function alone (a def, or its name), "
            f"not with {_short(expression)}"
        )
    function = cells.evaluate(shell, cell, expression)
    if not callable(function):
        raise CellError(f"{_short(expression)} is a {type(function).__name__} and no function")
    return Taken(function, name=_name(expression), shapes=shapes)


def _call(shell: Any, cell: Cell, call: ast.Call, names: dict[str, Any] | None) -> Taken:
    """Evaluates callee and arguments as Python does for a call, and does not call.

    `f(*a, **b)` becomes `(f, (lambda *args, **kwargs: (args, kwargs))(*a, **b))`: Python's
    own order and errors, and no name of ours in the user's namespace.
    """
    catch = ast.parse("lambda *args, **kwargs: (args, kwargs)", mode="eval").body
    for node in ast.walk(catch):
        ast.copy_location(node, call)
    caught = ast.copy_location(ast.Call(catch, call.args, call.keywords), call)
    pair = ast.copy_location(ast.Tuple([call.func, caught], ast.Load()), call)
    function, (args, kwargs) = cells.evaluate(shell, cell, pair, names)
    if not callable(function):
        raise CellError(f"{_short(call.func)} is a {type(function).__name__} and no function")
    return Taken(function, args, kwargs, _name(call.func), call=call)


def _name(callee: ast.expr) -> str:
    """The name that stands in the call, where it is one: "model.predict"."""
    plain = isinstance(callee, ast.Name | ast.Attribute | ast.Subscript)
    return _short(callee) if plain else ""


def _expression(shell: Any, cell: Cell, expression: ast.expr, arrays: Arrays) -> Taken:
    """The whole expression as a function of the arrays that it names."""
    names = shell.user_ns
    if any(isinstance(node, ast.Await) for node in ast.walk(expression)):
        raise CellError(
            "the cell ends in an await, which cannot be traced: "
            "await in a cell of its own, and look at its result in the next"
        )
    inputs = [n for n in _loads(expression) if n in names and arrays.holds(names[n])]
    calls = any(isinstance(node, ast.Call) for node in ast.walk(expression))
    if not inputs and not calls:
        raise CellError(_no_arrays(expression, names))
    made = cells.define(shell, cell, _function(expression, inputs))
    return Taken(made, tuple(names[name] for name in inputs), name="expression")


def _function(expression: ast.expr, inputs: list[str]) -> ast.FunctionDef:
    """`def expression(x, w): return x @ w`; what it returns keeps its place in the text."""
    function = ast.parse("def expression(): return 0").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.args.args = [ast.copy_location(ast.arg(name), expression) for name in inputs]
    function.body = [ast.copy_location(ast.Return(expression), expression)]
    return function


def _no_arrays(expression: ast.expr, names: Mapping[str, Any]) -> str:
    value = names.get(expression.id) if isinstance(expression, ast.Name) else None
    if callable(value):
        return (
            f"{_short(expression)} is a function and no call: call it, "
            'or give shapes for its arguments: --in "f32[8,128], f32[128]"'
        )
    return (
        f"{_short(expression)} names no array and calls nothing: "
        "end with a call to look at, such as f(x)"
    )


def _loads(expression: ast.expr) -> list[str]:
    """Names that an expression reads from outside, in the order of its text.

    Names that a lambda or a comprehension binds are its own.
    """
    found: list[ast.Name] = []
    pending: list[tuple[ast.AST, frozenset[str]]] = [(expression, frozenset())]
    while pending:
        node, bound = pending.pop()
        inner = bound
        if isinstance(node, ast.Name):
            if node.id not in bound and isinstance(node.ctx, ast.Load):
                found.append(node)
        elif isinstance(node, ast.Lambda):
            inner |= {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            targets = [n for g in node.generators for n in ast.walk(g.target)]
            inner |= {n.id for n in targets if isinstance(n, ast.Name)}
            pending.append((node.generators[0].iter, bound))  # it sees the outer names
        pending.extend((child, inner) for child in ast.iter_child_nodes(node))
    found.sort(key=lambda name: (name.lineno, name.col_offset))
    return list(dict.fromkeys(name.id for name in found))


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST and "\n" not in text else text[: _LONGEST - 3] + "..."
