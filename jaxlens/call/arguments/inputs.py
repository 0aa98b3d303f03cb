"""Names the leaves of a call's arguments, and tells array inputs from static values.

An array leaf is what JAX itself gives an abstract value: jax and numpy arrays, numbers,
PRNG keys, `ShapeDtypeStruct`s. Everything else (strings, callables, enums, modules, other
objects) is part of the program. So are, in a function that is not jitted, a Python bool
(`train=True`) and a Python number that an object holds as an attribute (a model's `rate`):
as tracers they would only stop the trace where the eager call works.
"""

import enum
import inspect
import re
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import numpy as np

from jaxlens.ir.facts import Input
from jaxlens.ir.jaxpr.types import type_of

_ADDRESS = re.compile(r"(?<!\s)\s++at 0x[0-9a-fA-F]++")
_CUSTOM_NODE = re.compile(r"CustomNode\((\w+)\[([^\[\]]*+)\], ")  # in a PyTreeDef: class, aux data
_LONGEST = 80
_NUMBERS = int | float | complex

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _LONGEST


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of the arguments.

    Attributes:
        name: Its pytree path, starting with the parameter's name: "params['w']".
        value: The leaf.
        aval: Its abstract value; None for a static leaf.
        root: Position (an int) or keyword of the argument that holds it.
        fixed: Whether it is part of the program in a function that is not jitted.
        path: See `Input.path`.
    """

    name: str
    value: Any
    aval: Any
    root: int | str
    fixed: bool
    path: str = ""


def leaves(
    args: Sequence[Any], kwargs: Mapping[str, Any], signature: inspect.Signature | None
) -> list[Leaf]:
    """Returns every leaf of the arguments in JAX's order; None and empty containers have none."""
    call_leaves = []
    flat, _ = jax.tree_util.tree_flatten_with_path((tuple(args), dict(kwargs)))
    roots = root_names(len(args), signature)
    for path, value in flat:
        root = getattr(path[1], "idx" if path[0].idx == 0 else "key")
        name = roots[root] if isinstance(root, int) else keyword_name(root, signature)
        aval = abstract(value)
        is_attribute = len(path) > 2 and isinstance(path[-1], jax.tree_util.GetAttrKey)
        is_option = isinstance(value, bool) or (is_attribute and isinstance(value, _NUMBERS))
        fixed = aval is None or is_option
        call_leaves.append(Leaf(name + jax.tree_util.keystr(path[2:]), value, aval, root, fixed))
    return call_leaves


def abstract(value: Any) -> Any:
    """Returns JAX's abstract value of a leaf; None if JAX does not accept it as an array.

    JAX prints what it rejects, which may be a whole model, so it is called for likely values only.
    """
    converts = hasattr(type(value), "__jax_array__")
    if not (converts or isinstance(value, _NUMBERS) or hasattr(value, "dtype")):
        return None
    try:
        return jax.typeof(value)
    except (TypeError, OverflowError, ValueError):
        return None


def root_names(count: int, signature: inspect.Signature | None) -> list[str]:
    """Returns the names of the positional arguments, such as `args[2]` for a variadic one."""
    parameters = signature.parameters.values() if signature else ()
    star = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    names = positional_names(signature)
    return (names + [f"{star}[{i}]" for i in range(count - len(names))])[:count]


def positional_names(signature: inspect.Signature | None) -> list[str]:
    """Returns the names of the parameters that can be passed by position, without `*args`."""
    parameters = signature.parameters.values() if signature else ()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def keyword_name(name: str, signature: inspect.Signature | None) -> str:
    """Returns the name of a keyword argument, such as `kwargs['a b']` if it is no identifier."""
    if name.isidentifier():
        return name
    parameters = signature.parameters.values() if signature else ()
    star = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "kwargs")
    return f"{star}[{name!r}]"


def is_unregistered(value: Any) -> bool:
    """Whether a leaf is an object whose class could be a pytree but is not registered with JAX.

    Strings, functions, enums, modules and objects of Python's, JAX's and NumPy's own classes are
    static in a function that is not jitted. An object of another class may have arrays as
    attributes, which would silently become constants; a callable one counts only if it has some.
    """
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if isinstance(value, enum.Enum | type) or package in (*_PACKAGES, *sys.stdlib_module_names):
        return False
    attributes = getattr(value, "__dict__", {}).values()
    return not callable(value) or any(isinstance(v, jax.Array | np.ndarray) for v in attributes)


_PACKAGES = ("builtins", "jax", "jaxlib", "numpy", "ml_dtypes")


def as_input(leaf: Leaf, donated: bool) -> Input:
    """Returns the description of an array leaf."""
    return Input(leaf.name, type_of(leaf.aval), donated, sharding_text(leaf.value), leaf.path)


def sharding_text(value: Any) -> str:
    """Returns the sharding over several devices ("P('x') over 8 devices"); "" for one device."""
    sharding = getattr(value, "sharding", None)
    if sharding is None or len(sharding.device_set) < 2:
        return ""
    over = f"over {len(sharding.device_set)} devices"
    spec = getattr(sharding, "spec", None)
    return f"{type(sharding).__name__} {over}" if spec is None else f"P{tuple(spec)} {over}"


def static_text(value: Any, most: int = _LONGEST) -> str:
    """Returns a text of a static value, without addresses, the same in every run.

    Args:
        value: The value.
        most: Its most characters.
    """
    if isinstance(value, ModuleType):
        return value.__name__
    name = getattr(value, "__qualname__", None) if callable(value) else None
    if isinstance(name, str):
        return name.replace("<locals>.", "")
    try:
        text = _short.repr(value) if most <= _LONGEST else repr(value)
    except Exception:  # a user's __repr__ may fail, and must not stop a look
        text = ""
    text = " ".join(_ADDRESS.sub("", text or f"<{type(value).__name__}>").split())
    text = _CUSTOM_NODE.sub(r"\1(\2, ", text) if "CustomNode(" in text else text
    return text if len(text) <= most else text[: most - 3] + "..."


def named_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any], signature: inspect.Signature | None
) -> dict[str, Any]:
    """Returns the arguments of a call by name, positional ones first.

    A keyword that has the name of a positional-only parameter is written `kwargs['x']`.
    """
    names = root_names(len(args), signature)
    keywords = [keyword_name(name, signature) for name in kwargs]
    names += [f"kwargs[{name!r}]" if name in names else name for name in keywords]
    return dict(zip(names, (*args, *kwargs.values()), strict=True))


def signature_of(f: Callable[..., Any]) -> inspect.Signature | None:
    """Returns the signature of a callable; None if Python cannot determine it."""
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return None
