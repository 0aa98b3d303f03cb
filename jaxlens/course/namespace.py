"""Runs the source of an answer or of a prediction in a namespace of its own."""

import ast
import linecache
from collections.abc import Iterable, Mapping
from typing import Any


def run_source(code: str, file: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Runs source as a cell of a lesson would, after the lesson's imports.

    Args:
        code: The source.
        file: The name that it is compiled with; tracebacks and line traces find its text by it.
        given: Further names that it may use.

    Returns:
        All names of the namespace.
    """
    import jax
    import numpy as np

    import jaxlens
    from jaxlens import core

    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    names: dict[str, Any] = {"jax": jax, "jnp": jax.numpy, "np": np, "lax": jax.lax}
    names |= {"jaxlens": jaxlens, "core": core, "cnp": core.numpy, **(given or {})}
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
