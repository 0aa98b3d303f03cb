"""The user's line at which an argument of a call was made, read from the source of the caller.

An optimiser that is made in a loop equals none of the earlier ones. The object does not know its
line, and its functions are the library's; the text round the call has it:

    optimizer = nnx.Optimizer(model, optax.adam(1e-3))    <- this line
    step(model, optimizer, batch)
"""

import ast
import linecache
from collections.abc import Iterator, Sequence

from jaxlens.ir.graph import Span

_LONGEST = 60  # characters of code


def made_at(line: Span, called: str, parameters: Sequence[str], name: str) -> str:
    """`cell 3:2: tx = optax.adam(rate)`, or "" where the source does not tell.

    Args:
        line: The line that calls.
        called: Name of the function that is called.
        parameters: Names of its parameters, in order.
        name: The parameter that was given the object.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(line.key or line.file)))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    scope, call = _calling(tree, line.line, called)
    given = _given(call, parameters, name) if call is not None else None
    if given is None:
        return ""
    made: ast.AST | None = given
    if isinstance(given, ast.Name):
        made = _assigned(scope, given.id, line.line)
    if not isinstance(made, ast.Assign | ast.AnnAssign | ast.Call):
        return ""
    code = " ".join(ast.unparse(made).split())
    code = code if len(code) <= _LONGEST else f"{code[: _LONGEST - 3]}..."
    return f"{line.file}:{made.lineno}: {code}"


def _calling(tree: ast.Module, line: int, called: str) -> tuple[ast.AST, ast.Call | None]:
    """The innermost function round a line, or the module, and the call on that line."""
    scope: ast.AST = tree
    calls: list[ast.Call] = []
    for node in ast.walk(tree):  # the outer before the inner
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if not first <= line <= (last or 0):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            scope = node
        elif isinstance(node, ast.Call):
            calls.append(node)
    named = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == called]
    return scope, next(iter(named or calls), None)


def _given(call: ast.Call, parameters: Sequence[str], name: str) -> ast.expr | None:
    """The expression that a parameter is given; None where a star hides it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    place = parameters.index(name) if name in parameters else len(call.args)
    before = call.args[: place + 1]
    if len(before) <= place or any(isinstance(arg, ast.Starred) for arg in before):
        return None
    return before[place]


def _assigned(scope: ast.AST, name: str, line: int) -> ast.Assign | ast.AnnAssign | None:
    """The last assignment of a name before a line."""
    return max(
        (node for node in _assignments(scope) if node.lineno <= line and name in _targets(node)),
        key=lambda node: node.lineno,
        default=None,
    )


def _assignments(scope: ast.AST) -> Iterator[ast.Assign | ast.AnnAssign]:
    """Assignments of a function or module, none of functions within it."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = (part for target in targets for part in ast.walk(target))
    return {part.id for part in names if isinstance(part, ast.Name)}
