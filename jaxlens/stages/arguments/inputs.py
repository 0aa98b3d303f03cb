"""Which leaves of a call's arguments are array inputs, which are static, and what they are called.

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
_LONGEST = 80
_NUMBERS = int | float | complex

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _LONGEST


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of the arguments, in JAX's order.

    Attributes:
        name: Its pytree path, bound to the parameter's name: "params['w']".
        value: What was passed.
        aval: Its abstract value; None for a static leaf.
        root: Position (an int) or keyword of the argument that holds it.
        fixed: Whether it is part of the program in a function that is not jitted.
        path: As `Input` has it.
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
    """Every leaf of the arguments; an argument that is None or empty has none."""
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
    """JAX's abstract value of it; None if JAX would not take it as an array.

    JAX prints what it refuses, which may be a whole model, so it is called for likely values only.
    """
    converts = hasattr(type(value), "__jax_array__")
    if not (converts or isinstance(value, _NUMBERS) or hasattr(value, "dtype")):
        return None
    try:
        return jax.typeof(value)
    except (TypeError, OverflowError, ValueError):
        return None


def root_names(count: int, signature: inspect.Signature | None) -> list[str]:
    """Names of the positional arguments: parameters' own, `args[2]` for what a star takes."""
    parameters = signature.parameters.values() if signature else ()
    star = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    names = positional_names(signature)
    return (names + [f"{star}[{i}]" for i in range(count - len(names))])[:count]


def positional_names(signature: inspect.Signature | None) -> list[str]:
    """Names of the parameters that can be passed by position, without `*args`."""
    parameters = signature.parameters.values() if signature else ()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def keyword_name(name: str, signature: inspect.Signature | None) -> str:
    """A keyword's own name; `kwargs['a b']` for one that Python could not write as a name."""
    if name.isidentifier():
        return name
    parameters = signature.parameters.values() if signature else ()
    star = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "kwargs")
    return f"{star}[{name!r}]"


def is_unregistered(value: Any) -> bool:
    """Whether it is an object whose class is not registered with JAX as a pytree.

    Texts, functions, enums, modules and the values of Python's own classes, JAX's and NumPy's
    are static in a function that is not jitted. An object of another class may hold arrays,
    which would become constants in silence; one that can be called is taken for a function
    unless it holds some.
    """
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if isinstance(value, enum.Enum | type) or package in (*_PACKAGES, *sys.stdlib_module_names):
        return False
    attributes = getattr(value, "__dict__", {}).values()
    return not callable(value) or any(isinstance(v, jax.Array | np.ndarray) for v in attributes)


_PACKAGES = ("builtins", "jax", "jaxlib", "numpy", "ml_dtypes")


def as_input(leaf: Leaf, donated: bool) -> Input:
    """What the first line of an output says of an array leaf."""
    return Input(leaf.name, type_of(leaf.aval), donated, _sharding_text(leaf.value), leaf.path)


def _sharding_text(value: Any) -> str:
    """The sharding of an array over several devices ("P('x', None) over 8"); "" for one device."""
    sharding = getattr(value, "sharding", None)
    if sharding is None or len(sharding.device_set) < 2:
        return ""
    over = f"over {len(sharding.device_set)} devices"
    spec = getattr(sharding, "spec", None)
    return f"{type(sharding).__name__} {over}" if spec is None else f"P{tuple(spec)} {over}"


def static_text(value: Any) -> str:
    """A static value in a bounded number of characters, the same from run to run."""
    if isinstance(value, ModuleType):
        return value.__name__
    name = getattr(value, "__qualname__", None) if callable(value) else None
    if isinstance(name, str):
        return name.replace("<locals>.", "")
    try:
        text = _short.repr(value)
    except Exception:  # a user's __repr__ may fail, and must not stop a look
        text = ""
    text = " ".join(_ADDRESS.sub("", text or f"<{type(value).__name__}>").split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def named_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any], signature: inspect.Signature | None
) -> dict[str, Any]:
    """The arguments of a call by name, positional ones first.

    A keyword that has the name of a positional-only parameter is written `kwargs['x']`.
    """
    names = root_names(len(args), signature)
    keywords = [keyword_name(name, signature) for name in kwargs]
    names += [f"kwargs[{name!r}]" if name in names else name for name in keywords]
    return dict(zip(names, (*args, *kwargs.values()), strict=True))


def signature_of(f: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, or None if Python has none."""
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return None
