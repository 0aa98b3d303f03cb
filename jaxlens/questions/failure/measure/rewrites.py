"""Rewrites of a failing line by the kind of mistake, with the user's own names; runs no code.

Each rewrite keeps the meaning of the line, or its text states the difference.
"""

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from jaxlens.questions.failure.measure.failing_line import FailingLine


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
        message: Message of the exception.
        by_core: Whether `jaxlens.core` traced it.
    """

    at: FailingLine
    expression: ast.expr
    jnp: str
    jax: str
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
        tried = ast.unparse(_replaced(around[top], node, code))
        statement, whole = around[top - 1], tried
        if isinstance(statement, _SIMPLE):
            whole = ast.unparse(_replaced(statement, node, code))
        return Rewrite(text, whole, tried)


_LOOP = "Loop when the program runs; the value keeps its shape and dtype"
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SIMPLE = (ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


def _replaced(tree: ast.AST, node: ast.AST, code: str) -> ast.AST:
    """Returns a copy of a tree in which new code replaces a node."""
    new = ast.parse(code, mode="eval").body

    class Change(ast.NodeTransformer):
        def visit(self, part: ast.AST) -> Any:
            return new if part is node else self.generic_visit(part)

    # NodeTransformer mutates its tree, so it runs on a copy; the memo keeps `node` itself in it.
    changed: ast.AST = Change().visit(copy.deepcopy(tree, {id(node): node}))
    return changed


def _bound_by(statement: ast.stmt | None) -> tuple[str, ast.expr] | None:
    """Returns the name that an assignment binds and its value; None for other statements."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            return name, ast.BinOp(ast.Name(name, ast.Load()), op, value)
    return None


# ---- conditions: `if`, `while`, `and`, `max` ----------------------------------------------------


def _of_condition(line: FailingCode) -> Iterator[Rewrite]:
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
    others: Sequence[ast.stmt | None] = statement.orelse or [after]
    match statement.body, others:
        case [ast.Return(value=ast.expr() as yes)], [ast.Return(value=ast.expr() as no)]:
            return "return ", yes, no
        case [one], [other] if bound := _bound_by(one):
            name, value = bound
            kept = name, ast.Name(name, ast.Load())
            otherwise = _bound_by(other) if statement.orelse else kept
            if otherwise is not None and otherwise[0] == name:
                return f"{name} = ", value, otherwise[1]
    return None


def _while(line: FailingCode, statement: ast.While) -> Iterator[Rewrite]:
    loop = f"{line.jax}.lax.while_loop"
    bound = _bound_by(statement.body[0]) if len(statement.body) == 1 else None
    if bound is None:
        yield Rewrite(_LOOP, f"{loop}(cond_fun, body_fun, init_val)")
        return
    name, value = bound
    test = _logical(statement.test, line.jnp)
    code = f"{loop}(lambda {name}: {test}, lambda {name}: {ast.unparse(value)}, {name})"
    yield Rewrite(_LOOP, f"{name} = {code}", code)


# ---- sizes --------------------------------------------------------------------------------------


def _of_size(line: FailingCode) -> Iterator[Rewrite]:
    """Adds `size=` to `jnp.nonzero`, `jnp.unique` and other calls with a data-dependent shape."""
    node = line.expression
    if isinstance(node, ast.Call) and node.args and not node.keywords:
        size = ast.unparse(ast.Attribute(node.args[0], "size", ast.Load()))
        args = ", ".join(map(ast.unparse, node.args))
        code = f"{ast.unparse(node.func)}({args}, size={size})"
        yield line.with_(node, code, "Say how many there are at most; the rest is filled")


# ---- calls that do not accept a traced value ----------------------------------------------------


