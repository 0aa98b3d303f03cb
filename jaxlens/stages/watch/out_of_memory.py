"""Finds the program that ran out of memory, from the exception that XLA raised.

A program's first call fails within JAX's frames, which have the function and its arguments; on a
GPU often while it is compiled, as autotuning runs kernels. Later calls leave no frame of JAX, and a
CPU's failure is raised where the result is waited for. Then the calls of jitted functions at and
above the failing line are candidates, read from its source: only names and attributes are looked
up, no code of the user's is called.
"""

import ast
import linecache
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from inspect import getclosurevars, signature
from traceback import walk_tb
from types import FunctionType
from typing import Any

import jax

from jaxlens.ir.spans import describe
from jaxlens.stages import compat
from jaxlens.stages.compat import events
from jaxlens.stages.watch.cell_calls import abstracted

_OUT = re.compile(r"RESOURCE_EXHAUSTED|[Oo]ut of memory")
_BYTES = re.compile(r"allocat\w+ (\d+(?:\.\d+)?)([KMGTP]i)?(?:B| bytes)?")
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_AUTOTUNING = "All configs failed during profiling"

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether XLA raised an exception for want of memory."""
    return type(error).__name__ in ("JaxRuntimeError", "XlaRuntimeError") and bool(
        _OUT.search(str(error))
    )


def wanted_bytes(error: BaseException) -> int | None:
    """Returns the bytes that XLA could not get; None where it does not say."""
    wanted = _BYTES.search(str(error))
    return round(float(wanted[1]) * 1024 ** _UNITS.index(wanted[2] or "")) if wanted else None


def is_autotuning(error: BaseException) -> bool:
    """Whether XLA raised it when it ran a GPU's kernels to choose among them, while compiling."""
    return _AUTOTUNING in str(error)


def failed_to_compile(error: BaseException) -> bool:
    """Whether JAX's frames show that the first of `failed_calls` is what did not compile."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    called = bool(frames) and events.stack(frames[-1]).caller is not None
    return called and any(map(events.is_compiling, frames))


def failed_calls(error: BaseException) -> Iterator[Call]:
    """Yields the calls that may have failed, each function once, the likeliest first.

    Their arguments have a `jax.ShapeDtypeStruct` in place of each array.
    """
    seen: dict[int, Any] = {}  # keeps them alive: a freed one's id is used again
    for function, args, kwargs in _calls(error):
        if id(function) not in seen:
            seen[id(function)] = function
            yield (function, *abstracted(args, kwargs))


def _calls(error: BaseException) -> Iterator[Call]:
    """Yields the calls that may have failed, the likeliest first."""
    frames = list(walk_tb(error.__traceback__))
    if frames:
        caller = events.stack(frames[-1][0]).caller
        if caller is not None:
            yield compat.rejit(caller.fun, caller.info), caller.args, caller.kwargs
    for frame, line in reversed(frames):
        file = describe(frame.f_code.co_filename)
        if not file.library and not file.own:
            names = {**frame.f_globals, **frame.f_locals}
            yield from _written(frame.f_code.co_filename, range(1, line + 1), names)


def _written(
    file: str, lines: range, names: Mapping[str, Any], within: bool = True
) -> Iterator[Call]:
    """Yields the calls of jitted functions in lines of a source, from the last line upwards.

    Args:
        file: The source's file.
        lines: The lines.
        names: What names mean there.
        within: Whether to read the functions that are called there too, one level down.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno in lines]
    for call in sorted(calls, key=lambda node: -node.lineno):
        with suppress(_UnknownError, TypeError, ValueError):  # the latter are raised by jax.jit
            function = _value(call.func, names)
            is_jitted = compat.jit_parts(function) is not None
            if not is_jitted and not (within and isinstance(function, FunctionType)):
                continue
            args = tuple(_value(arg, names) for arg in call.args)
            kwargs = {k.arg: _value(k.value, names) for k in call.keywords if k.arg}
            if is_jitted:
                yield function, args, kwargs
            elif not describe(function.__code__.co_filename).library:
                yield from _called_by(function, args, kwargs)


def _called_by(
    function: FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[Call]:
    """Yields the calls of jitted functions in a function, such as a training loop."""
    bound = signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    names = {**getclosurevars(function).nonlocals, **bound.arguments}
    code = function.__code__
    last = max(line or 0 for *_, line in code.co_lines())
    lines = range(code.co_firstlineno, last + 1)
    yield from _written(code.co_filename, lines, {**function.__globals__, **names}, False)


class _UnknownError(Exception):
    """An expression that is more than names, attributes, constant items, literals and jax.jit."""


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=items):
            return tuple(_value(item, names) for item in items)
        case ast.Attribute(value=inner, attr=name):
            known = getattr(_value(inner, names), "__dict__", {})
            if name in known:  # no property, which is code
                return known[name]
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            holder: Any = _value(inner, names)
            if isinstance(holder, dict | list | tuple):
                with suppress(LookupError, TypeError):
                    item: Any = key
                    return holder[item]
        case ast.Call(func=func, args=[inner], keywords=options) if _value(func, names) is jax.jit:
            return jax.jit(
                _value(inner, names), **{o.arg: _value(o.value, names) for o in options if o.arg}
            )
    raise _UnknownError
