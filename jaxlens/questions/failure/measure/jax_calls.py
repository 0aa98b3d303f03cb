"""Whether an expression calls nothing but JAX; no code runs for the answer."""

import ast
import builtins
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax

from jaxlens import compat
from jaxlens.questions.failure.measure.failing_value import is_tracer

_PURE: tuple[Any, ...] = (abs, all, any, bool, complex, float, int, len, max, min, pow, round, sum)
_PURE += (jax.debug.print, range)  # the first prints when the program runs
_TYPES_OF = ("builtins", "functools", "jax", "jaxlib", "jaxlens", "numpy")
_TRACED = object()  # stands for each array, and for what JAX makes of one


def calls_jax_alone(code: str, variables: Mapping[str, Any]) -> bool:
    """Whether each function that an expression calls, or hands on, is JAX's own.

    Methods of traced values are. What counts is the object that a name stands for, and not its
    spelling. Code that a property or an operator of the user's runs is not seen here.

    Args:
        code: The expression.
        variables: The values of its names.
    """
    nodes = list(ast.walk(ast.parse(code, mode="eval")))
    values = {**vars(builtins), **variables}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    values |= {name.id: None for name in names if isinstance(name.ctx, ast.Store)}
    values |= {n.arg: _TRACED for n in nodes if isinstance(n, ast.arg)}  # of a lambda: JAX calls it
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    owners = [node.value for node in attributes]
    handed = [_value(node, values) for node in (*names, *attributes) if node not in owners]
    functions = [_value(node, values) for node in called]
    return all(function is not None for function in functions) and not any(
        _is_foreign(value) for value in (*functions, *handed) if callable(value)
    )


def _is_foreign(function: Any) -> bool:
    """Whether a function is not JAX's own; `__getattr__` of the user's objects is not asked."""
    if type(function).__module__.partition(".")[0] not in _TYPES_OF:
        return True
    return not any(function is other for other in _PURE) and not compat.computes(function)


def _value(node: ast.AST, values: Mapping[str, Any]) -> Any:
    """Returns the value of an expression as far as it is known without running code, else None."""
    value: Any = None
    match node:
        case ast.Name():
            value = values.get(node.id)
        case ast.Attribute(value=part, attr=name):
            owner = _value(part, values)
            if owner is _TRACED:
                value = None if name == "delete" else _TRACED
            elif type(owner) is ModuleType:  # `__getattr__` of a user's module is not asked
                is_own = owner.__name__.startswith(("jax.", "jaxlens."))
                value = getattr(owner, name, None) if is_own else vars(owner).get(name)
            else:
                value = inspect.getattr_static(owner, name, None)
        case ast.Call():
            value = _TRACED
        case ast.BinOp() | ast.UnaryOp() | ast.Subscript():
            parts = (_value(child, values) for child in ast.iter_child_nodes(node))
            value = _TRACED if any(part is _TRACED for part in parts) else None
    return _TRACED if is_tracer(value) or issubclass(type(value), jax.Array) else value
