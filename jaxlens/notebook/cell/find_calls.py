"""Finds the calls and expressions of a statement that can be captured, the best first.

The best is a call of the user's own function, wherever it occurs: alone, behind a `=`, inside
`print`, `float`, `assert`, an f-string, a comparison, a subscript, a plot's arguments, a loop or a
`with` block. A statement without one may compute with JAX itself: `print(jnp.sin(x).sum())` has
the expression `jnp.sin(x).sum()`.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlens.notebook.cell.callee import MISSING, Namespace, has, is_own, is_pure, resolve

_STAGING = ("lower", "trace", "eval_shape")
_LATER = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Await
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")
_ASSIGNMENT = ast.Assign | ast.AnnAssign | ast.AugAssign
_OPERATION = ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare
_EACH = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Candidate:
    """A call in the user's text whose function may be captured.

    Attributes:
        call: The call.
        method: The method of a jitted function that is called ("lower"); "" for the function.
    """

    call: ast.Call
    method: str = ""

    @property
    def function(self) -> ast.expr:
        """The expression of the function, without `method`."""
        if self.method:
            assert isinstance(self.call.func, ast.Attribute)
            return self.call.func.value
        return self.call.func


def calls_in(statement: ast.AST, names: Namespace) -> list[Candidate]:
    """Returns the calls of the user's own functions, outermost first, the last statement first.

    `a = f(g(x))` gives `f(g(x))`, then `g(x)`. Lambdas, defs and classes, whose bodies run later,
    and awaited calls are left out.
    """
    candidates: list[Candidate] = []
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Call):
            candidates += _candidate(node, names)
        pending[:0] = _inner(node)
    return candidates


def calls_beside(
    cell: Sequence[ast.stmt], taken: ast.Call | None, names: Namespace, whole: bool
) -> list[ast.expr]:
    """Returns the calls of a cell that a look at one of them leaves out.

    Args:
        cell: The statements, as written.
        taken: The call that is looked at; None if it is an expression of the last statement.
        names: The user's namespace.
        whole: Whether the statements above the last count, and the calls in the arguments of
            `taken`; else only the last statement's other calls do.
    """
    inside = [] if taken is None else [taken.func] if whole else [taken]
    looked = {_place(n) for root in inside for n in ast.walk(root)} | {_place(taken)}
    found: list[ast.expr] = []
    for statement in cell if whole else cell[-1:]:
        own = [
            c.call
            for c in calls_in(statement, names)
            if not isinstance(resolve(c.call.func, names), type)
        ]
        computed = expression_in(statement, names) if statement is not cell[-1] else None
        found += own or ([computed] if computed is not None else [])
    return [node for node in found if _place(node) not in looked]


def _place(node: ast.AST | None) -> tuple[int | None, ...]:
    """Returns the place of a node's text, which its copies share."""
    return tuple(getattr(node, name, None) for name in _PLACE)


def _inner(node: ast.AST) -> list[ast.AST]:
    """Returns the children that run with a node: statements of bodies, last first, then others."""
    if isinstance(node, ast.Await):
        return []
    statements: list[ast.AST] = []
    rest: list[ast.AST] = []
    for name, value in ast.iter_fields(node):
        parts = [
            part
            for part in (value if isinstance(value, list) else [value])
            if isinstance(part, ast.AST) and not isinstance(part, _LATER)
        ]
        if name in _BODIES and isinstance(value, list):
            statements = [*reversed(parts), *statements]
        else:
            rest += parts
    return [*statements, *rest]


def _candidate(call: ast.Call, names: Namespace) -> list[Candidate]:
    callee = call.func
    if isinstance(callee, ast.Attribute) and callee.attr in _STAGING:
        of_call = isinstance(callee.value, ast.Call)
        value = resolve(callee.value, names)
        if of_call or (has(value, "__wrapped__") and has(value, callee.attr)):
            return [Candidate(call, callee.attr)]
    if resolve(callee, names) is MISSING and _is_method(callee, names):
        return []  # a method of a loop variable or the like, most likely an array
    return [Candidate(call)] if is_own(callee, names) else []


def waited_for(expression: ast.expr) -> ast.expr:
    """Returns `f(x)` for `f(x).block_until_ready()` and for `jax.block_until_ready(f(x))`.

    Blocking is not part of a program, and tracers have no such method.
    """
    match expression:
        case ast.Call(func=ast.Attribute(value, "block_until_ready"), args=[], keywords=[]):
            return value
        case ast.Call(
            func=ast.Attribute(ast.Name("jax"), "block_until_ready"), args=[value], keywords=[]
        ):
            return value
    return expression


