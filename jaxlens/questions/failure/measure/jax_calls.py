"""Whether an expression calls nothing but JAX; no code runs for the answer."""

import ast
import builtins
import inspect
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

import jax

from jaxlens import compat
from jaxlens.lines.user_frames import may_be_users
from jaxlens.questions.failure.measure.failing_value import is_tracer

_PURE: tuple[Any, ...] = (abs, all, any, bool, complex, float, int, len, max, min, pow, round, sum)
_PURE += (jax.debug.print, range)  # the first prints when the program runs
_TYPES_OF = ("builtins", "functools", "jax", "jaxlib", "jaxlens", "numpy")
_TRACED = object()  # stands for each array, and for what JAX makes of one
_FOREIGN = lambda: None  # noqa: E731 - stands for what may run code when it is read


def calls_jax_alone(code: str, variables: Mapping[str, Any]) -> bool:
    """Whether each function that an expression calls, or hands on, is JAX's own.

    Methods of traced values are. What counts is the object that a name stands for, and not its
    spelling. An object of the user's, or of a library's, may have operators and properties.

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
        map(_is_foreign, (*functions, *handed))
    )


def _is_foreign(value: Any) -> bool:
    """Whether a value is not JAX's or Python's own; `__getattr__` of objects is not asked."""
    if type(value).__module__.partition(".")[0] not in _TYPES_OF:
        return True
    if isinstance(value, FunctionType) and may_be_users(value.__code__):
        return True  # also one that has the name of JAX's, by functools.wraps
    own = any(value is other for other in _PURE)
    return callable(value) and not own and not compat.computes(value)


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
                value = inspect.getattr_static(owner, name, _FOREIGN)
                value = _FOREIGN if hasattr(type(value), "__get__") else value
        case ast.Call():
            value = _TRACED
        case ast.BinOp() | ast.UnaryOp() | ast.Subscript():
            parts = (_value(child, values) for child in ast.iter_child_nodes(node))
            value = _TRACED if any(part is _TRACED for part in parts) else None
    return _TRACED if is_tracer(value) or issubclass(type(value), jax.Array) else value
