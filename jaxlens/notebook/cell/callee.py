"""Resolves the callee of a call in the user's text without running the call.

A call of the user's own function is captured by itself; `jnp.sum(x)` or `x.sum()`, whose callee
belongs to JAX, NumPy or Python, is captured as part of a larger expression.
"""

import ast
import builtins
import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxlens.ir.spans import describe

_FOREIGN = ("jax", "jaxlib", "numpy", "jaxlens")
_C_FUNCTIONS = (
    types.BuiltinFunctionType
    | types.MethodWrapperType
    | types.MethodDescriptorType
    | types.WrapperDescriptorType
)
_COMPUTING = tuple(f"jax.{part}" for part in ("numpy", "lax", "nn", "random", "scipy", "image"))
# Classes of JAX and of jaxlens.core: stages, and what `jax.vjp` returns.
_STAGES = ("Compiled", "Lowered", "Traced", "Exported", "Jitted", "VJP")
MISSING = object()


@dataclass(frozen=True, slots=True)
class Namespace:
    """The user's namespace, and predicates on its values.

    Attributes:
        values: Values by name.
        is_array: Whether a value is one array.
        holds: Whether it is an array or a pytree with arrays in it.
        computes: Whether it is a function of JAX's that computes, and does nothing else.
    """

    values: Mapping[str, Any]
    is_array: Callable[[Any], bool]
    holds: Callable[[Any], bool]
    computes: Callable[[Any], bool]


def is_own(callee: ast.expr, names: Namespace) -> bool:
    """Whether a call of this callee is a call of the user's own function.

    Names, attributes of resolved values, and items of dicts, lists and tuples are resolved. A
    callee that only running code could resolve (a property, an index that calls) counts as own.
    """
    steps, root = _path(callee)
    if not isinstance(root, ast.Name):
        return not steps  # `make()(x)` and `(lambda x: x)(x)`, but not `(a + b).sum()`
    value = resolve(callee, names)
    return value is MISSING or not (names.is_array(value) or is_foreign(value))


def resolve(callee: ast.expr, names: Namespace) -> Any:
    """Returns the value of a name, attribute or item; `MISSING` if resolving it would run code.

    An undefined name is `MISSING` too. A method of an array resolves to the array.
    """
    steps, root = _path(callee)
    if not isinstance(root, ast.Name):
        return MISSING
    value = names.values.get(root.id, getattr(builtins, root.id, MISSING))
    for step in steps:
        if value is MISSING or names.is_array(value):
            return value
        value = _step(value, step, names.values)
    return value


def _path(callee: ast.expr) -> tuple[list[ast.expr], ast.expr]:
    """Returns the attribute and index nodes of `model.layers[0]`, root first, and its root."""
    steps: list[ast.expr] = []
    while isinstance(callee, ast.Attribute | ast.Subscript):
        steps.append(callee)
        callee = callee.value
    return steps[::-1], callee


def _step(value: Any, step: ast.expr, names: Mapping[str, Any]) -> Any:
    """Returns the value of one attribute or item; `MISSING` if resolving it would run code."""
    if isinstance(step, ast.Attribute):
        if isinstance(value, types.ModuleType):
            return getattr(value, step.attr, MISSING)
        static = inspect.getattr_static(value, step.attr, MISSING)
        plain = not hasattr(type(static), "__set__") and not isinstance(static, property)
        return getattr(value, step.attr, MISSING) if plain and static is not MISSING else MISSING
    index = step.slice if isinstance(step, ast.Subscript) else None
    if type(value) in (dict, list, tuple):
        key = index.value if isinstance(index, ast.Constant) else MISSING
        if isinstance(index, ast.Name):
            key = names.get(index.id, MISSING)
        try:
            return MISSING if key is MISSING else value[key]
        except (LookupError, TypeError):
            return MISSING
    return MISSING


def is_foreign(value: Any) -> bool:
    """Whether a callable is not captured: JAX's, NumPy's, Python's, a plotting library's.

    It is a library's only where its module has it under its name, as `jax.numpy` has `tanh`. What
    was made of it is the user's, whatever name it has copied: `jax.jit(jnp.tanh)`, `jax.vmap` of a
    partial, a decorated function. A function of a library that imports JAX is captured like the
    user's own.
    """
    if isinstance(value, functools.partial) and _computes(value):
        return False
    while isinstance(value, functools.partial):
        value = value.func
    holder = None
    if isinstance(value, types.MethodType):
        holder, value = value.__self__, value.__func__
    name = module_of(value)
    root = name.partition(".")[0]
    if not root or root == "__main__":
        return False  # defined by exec in a bare dict, or in the notebook
    is_run = type(holder).__name__ == "Exported"  # its method `call`
    if root in _FOREIGN and (type(value).__name__ in _STAGES or is_run):
        return False
    library = root in _FOREIGN or root in sys.stdlib_module_names or not _knows_jax(name)
    return library and not (_is_made(value) and not _is_at_home(value, name))


def module_of(value: Any) -> str:
    """Returns the name of the module that defines a function, or the class of an object."""
    while isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, types.FunctionType) and not getattr(value, "__module__", None):
        return ""
    name = getattr(value, "__module__", None)
    if not isinstance(name, str):  # `__getattr__` may return anything
        name = "builtins" if isinstance(value, _C_FUNCTIONS) else type(value).__module__
    return name


def _computes(bound: functools.partial[Any]) -> bool:
    """Whether a partial is one of JAX's own, or binds arguments of what computes with JAX."""
    module = module_of(bound).replace("._src", "", 1)  # where JAX keeps what it publishes
    return type(bound).__name__ == "Partial" or module.startswith(_COMPUTING)


def _is_made(value: Any) -> bool:
    """Whether a value is a function in Python, or an object that was made of one."""
    if isinstance(value, type | _C_FUNCTIONS):
        return False
    is_ufunc = type(value).__name__ == "ufunc" and module_of(value) == "jax.numpy"
    return is_ufunc or isinstance(value, types.FunctionType) or has(value, "__wrapped__")


def _is_at_home(value: Any, module: str) -> bool:
    """Whether a module has a value under its qualified name."""
    place: Any = sys.modules.get(module)
    # An object has no qualified name, and a ufunc a name.
    for part in str(getattr(value, "__qualname__", getattr(value, "__name__", ""))).split("."):
        place = getattr(place, part, None)
    return getattr(place, "__func__", place) is value


def has(value: Any, name: str) -> bool:
    """Whether an object has an attribute itself, and lends none of another by `__getattr__`."""
    return inspect.getattr_static(value, name, MISSING) is not MISSING


def _knows_jax(name: str) -> bool:
    """Whether a library's module imports JAX; True for every module of the user's."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or (file is not None and not describe(file).library):
        return True
    for value in list(vars(module).values()):
        is_module = isinstance(value, types.ModuleType)
        if is_module or isinstance(value, types.FunctionType | type):
            place = value.__name__ if is_module else module_of(value)
            if place.partition(".")[0] in ("jax", "jaxlib"):
                return True
    return False


_PURE = set(
    "abs len range sum min max tuple list dict zip enumerate reversed slice complex pow round "
    "isinstance sorted".split()
)


def is_pure(value: Any) -> bool:
    """Whether a function of Python's or NumPy's can run twice, having no side effects."""
    name = str(getattr(value, "__name__", ""))
    if module_of(value) == "builtins":
        return name in _PURE
    return module_of(value) == "numpy" and not name.startswith(("save", "load", "from", "put"))
