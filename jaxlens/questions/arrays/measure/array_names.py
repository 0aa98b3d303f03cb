"""Finds the names that hold arrays: a notebook's variables, and what is inside them.

The search follows containers, pytrees, attributes of objects and closures of functions. Nothing is
called but the flattening of registered pytrees, and no property is evaluated.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call.arguments.closed_over_names import closure, defaults
from jaxlens.call.arguments.pytrees import leaves
from jaxlens.questions.arrays.live_arrays import TRACEBACK

_LEAVES = 200_000
_SKIPPED = ("In", "_ih", "_oh", "_dh", "exit", "quit", "get_ipython")  # IPython's own names
# A widget refers to its comm, that to the kernel, and the kernel to all variables once more.
MACHINERY = frozenset({"IPython", "comm", "ipykernel", "jupyter_client", "traitlets", "zmq"})


def array_names(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields names with the JAX arrays that they lead to, plain names first.

    Names that begin with an underscore come last, and so does IPython's `Out`, which keeps every
    result that a notebook has displayed.
    """
    entries = [(name, value) for name, value in list(namespace.items()) if name not in _SKIPPED]
    entries.sort(key=lambda entry: is_automatic(entry[0]))  # stable: else in order of definition
    pending = deque((name, value, False) for name, value in entries if isinstance(name, str))
    opened: set[int] = set()
    left = _LEAVES
    while pending and left > 0:
        name, value, own = pending.popleft()
        if isinstance(value, ModuleType | type | str | bytes | int | float):
            continue
        for step, leaf in leaves(value, left):
            left -= 1
            base = compat.base_array(leaf)
            array = leaf if base is None else base
            path = name if own else name + step
            if isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer):
                yield path, array
            elif id(leaf) not in opened:
                opened.add(id(leaf))
                # Of a capture or an answer the variable alone: its attributes are jaxlens's own.
                inside = own or type(leaf).__module__.partition(".")[0] == "jaxlens"
                pending += [(path if inside else to, x, inside) for to, x in _inside(path, leaf)]


def is_automatic(name: str) -> bool:
    """Whether a name is one that IPython binds, a private one, or one in a traceback."""
    return name.startswith(("_", "Out[")) or name == "Out" or f"({TRACEBACK} " in name


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields what an object that is no pytree refers to."""
    if isinstance(value, ModuleType | type):
        return
    if type(value).__module__.partition(".")[0] in MACHINERY:
        return
    if isinstance(value, MethodType):
        yield f"{name}.__self__", value.__self__
        return
    if isinstance(value, partial):
        yield f"{name}.args", value.args
        yield f"{name}.keywords", value.keywords
        yield f"{name}.func", value.func
        return
    if isinstance(value, FunctionType):
        yield from ((f"{variable} in {name}", inner) for variable, inner in closure(value))
        yield from ((f"{variable} in {name}", inner) for variable, inner in defaults(value))
    if isinstance(value, deque):
        yield from ((f"{name}[{index}]", inner) for index, inner in enumerate(list(value)))
        return
    for kind in type(value).__mro__:
        for slot in vars(kind).get("__slots__", ()):
            with suppress(AttributeError):  # a slot that is empty
                if isinstance(vars(kind).get(slot), MemberDescriptorType):
                    yield f"{name}.{slot}", getattr(value, slot)
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, Mapping):
        for attribute, inner in list(attributes.items()):
            if attribute == "__wrapped__":
                yield name, inner
            elif isinstance(attribute, str):
                yield f"{name}.{attribute}", inner
