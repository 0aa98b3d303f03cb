"""Rewrites Python conditions (`if`, `while`, `and`, `max`) as calls of JAX functions."""

import ast
from collections.abc import Iterator
from functools import reduce

from jaxlens.stages.failure.rewrite import LOOP, FailingCode, Rewrite, bound_by


def of_condition(line: FailingCode) -> Iterator[Rewrite]:
    chain = [*line.at.around, line.expression]
    for parent, child in zip(reversed(chain[:-1]), reversed(chain[1:]), strict=True):
        if isinstance(parent, ast.If) and child is parent.test:
            yield from _if(line, parent)
            return
        if isinstance(parent, ast.IfExp) and child is parent.test:
            where = _where(line, _logical(parent.test, line.jnp), parent.body, parent.orelse)
            yield line.with_(parent, where, _WHERE)
            return
        if isinstance(parent, ast.While) and child is parent.test:
            yield from _while(line, parent)
            return
        if isinstance(parent, ast.Assert):
            yield Rewrite(
                "An assertion on values is made by jax.experimental.checkify; one on shapes and "
                "dtypes works as it is"
            )
            return
    node = next((n for n in chain if isinstance(n, ast.BoolOp) or _is_not(n)), line.expression)
    if isinstance(node, ast.expr):
        yield from _outside_of_statements(line, node)


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


_WHERE = "Compute both values, and choose one of them element by element"
_COND = "Compute only one of them, when the program runs"


_FUNCTIONS = {
    "max": ("maximum", 2),
    "min": ("minimum", 2),
    "any": ("any", 1),
    "all": ("all", 1),
    "sorted": ("sort", 1),
}


def _outside_of_statements(line: FailingCode, node: ast.expr) -> Iterator[Rewrite]:
    """Rewrites a condition that is an expression: `a and b`, `0 < x < 1`, `max(a, b)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name, count = _FUNCTIONS.get(node.func.id, ("", 0))
        if name and len(node.args) == count and not node.keywords:
            code = f"{line.jnp}.{name}({', '.join(map(ast.unparse, node.args))})"
            yield line.with_(node, code, f"Use jax.numpy's function in the place of {node.func.id}")
    elif isinstance(node, ast.BoolOp | ast.Compare) or _is_not(node):
        code = _logical(node, line.jnp)
        if code != ast.unparse(node):
            yield line.with_(node, code, "Combine conditions element by element")


def _logical(node: ast.expr, jnp: str) -> str:
    """Returns a condition with `and`, `or`, `not` and chained comparisons as `jnp.logical_*`."""
    if isinstance(node, ast.BoolOp):
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        parts = [_logical(value, jnp) for value in node.values]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"{jnp}.logical_not({_logical(node.operand, jnp)})"
    elif isinstance(node, ast.Compare) and len(node.ops) > 1:
        name = "logical_and"
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        parts = [ast.unparse(ast.Compare(left, [op], [right])) for left, op, right in pairs]
    else:
        return ast.unparse(node)
    return reduce(lambda left, right: f"{jnp}.{name}({left}, {right})", parts)


def _where(line: FailingCode, test: str, yes: ast.expr, no: ast.expr) -> str:
    return f"{line.jnp}.where({test}, {ast.unparse(yes)}, {ast.unparse(no)})"


def _if(line: FailingCode, statement: ast.If) -> Iterator[Rewrite]:
    """Rewrites an `if` whose two branches return or bind one value."""
    values = _sides(statement, _after(line, statement))
    test = _logical(statement.test, line.jnp)
    if values is None:
        yield Rewrite(
            "Write each side as a function of the values that it needs, and let "
            f"{line.jax}.lax.cond choose when the program runs",
            f"{line.jax}.lax.cond({test}, true_fun, false_fun, *values)",
        )
        return
    before, yes, no = values
    where = _where(line, test, yes, no)
    yield Rewrite(_WHERE, before + where, where)
    cond = f"{line.jax}.lax.cond({test}, lambda: {ast.unparse(yes)}, lambda: {ast.unparse(no)})"
    yield Rewrite(_COND, before + cond, cond)


def _after(line: FailingCode, statement: ast.stmt) -> ast.stmt | None:
    """Returns the statement that follows another in the same block."""
    for holder in line.at.around:
        for block in (getattr(holder, "body", None), getattr(holder, "orelse", None)):
            if isinstance(block, list) and statement in block[:-1]:
                after: ast.stmt = block[block.index(statement) + 1]
                return after
    return None


def _sides(statement: ast.If, after: ast.stmt | None) -> tuple[str, ast.expr, ast.expr] | None:
    """Returns "return " or "name = ", and the value of each branch; None for other branches."""
    if len(statement.body) != 1 or len(statement.orelse) > 1:
        return None
    yes = statement.body[0]
    no = statement.orelse[0] if statement.orelse else after
    if isinstance(yes, ast.Return) and isinstance(no, ast.Return) and yes.value and no.value:
        return "return ", yes.value, no.value
    bound = bound_by(yes)
    if bound is None:
        return None
    name, value = bound
    if not statement.orelse:
        return f"{name} = ", value, ast.Name(name, ast.Load())
    other = bound_by(statement.orelse[0])
    return (f"{name} = ", value, other[1]) if other is not None and other[0] == name else None


def _while(line: FailingCode, statement: ast.While) -> Iterator[Rewrite]:
    loop = f"{line.jax}.lax.while_loop"
    bound = bound_by(statement.body[0]) if len(statement.body) == 1 else None
    if bound is None:
        yield Rewrite(LOOP, f"{loop}(cond_fun, body_fun, init_val)")
        return
    name, value = bound
    test = _logical(statement.test, line.jnp)
    code = f"{loop}(lambda {name}: {test}, lambda {name}: {ast.unparse(value)}, {name})"
    yield Rewrite(LOOP, f"{name} = {code}", code)