def expression_in(statement: ast.stmt, names: Namespace, own: bool = False) -> ast.expr | None:
    """Returns the first expression of a statement that only computes with JAX, or None.

    Args:
        statement: The statement.
        names: What names mean.
        own: Whether the cell called a function of the user's above: then an expression that only
            reads or prints results must not hide that program.
    """
    if not isinstance(statement, _ASSIGNMENT | ast.Expr | ast.Assert):
        return None  # in a loop or a function its names have other values each time
    value = statement.test if isinstance(statement, ast.Assert) else statement.value
    pending = [value] if value is not None else []
    while pending:
        node = pending.pop(0)
        if isinstance(node, _LATER):
            continue
        if _is_computing(node, names):
            return None if own and _is_beside(node, value, names) else waited_for(node)
        if isinstance(node, _EACH):
            continue  # names that the comprehension binds are not in the namespace
        pending[:0] = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return None


def _is_computing(node: ast.expr, names: Namespace) -> bool:
    """Whether an expression computes with JAX or on JAX's arrays, without other effects."""
    if not isinstance(node, _OPERATION | ast.Subscript | ast.Tuple | ast.List | _EACH):
        return False
    works = on_arrays = False
    for part in _parts(node):
        if isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.JoinedStr):
            return False
        if isinstance(part, ast.Call):
            verdict = _call_computes(part, names)
            if verdict is None:
                return False
            works = works or verdict
        elif isinstance(part, ast.Name):
            value = names.values.get(part.id)
            if hasattr(type(value), "__next__"):
                return False
            on_arrays = on_arrays or _is_of_jax(value, names)
    # A call at its root is judged above.
    operates = isinstance(node, ast.Subscript) or any(
        isinstance(part, _OPERATION) and not (part is node and isinstance(part, ast.Call))
        for part in _parts(node)
    )
    return works or (on_arrays and operates)


def _is_beside(expression: ast.expr, whole: ast.expr | None, names: Namespace) -> bool:
    """Whether an expression of a statement only reads, reduces or prints: `print(g[0].sum())`."""
    return expression is not whole or not any(
        isinstance(part, ast.MatMult)
        or (
            isinstance(part, ast.Call)
            and not _is_method(part.func, names)
            and _call_computes(part, names)
        )
        for part in _parts(expression)
    )


def _call_computes(call: ast.Call, names: Namespace) -> bool | None:
    """Returns True if a call computes with JAX, False if it is pure, None if it may do anything."""
    if isinstance(call.func, ast.Call):
        return _call_computes(call.func, names)  # jax.vmap(f)(x)
    if isinstance(call.func, ast.Lambda):
        return True
    value = resolve(call.func, names)
    if value is MISSING:
        # A method of an expression's value: (x @ w).sum(), x.at[0].set(1.0)
        return False if _is_method(call.func, names) else None
    if names.is_array(value):
        return _is_of_jax(value, names) if _is_method(call.func, names) else None
    if names.computes(value):
        return True
    return False if is_pure(value) else None


def _is_method(callee: ast.expr, names: Namespace) -> bool:
    """Whether a callee can be an array's method that computes: `x.sum`, `x.at[0].set`."""
    if not isinstance(callee, ast.Attribute):
        return False
    root = callee.value
    value = names.values.get(root.id, MISSING) if isinstance(root, ast.Name) else MISSING
    if value is not MISSING and not names.is_array(value):
        return False
    arrays = getattr(sys.modules.get("numpy"), "ndarray", None)
    return callee.attr in _AT or (hasattr(arrays, callee.attr) and callee.attr not in _LEAVING)


_AT = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max", "apply", "get")
_LEAVING = tuple("item tolist tobytes tofile dump dumps fill itemset put setfield setflags".split())


def _is_of_jax(value: Any, names: Namespace) -> bool:
    return names.holds(value) and type(value).__module__ != "numpy"


def _parts(expression: ast.expr) -> Iterator[ast.AST]:
    """Yields the nodes of an expression, except those inside lambdas."""
    pending: list[ast.AST] = [expression]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def loads(tree: ast.AST) -> list[str]:
    """Returns the free names of an expression or statement, in source order.

    Names that a lambda or a comprehension binds are not free.
    """
    names: list[ast.Name] = []
    pending: list[tuple[ast.AST, frozenset[str]]] = [(tree, frozenset())]
    while pending:
        node, bound = pending.pop()
        inner = bound
        if isinstance(node, ast.Name):
            if node.id not in bound and isinstance(node.ctx, ast.Load):
                names.append(node)
        elif isinstance(node, ast.Lambda):
            inner |= {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        elif isinstance(node, _EACH):
            targets = [n for g in node.generators for n in ast.walk(g.target)]
            inner |= {n.id for n in targets if isinstance(n, ast.Name)}
            pending.append((node.generators[0].iter, bound))  # evaluated in the outer scope
        pending.extend((child, inner) for child in ast.iter_child_nodes(node))
    names.sort(key=lambda name: (name.lineno, name.col_offset))
    return list(dict.fromkeys(name.id for name in names))


def binds(statement: ast.stmt) -> set[str]:
    """Returns the names that an assignment binds."""
    if not isinstance(statement, _ASSIGNMENT):
        return set()
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return {
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
