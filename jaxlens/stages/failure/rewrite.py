"""Data of a failing line and of a rewrite of it."""

import ast
import copy
from dataclasses import dataclass
from typing import Any

from jaxlens.stages.failure.failing_line import FailingLine


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One rewrite of a failing line.

    Attributes:
        text: What the rewrite does, as a sentence without a full stop.
        code: The new code; "" if there is only the sentence.
        tried: The expression within `code` that is traced to check the rewrite; "" for no check.
    """

    text: str
    code: str = ""
    tried: str = ""


@dataclass(frozen=True, slots=True)
class FailingCode:
    """A failing line, and the names that a rewrite of it uses.

    Attributes:
        at: The line.
        expression: The expression that failed.
        jnp: Name of `jax.numpy` in the user's code.
        jax: Name of `jax` in the user's code.
        traced: Source of the traced value in the line; "" if it is not known.
        message: Message of the exception.
        by_core: Whether `jaxlens.core` traced it.
    """

    at: FailingLine
    expression: ast.expr
    jnp: str
    jax: str
    traced: str
    message: str
    by_core: bool = False

    def with_(self, node: ast.expr, code: str, text: str) -> Rewrite:
        """Returns a rewrite that replaces a node of the failing statement by new code.

        The expression to trace is the outermost one around the node that is evaluated with it: it
        does not extend beyond the body of a lambda or a comprehension, which runs later.
        """
        around = [*self.at.around, self.expression]
        inner = around.index(node)
        top = inner
        while isinstance(around[top - 1], ast.expr) and not isinstance(around[top - 1], _LATER):
            top -= 1
        tried = ast.unparse(replaced(around[top], node, code))
        statement = around[top - 1]
        if isinstance(statement, _SIMPLE):
            return Rewrite(text, ast.unparse(replaced(statement, node, code)), tried)
        return Rewrite(text, tried, tried)


LOOP = "Loop when the program runs; the value keeps its shape and dtype"
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SIMPLE = (ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


def replaced(tree: ast.AST, node: ast.AST, code: str) -> ast.AST:
    """Returns a copy of a tree in which new code replaces a node."""
    new = ast.parse(code, mode="eval").body

    class Change(ast.NodeTransformer):
        def visit(self, part: ast.AST) -> Any:
            return new if part is node else self.generic_visit(part)

    # NodeTransformer mutates its tree, so it runs on a copy; the memo keeps `node` itself in it.
    changed: ast.AST = Change().visit(copy.deepcopy(tree, {id(node): node}))
    return changed


def bound_by(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """Returns the name that an assignment binds and its value; None for other statements."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return (target.id, statement.value) if isinstance(target, ast.Name) else None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        name = statement.target.id
        return name, ast.BinOp(ast.Name(name, ast.Load()), statement.op, statement.value)
    return None
