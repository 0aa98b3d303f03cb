"""Finds the user's line that created an argument of a call, in the source of the caller.

An optimiser that is created in a loop is unequal to the earlier ones. The object does not record
where it was created, and its functions are those of the library, so the caller's AST is searched:

    optimizer = nnx.Optimizer(model, optax.adam(1e-3))    <- this line
    step(model, optimizer, batch)
"""

import ast
import linecache
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter

from jaxlens.ir.graph import Span

_LONGEST = 60  # characters of code


def argument_origin(
    line: Span, called: str, parameters: Sequence[str], name: str, *, renamed: bool = True
) -> str:
    """Returns "cell 3:2: tx = optax.adam(rate)"; "" if the source does not show it.

    Args:
        line: The line of the call.
        called: Name of the called function.
        parameters: Names of its parameters, in order.
        name: Name of the parameter that the object is passed to.
        renamed: Whether the line may call it by another name. A function of a library is rather
            called within the call that the line shows.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(line.key or line.file)))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    scope, call = _scope_and_call(tree, line.line, called, renamed)
    argument = _argument(call, called, parameters, name) if call is not None else None
    if argument is None:
        return ""
    creation: ast.AST | None = argument
    if isinstance(argument, ast.Name):
        before = (node for node in _assignments(scope) if node.lineno <= line.line)
        own = (node for node in before if argument.id in _targets(node))
        creation = max(own, key=attrgetter("lineno"), default=None)
    if not isinstance(creation, ast.Assign | ast.AnnAssign | ast.Call):
        return ""
    code = " ".join(ast.unparse(creation).split())
    code = code if len(code) <= _LONGEST else f"{code[: _LONGEST - 3]}..."
    return f"{line.file}:{creation.lineno}: {code}"


def _scope_and_call(
    tree: ast.Module, line: int, called: str, renamed: bool
) -> tuple[ast.AST, ast.Call | None]:
    """Returns the innermost function that encloses a line, or the module, and the call on it."""
    scope: ast.AST = tree
    calls: list[ast.Call] = []
    for node in ast.walk(tree):  # breadth first: enclosing nodes before inner ones
        if not getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", 0) or 0):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            scope = node
        elif isinstance(node, ast.Call):
            calls.append(node)
    named = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == called]
    return scope, next(iter(named or (calls if renamed else ())), None)


def _argument(call: ast.Call, called: str, parameters: Sequence[str], name: str) -> ast.expr | None:
    """Returns the expression passed to a parameter; None if it is in a starred argument."""
    func = call.func
    method = func if isinstance(func, ast.Attribute) and func.attr == called else None
    if parameters[:1] == ["self"] and (method or called == "__call__"):
        if name == "self":
            return method.value if method else func
        parameters = parameters[1:]
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    place = parameters.index(name) if name in parameters else len(call.args)
    before = call.args[: place + 1]
    if len(before) <= place or any(isinstance(arg, ast.Starred) for arg in before):
        return None
    return before[place]


def _assignments(scope: ast.AST) -> Iterator[ast.Assign | ast.AnnAssign]:
    """Yields the assignments in a function or module, without those of nested scopes."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = chain.from_iterable(map(ast.walk, targets))
    return {part.id for part in parts if isinstance(part, ast.Name)}
