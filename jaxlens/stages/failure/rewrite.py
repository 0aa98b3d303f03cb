"""A failing line, and one way to write it otherwise."""

import ast
import copy
from dataclasses import dataclass
from typing import Any

from jaxlens.stages.failure.failing_line import FailingLine


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One way to write it.

    Attributes:
        text: What it does, in a sentence without its full stop.
        code: What to write; "" where the sentence is all that can be said.
        tried: The expression in it whose tracing shows that it works.
    """

    text: str
    code: str = ""
    tried: str = ""


@dataclass(frozen=True, slots=True)
class FailingCode:
    """A failing line, with what rewriting needs of it.

    Attributes:
        at: The line.
        expression: The expression that failed.
        jnp: What the user calls `jax.numpy`.
        jax: What the user calls `jax`.
        traced: What the line calls the traced value, "" where it is not known.
        message: What the exception says.
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
        """The statement with other code in the place of a node.

        What is tried is the outermost expression around it that runs where the node does: a
        lambda or a comprehension runs its body later.
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


_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SIMPLE = (ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


def replaced(tree: ast.AST, node: ast.AST, code: str) -> ast.AST:
    """A copy of a tree with other code in the place of a node."""
    new = ast.parse(code, mode="eval").body

    class Change(ast.NodeTransformer):
        def visit(self, here: ast.AST) -> Any:
            return new if here is node else self.generic_visit(here)

    # The transformer changes in place: what it walks is a copy that still knows the node.
    changed: ast.AST = Change().visit(copy.deepcopy(tree, {id(node): node}))
    return changed


def bound_by(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The one name that a statement binds, and to what."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return (target.id, statement.value) if isinstance(target, ast.Name) else None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        name = statement.target.id
        return name, ast.BinOp(ast.Name(name, ast.Load()), statement.op, statement.value)
    return None
