"""Whose function a call calls, found out without running the call.

A call of the user's own function is looked at from the inside; `jnp.sum(x)` or `x.sum()`,
whose callee belongs to JAX, NumPy or Python, is part of a larger expression.
"""

import ast
import builtins
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

_FOREIGN = ("jax", "jaxlib", "numpy", "builtins", "operator", "math")
_COMPILED = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)
_MISSING = object()


def is_own(callee: ast.expr, names: Mapping[str, Any], is_array: Callable[[Any], bool]) -> bool:
    """Whether a call of this callee is a call of the user's own function.

    Names, attributes of what is known, and items of dicts, lists and tuples are looked up;
    anything that would run code (a property, an index that calls) is not, and counts as own.

    Args:
        callee: What stands before the parentheses.
        names: The user's namespace.
        is_array: Tells arrays, whose methods are JAX's or NumPy's.
    """
    steps, root = _path(callee)
    if not isinstance(root, ast.Name):
        return not steps  # `make()(x)` and `(lambda x: x)(x)`, but not `(a + b).sum()`
    found = names.get(root.id, getattr(builtins, root.id, _MISSING))
    for step in steps:
        if found is _MISSING:
            return True  # evaluating it gives the user's own NameError or AttributeError
        if is_array(found):
            return False
        found = _step(found, step, names)
    return found is _MISSING or not (is_array(found) or _is_foreign(found))


def _path(callee: ast.expr) -> tuple[list[ast.expr], ast.expr]:
    """`model.layers[0]` as the steps from its root, and the root."""
    steps: list[ast.expr] = []
    while isinstance(callee, ast.Attribute | ast.Subscript):
        steps.append(callee)
        callee = callee.value
    return steps[::-1], callee


def _step(found: Any, step: ast.expr, names: Mapping[str, Any]) -> Any:
    """What one attribute or index leads to; `_MISSING` where only running code could tell."""
    if isinstance(step, ast.Attribute):
        if isinstance(found, types.ModuleType):
            return getattr(found, step.attr, _MISSING)
        static = inspect.getattr_static(found, step.attr, _MISSING)
        plain = not hasattr(type(static), "__set__") and not isinstance(static, property)
        return getattr(found, step.attr, _MISSING) if plain and static is not _MISSING else _MISSING
    index = step.slice if isinstance(step, ast.Subscript) else None
    if type(found) in (dict, list, tuple):
        key = index.value if isinstance(index, ast.Constant) else _MISSING
        if isinstance(index, ast.Name):
            key = names.get(index.id, _MISSING)
        try:
            return _MISSING if key is _MISSING else found[key]
        except (LookupError, TypeError):
            return _MISSING
    return _MISSING


def _is_foreign(found: Any) -> bool:
    while isinstance(found, functools.partial):
        found = found.func
    if type(found).__name__ == "Compiled":
        return False  # what `lowered.compile()` gave: a program of the user's
    if isinstance(found, types.FunctionType) and not getattr(found, "__module__", None):
        return False  # made by exec in a bare dict
    if isinstance(found, _COMPILED):
        module = getattr(found, "__module__", None) or "builtins"
    else:
        module = getattr(found, "__module__", None) or type(found).__module__
    return str(module).partition(".")[0] in _FOREIGN
