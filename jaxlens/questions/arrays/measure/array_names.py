"""Finds the names that hold arrays: a notebook's variables, and what is inside them.

The search follows containers, pytrees, attributes of objects and closures of functions. Nothing is
called but the flattening of registered pytrees, and no property is evaluated. Then come the frames
of the last exception's traceback; what has no name even there is followed through Python's garbage
collector, from the array to what refers to it. The collector does not know the variables of
functions that run: what only these hold stays unknown.
"""

import gc
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from traceback import walk_tb
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call.arguments.closed_over_names import closure, defaults
from jaxlens.call.arguments.pytrees import leaves
from jaxlens.ir.spans import describe
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
        yield from ((f"{name}.{of}", getattr(value, of)) for of in ("args", "keywords", "func"))
        return
    if isinstance(value, FunctionType):
        known = (*closure(value), *defaults(value))
        yield from ((f"{variable} in {name}", inner) for variable, inner in known)
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


_LEVELS = 8  # containers between an array and what is named
_ARRAYS = 200
_THROUGH = (dict, list, tuple, set, frozenset, CellType, MappingProxyType, MethodType)
_LAST = ("last_exc", "last_value")


def made_at(array: Any) -> str:
    """Returns the user's line that made an array: "cell 3:4"; "" if it is unknown."""
    for key, line in compat.made_in(array):
        file = describe(key)
        if not file.library and not file.own:
            return f"{file.name}:{line}"
    return ""


def traceback_names() -> Iterator[tuple[str, Any]]:
    """Yields names with the local variables that the last exception's traceback keeps."""
    errors: list[BaseException | None] = [getattr(sys, name, None) for name in _LAST]
    errors = list({id(error): error for error in errors if error is not None}.values())
    for error in errors:  # grows below: an error may have come from another
        if error is None:
            continue
        kind = type(error).__name__
        for frame, _ in walk_tb(error.__traceback__):
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if frame.f_locals is frame.f_globals or package in MACHINERY | {"jaxlens"}:
                continue
            place = frame.f_code.co_name
            for name, value in list(frame.f_locals.items()):
                yield f"{name} in {place} ({TRACEBACK} {kind})", value
        for other in (error.__cause__, error.__context__):
            if other is not None and not any(other is seen for seen in errors):
                errors.append(other)


def holders(arrays: Sequence[Any]) -> dict[int, str]:
    """Returns what keeps each array alive, by the identity of the array.

    Args:
        arrays: Arrays that no name leads to; of many only the first are followed.
    """
    arrays = list(arrays[:_ARRAYS])
    found: dict[int, str] = {}
    # Each object on the way, with the arrays that it leads to.
    level: dict[int, tuple[Any, set[int]]] = {id(a): (a, {id(a)}) for a in arrays}
    seen = set(level)
    own = {id(arrays), id(level)}
    for _ in range(_LEVELS if arrays else 0):
        objects = [target for target, _ in level.values()]
        above: dict[int, tuple[Any, set[int]]] = {}
        for holder in gc.get_referrers(*objects):
            if holder is objects or id(holder) in own or id(holder) in seen or _is_ours(holder):
                continue
            led = [level[id(r)][1] for r in gc.get_referents(holder) if id(r) in level]
            reached = set().union(*led) - found.keys()
            if name := _name(holder):
                found |= dict.fromkeys(reached, name)
            elif isinstance(holder, _THROUGH):
                above[id(holder)] = holder, reached
        seen |= above.keys()
        own |= {id(level), id(above), id(objects)}
        level = {n: (o, left) for n, (o, led) in above.items() if (left := led - found.keys())}
        own.add(id(level))
        if not level:
            break
    return found


def _is_ours(holder: Any) -> bool:
    """Whether an object is a part of this search: a frame of jaxlens, or a tuple in `level`."""
    if isinstance(holder, FrameType):
        file = describe(holder.f_code.co_filename)
        return file.own and file.name.startswith("jaxlens/")
    # pairs of an object and a set of identities, as in `holders`
    return isinstance(holder, tuple) and len(holder) == 2 and isinstance(holder[1], set)


def _name(holder: Any) -> str:
    """Returns what an object is, if it says something; "" for a mere container."""
    if isinstance(holder, FrameType):
        place = f"{describe(holder.f_code.co_filename).name}:{holder.f_lineno}"
        return f"a traceback, by the call of {holder.f_code.co_name} that ended at {place}"
    if isinstance(holder, GeneratorType | CoroutineType):
        return f"the suspended {holder.__qualname__}"
    if isinstance(holder, FunctionType):
        # `exec` without a `__name__` makes functions of no module.
        module = holder.__module__ or ""
        if not module.startswith("jaxlens."):
            return f"the function {module}.{holder.__qualname__}".replace(" .", " ")
    if isinstance(holder, dict) and "__name__" in holder and "__spec__" in holder:
        return f"the module {holder['__name__']}"
    if isinstance(holder, (*_THROUGH, ModuleType, CodeType, TracebackType, BuiltinFunctionType)):
        return ""
    kind = type(holder)
    package = kind.__module__.partition(".")[0]
    if kind.__name__ in ("ClosedJaxpr", "Jaxpr") and package == "jax":
        return "JAX, as a constant of a traced program"
    if package in ("jax", "jaxlib"):
        return f"JAX, in a {kind.__name__}"
    return f"an object of {kind.__module__}.{kind.__qualname__}"
