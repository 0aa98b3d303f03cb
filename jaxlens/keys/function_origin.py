"""Finds the Python line that defines a function, inside partials, methods and transforms."""

import functools
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from jaxlens import compat
from jaxlens.call import equinox_calls
from jaxlens.call.traceable import function_name
from jaxlens.compat import events as compat_events
from jaxlens.ir.compile_log import KeyChange
from jaxlens.ir.graph import Span
from jaxlens.ir.spans import describe, spans


@dataclass(frozen=True, slots=True)
class FunctionOrigin:
    """The definition of a function object.

    Attributes:
        wrappers: The wrappers of the innermost function: "functools.partial", "jax.grad".
        file: Its `co_filename`.
        line: Its first line.
        name: Its qualified name.
        site: The user's line of the call, for a function that a library created.
        code: A hash of its code: what a module defines after it was edited is another function.
    """

    wrappers: tuple[str, ...]
    file: str
    line: int
    name: str
    site: str = ""
    code: int = 0

    @property
    def span(self) -> Span | None:
        """The definition as a span; None for a function of JAX's."""
        frame = (self.file, self.line, self.line, -1, -1, self.name.rpartition(".")[2])
        return next(iter(spans([frame])), None) if self.line else None


UNKNOWN_ORIGIN = FunctionOrigin((), "", 0, "")


def function_origin(fun: Any) -> FunctionOrigin:
    """Returns the definition of the innermost function of partials, methods and transforms."""
    wrappers: list[str] = []
    visited: dict[int, Any] = {}  # a function's __wrapped__ may be itself
    while id(fun) not in visited:
        visited[id(fun)] = fun
        if isinstance(fun, functools.partial):
            wrappers.append("functools.partial")
            fun = fun.func
        elif compat.attribute(fun, "__func__") is not None:
            wrappers.append("bound method")
            fun = fun.__func__
        elif name := compat.transform_name(fun):
            wrappers.append(f"jax.{name}")
            fun = compat.wrapped(fun) or fun
        elif compat.attribute(fun, "__wrapped__") is not None:
            if compat.jit_parts(fun) is not None:
                wrappers.append("jax.jit")
            fun = fun.__wrapped__
        else:
            break
    code = compat.attribute(fun, "__code__") or getattr(type(fun).__call__, "__code__", None)
    if code is None:
        return FunctionOrigin(tuple(wrappers), "", 0, function_name(fun))
    place = code.co_filename, code.co_firstlineno, code.co_qualname
    return FunctionOrigin(tuple(wrappers), *place, code=hash(code))


def place_of(fun: Any) -> tuple[str, int] | None:
    """Returns file and line of a plain function, as most in JAX's caches are; None for another.

    It is quick: `function_origin` looks into partials, methods and what Equinox makes.
    """
    if type(fun) is not FunctionType or hasattr(fun, "__wrapped__"):
        return None
    code = fun.__code__
    return None if equinox_calls.is_equinox(fun) else (code.co_filename, code.co_firstlineno)


def recreated(name: str, place: FunctionOrigin) -> KeyChange:
    """Returns the key change of a new function object that the same Python line created."""
    span = place.span
    where = f" (defined at {span.file}:{span.line})" if span else ""
    if place.site and span:
        return KeyChange("function", name, f"a new function object that {span.file} made")
    wrapper = place.wrappers[0] if place.wrappers else ""
    inner = place.name.rpartition(".")[2]
    texts = {
        "": f"a new function object of the same {'lambda' if inner == '<lambda>' else 'def'}",
        "functools.partial": f"a new functools.partial of {inner}",
        "bound method": f"a new bound method {inner}",
    }
    text = texts.get(wrapper, f"a new function that {wrapper} made of {inner}")
    return KeyChange("function", name, f"{text}{where}")


def is_jax_function(place: FunctionOrigin, fun: Any) -> bool:
    """Whether a jitted function is one of JAX's own, such as an op called outside of jit."""
    if compat_events.is_primitive(fun):
        return True
    if "jax.jit" in place.wrappers[:1]:
        return False  # jax.jit(jnp.sum) is the user's
    return bool(place.file) and describe(place.file).name.startswith(("jax/", "jaxlib/"))