def _of_numpy(line: FailingCode) -> Iterator[Rewrite]:
    """Rewrites a call of `numpy` or `math`, and a NumPy array with a traced index."""
    node = line.expression
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        code = f"{line.jnp}.asarray({node.value.id})[{ast.unparse(node.slice)}]"
        yield line.with_(node, code, "Make it an array of JAX's, which a traced value can index")
    if not isinstance(node, ast.Call):
        return
    function = ast.unparse(node.func)
    root, _, rest = function.partition(".")
    module = getattr(line.at.variables.get(root), "__name__", "")
    if module in ("numpy", "math") and rest:
        rest = {"fabs": "abs"}.get(rest, rest)
        new = ast.parse(f"{line.jnp}.{rest}", mode="eval").body
        code = ast.unparse(ast.Call(new, node.args, node.keywords))
        yield line.with_(node, code, f"Use {line.jnp} in the place of {root}")
    if root in line.at.variables and not line.by_core:  # not a builtin function
        yield Rewrite(f"jax.pure_callback calls {function} with numbers when the program runs")


_AT: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "add",  # of the negative
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}


def _of_in_place(line: FailingCode) -> Iterator[Rewrite]:
    match next((n for n in reversed(line.at.around) if isinstance(n, ast.stmt)), None):
        case ast.Assign(targets=[ast.Subscript() as target], value=value):
            method = "set"
        case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value) if type(op) in _AT:
            method = _AT[type(op)]
            value = ast.UnaryOp(ast.USub(), value) if isinstance(op, ast.Sub) else value
        case _:
            return
    base, index, new = map(ast.unparse, (target.value, target.slice, value))
    codes = [f"{base}.at[{index}].{method}({new})"]
    if method == "set" and _is_mask(line, target.slice):
        codes.insert(0, f"{line.jnp}.where({index}, {new}, {base})")
    for code in codes:
        yield Rewrite("Make a changed copy, and bind the name to it", f"{base} = {code}", code)


def _is_mask(line: FailingCode, index: ast.expr) -> bool:
    """Whether an index is a boolean array: a comparison, or a variable of dtype bool."""
    if isinstance(index, ast.Name):
        dtype = getattr(getattr(line.at.variables.get(index.id), "aval", None), "dtype", None)
        return str(dtype) == "bool"
    return isinstance(index, ast.Compare)


_TYPES = re.compile(
    r"has type (\w{1,20})\[.{0,99}?\] but the corresponding output\b.{0,99}? has type (\w{1,20})\["
)
_COMPONENT = re.compile(r"carry component \w+((?:\[\d+\])+)")
_INIT = {"scan": (1, 0), "while_loop": (2, 0), "fori_loop": (3, 1)}
"""Position of the initial carry in a loop's call, and its depth in JAX's own carry."""


def _of_carry(line: FailingCode) -> Iterator[Rewrite]:
    """Casts the initial carry of a loop to the dtype that its body returns."""
    node, types = line.expression, _TYPES.search(line.message)
    if isinstance(node, ast.Call) and types and types[1] != types[2]:
        init = _init(node, line.message)
        if init is not None:
            code = f"{line.jnp}.asarray({ast.unparse(init)}, {line.jnp}.{types[2]})"
            text = "Begin with the dtype that a step gives"
            yield line.with_(node, ast.unparse(_replaced(node, init, code)), text)


def _init(call: ast.Call, message: str) -> ast.expr | None:
    """Returns the component of the initial carry whose type changes."""
    place, deep = _INIT.get(ast.unparse(call.func).rpartition(".")[2], (0, 0))
    named = (word.value for word in call.keywords if word.arg in ("init", "init_val"))
    init = call.args[place] if 0 < place < len(call.args) else next(named, None)
    component = _COMPONENT.search(message)
    for index in map(int, re.findall(r"\d+", component[1])[deep:]) if component else ():
        if not isinstance(init, ast.Tuple | ast.List) or index >= len(init.elts):
            return None
        init = init.elts[index]
    return init


REWRITES: Mapping[str, Callable[[FailingCode], Iterator[Rewrite]]] = {
    "condition": _of_condition,
    "size": _of_size,
    "numpy": _of_numpy,
    "in place": _of_in_place,
    "carry": _of_carry,
}
"""By the kind of mistake; `causes.tsv` says what to do where no line is rewritten."""
