"""The traced value that a failing line used, and its origin."""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.ir.jaxpr.frames import resolver
from jaxlens.ir.jaxpr.types import notation, type_of
from jaxlens.ir.spans import describe
from jaxlens.lines.equations import equation_text
from jaxlens.questions.failure.facts import TracedValue
from jaxlens.questions.failure.measure.failing_line import FailingLine

_MOST = 6  # operands that are listed
_DEPTH, _ITEMS = 4, 100  # of containers that are searched for them
_OF_NO_VALUE: tuple[str, ...] = ("", "argument", "static", "carry", "branches")
_OF_AN_EXPRESSION: tuple[str, ...] = ("condition", "number", "shape", "mask", "numpy")
_OF_ITS_ARGUMENT: tuple[str, ...] = ("number", "numpy")
_SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_CONVERSIONS = ("int", "float", "complex", "bool", "round")
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "condition": lambda tracer: _is(tracer, np.bool_),
    "mask": lambda tracer: _is(tracer, np.bool_),
    "shape": lambda tracer: _is(tracer, np.integer),
    "key as data": lambda tracer: _is(tracer, jax.dtypes.prng_key),
    "data as key": lambda tracer: not _is(tracer, jax.dtypes.prng_key),
}


def _is(tracer: Any, kind: Any) -> bool:
    dtype = getattr(tracer.aval, "dtype", None)
    return dtype is not None and bool(jnp.issubdtype(dtype, kind))


def is_tracer(value: Any) -> bool:
    """Whether a value is a tracer of JAX or of `jaxlens.core`."""
    return issubclass(type(value), jax.core.Tracer) or is_core_tracer(value)


def is_core_tracer(value: Any) -> bool:
    """Whether a value is a tracer of `jaxlens.core`."""
    return any(
        base.__name__ == "Tracer" and base.__module__ == "jaxlens.core.kernel.interpreter"
        for base in type(value).__mro__
    )


def traced_value(line: FailingLine, mistake: str) -> TracedValue | None:
    """Returns the traced value that caused the failure; None if it cannot be determined."""
    # Two sources: a tracer in JAX's frames below the line (exact, but without the user's name), and
    # the variables that the failing expression names (perhaps several). If one object is in both,
    # it has that name: `if mask:`. Else its text is that of the expression: "x > 0".
    if mistake in _OF_NO_VALUE:
        return None
    fits = _FITS.get(mistake, lambda _: True)
    named = {text: value for text, value in names(line) if is_tracer(value) and fits(value)}
    below = next((t for frame in line.below for t in tracers(frame) if fits(t)), None)
    same = [text for text, value in named.items() if value is below]
    if below is not None and (same or mistake in _OF_AN_EXPRESSION):
        value = described(below, same[0] if same else _written(line, mistake))
        is_part = not same and not value.made and len(value.arguments) == 1
        return replace(value, text=value.arguments[0]) if is_part else value
    if len(named) != 1:
        return None
    text, tracer = named.popitem()
    if mistake in _OF_ITS_ARGUMENT and text != _written(line, mistake):
        return None  # in `float(x.sum())` the value is `x.sum()`, not `x`
    return described(tracer, text)


def described(tracer: Any, text: str) -> TracedValue:
    """Returns the type, defining equation, source line and arguments of a traced value."""
    if is_core_tracer(tracer):
        return _by_core(tracer, text)
    origin = compat.origin(tracer)
    equation = origin.equation
    stack = resolver()(equation.source_info.traceback) if equation is not None else ()
    place = next((span for span in stack if not span.library), None)
    library = describe(origin.file).own if origin.file else False  # JAX's own jitted function
    return TracedValue(
        text,
        notation(type_of(tracer.aval)),
        equation_text(equation) if equation is not None else "",
        f"{place.file}:{place.line}" if place else "",
        () if library else origin.arguments,
        "" if library else origin.function,
    )


def _by_core(tracer: Any, text: str) -> TracedValue:
    """Describes a tracer of `jaxlens.core`, which records its own source line."""
    from jaxlens.core.transforms.errors import origin

    line, kind = origin(tracer), str(type_of(tracer.aval))
    if not line:
        return TracedValue(text, kind)
    if line == "the arguments":
        return TracedValue(text, kind, arguments=(text,) if text.isidentifier() else ())
    place, _, function = line.removesuffix(")").partition(" (")
    return TracedValue(text, kind, made_at=place, function=function)


def operands(line: FailingLine, shows: Callable[[Any], bool]) -> tuple[str, ...]:
    """Returns the values that the failing expression names, as "name: type".

    Args:
        line: The failing line.
        shows: Selects values of these names, and of the containers that they stand for.
    """
    values = (part for text, value in names(line) for part in _parts(text, value))
    shown = (
        f"{text}: {'None' if value is None else notation(type_of(value.aval))}"
        for text, value in values
        if shows(value)
    )
    return tuple(islice(shown, _MOST))


def _parts(text: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yields a value, or those that a dict, list or tuple holds, with the code that names them."""
    if type(value) not in (dict, list, tuple) or depth > _DEPTH:
        yield text, value
        return
    items = value.items() if type(value) is dict else enumerate(value)
    for key, part in islice(items, _ITEMS):
        yield from _parts(f"{text}[{key!r}]", part, depth + 1)


def names(line: FailingLine) -> Iterator[tuple[str, Any]]:
    """Yields the variables that the failing expression names, each once, with their values."""
    node = line.expression or (line.around[-1] if line.around else None)
    if node is None or isinstance(node, ast.Module):
        return
    variables = line.variables
    for name in dict.fromkeys(_free(node)):
        if name in variables:
            yield name, variables[name]


def _free(node: ast.AST) -> Iterator[str]:
    """Yields the names that a node reads, but not the parameters of a lambda or comprehension.

    These have no value in the frame: a variable of the same name is another value.
    """
    pending: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset())]
    while pending:
        part, bound = pending.pop()
        if isinstance(part, ast.Name) and part.id not in bound:
            yield part.id
        if isinstance(part, _SCOPES):
            inner = list(ast.walk(part))
            bound |= {p.id for p in inner if isinstance(p, ast.Name) and type(p.ctx) is ast.Store}
            bound |= {p.arg for p in inner if isinstance(p, ast.arg)}
        pending += [(child, bound) for child in reversed(list(ast.iter_child_nodes(part)))]


def tracers(frame: FrameType) -> Iterator[Any]:
    """Yields the tracers in the variables of a frame, including those in a shape or a slice."""
    for value in list(frame.f_locals.values()):
        for part in value if type(value) in (tuple, list) else (value,):
            ends = (part.start, part.stop, part.step) if type(part) is slice else (part,)
            yield from filter(is_tracer, ends)


def _written(line: FailingLine, mistake: str) -> str:
    """Returns the source of the expression that computes an unnamed value; "" if unclear."""
    node = line.expression
    if mistake == "mask" and isinstance(node, ast.Subscript):
        return ast.unparse(node.slice)
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        converts = name in _CONVERSIONS if mistake == "number" else mistake in ("shape", "numpy")
        single = converts and len(node.args) == 1 and not node.keywords
        return ast.unparse(node.args[0]) if single else ""
    return ast.unparse(node) if mistake == "condition" and node is not None else ""
