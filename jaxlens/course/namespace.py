"""Runs the source of an answer or of a prediction in a namespace of its own."""

import ast
import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any


def names_of_lessons() -> dict[str, Any]:
    """Returns what the first cell of every lesson imports, by name.

    Where JAX cannot be imported, these are NumPy and jaxlens.
    """
    import numpy as np

    import jaxlens

    names: dict[str, Any] = {"np": np, "jaxlens": jaxlens}
    with suppress(ImportError):
        import jax

        from jaxlens import core

        names |= {"jax": jax, "jnp": jax.numpy, "lax": jax.lax, "core": core, "cnp": core.numpy}
    return names


def run_source(code: str, file: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Runs source as a cell of a lesson would, after the lesson's imports.

    Args:
        code: The source.
        file: The name that it is compiled with; tracebacks and line traces find its text by it.
        given: Further names that it may use.

    Returns:
        All names of the namespace.
    """
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    names = names_of_lessons() | dict(given or {})
    exec(compile(code, file, "exec"), names)
    return names


def bound(statements: Iterable[ast.stmt]) -> set[str]:
    """Returns the names that statements bind, also inside `if`, `for` and `with`."""
    names = set()
    todo: list[ast.AST] = list(statements)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue  # what is bound inside is its own
        if isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        todo += ast.iter_child_nodes(node)
    return names


def python(cell: str) -> str:
    """Returns a cell as Python: a magic over all of it is an empty line, others are calls.

    Such a call is of `get_ipython()`, which `no_shell` stands for where nothing is to be shown.
    """
    if cell.startswith("%%"):
        cell = f"\n{cell.partition(chr(10))[2]}"
    with suppress(SyntaxError):
        ast.parse(cell)
        return cell
    from IPython.core.inputtransformer2 import TransformerManager

    above = len(cell) - len(cell.lstrip("\n"))  # which IPython removes
    return "\n" * above + str(TransformerManager().transform_cell(cell))


def needed(
    code: str, cells: Sequence[str], is_known: Callable[[str], bool]
) -> Iterator[tuple[int, ast.stmt]]:
    """Yields the statements of earlier cells that source needs, in order.

    These are the last ones that bind each of its names, those that changed it since, and what
    these need in turn.

    Args:
        code: Source.
        cells: The sources of the cells above it.
        is_known: Whether the value of a name is there already.

    Yields:
        The number of a cell, and a statement of it.
    """
    above = [(n, statement) for n, cell in enumerate(cells) for statement in _parsed(cell)]
    chosen, seen = set[int](), set[str]()
    todo = _names(_parsed(code))
    while todo:
        name = todo.pop()
        if name in seen or is_known(name):
            continue
        seen.add(name)
        for place in reversed(range(len(above))):
            statement = above[place][1]
            binds = name in bound([statement])
            if binds or _changes(statement, name):
                if place not in chosen:
                    chosen.add(place)
                    todo |= _names([statement])
                if binds and not _reads(statement, name):
                    break
    for place in sorted(chosen):
        yield above[place]


def _parsed(cell: str) -> list[ast.stmt]:
    with suppress(SyntaxError):
        return ast.parse(python(cell)).body
    return []


def _names(statements: Iterable[ast.stmt]) -> set[str]:
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _reads(statement: ast.stmt, name: str) -> bool:
    """Whether a statement needs what a name stood for before it, as `x = f(x)` does."""
    loads = any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        for node in ast.walk(statement)
    )
    return loads or isinstance(statement, ast.AugAssign)


def _changes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement sets a part of an object by name, or is a call of a method of it."""
    called = (
        [statement.value.func]
        if (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call))
        else []
    )
    for node in (*called, *ast.walk(statement)):
        is_set = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.Attribute | ast.Subscript) and (is_set or node in called):
            while isinstance(node, ast.Attribute | ast.Subscript):
                node = node.value
            if isinstance(node, ast.Name) and node.id == name:
                return True
    return False
