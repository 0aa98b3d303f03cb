"""The key that a call would be looked up by, asked before it; nothing is traced or entered."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from jaxlens.ir.compile_log import CallKey, Part
from jaxlens.stages import compat
from jaxlens.stages.arguments.inputs import static_text
from jaxlens.stages.call import library_jits
from jaxlens.stages.call.calls import function_name
from jaxlens.stages.call.opened import Opened, open_call
from jaxlens.stages.keys import cache, call_keys, core_cache


def call_key(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallKey:
    """The key of `f(*args, **kwargs)`, and whether JAX's caches hold it.

    Args:
        f: A function; of one that is not jitted, the key that its jit would have.
        args: Positional arguments, arrays or `jax.ShapeDtypeStruct`s.
        kwargs: Keyword arguments.
    """
    name = function_name(f)
    if _is_core(f):
        return _core_key(f, args, kwargs)
    opened = open_call(f, tuple(args), dict(kwargs))
    verdict = cache.verdict(opened, name)
    if compat.jit_parts(opened.function) is None and compat.inner_jit(opened.function):
        inner = _inner(opened)
        if inner is None or not inner.known:
            return CallKey(name, (), verdict)
        opened = inner.call
    held = compat.jit_parts(opened.function) or compat.jit_parts(jax.jit(opened.function))
    if held is None:
        return CallKey(name, (), verdict)
    fun, info = held
    try:
        call = replace(opened, function=fun)
        met = call_keys.of_call(call, info)
    except (TypeError, ValueError, OverflowError):  # the verdict says why
        return CallKey(name, (), verdict)
    if met is None:
        return CallKey(name, (), verdict)
    rest = [part for part in call_keys.parts(met, every=True) if part not in met.parts]
    return CallKey(name, met.parts, verdict, tuple(rest))


def _inner(opened: Opened) -> library_jits.Inner | None:
    """The call inside a library's wrapper; None where it refuses the call."""
    try:
        return library_jits.inner(opened)
    except (TypeError, ValueError):  # the verdict says why
        return None


def _is_core(f: Any) -> bool:
    if "jaxlens.core" not in sys.modules:
        return False
    from jaxlens import core

    return isinstance(f, core.Jitted)


def _core_key(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallKey:
    name = function_name(f)
    verdict = core_cache.verdict(f, args, kwargs, name)
    try:
        return CallKey(name, core_parts(f, f.key(*args, **kwargs)), verdict)
    except (TypeError, ValueError):  # the verdict says why
        return CallKey(name, (), verdict)


def core_parts(f: Any, key: Any) -> tuple[Part, ...]:
    """A key of the core's, part by part.

    Args:
        f: A function that the core jitted.
        key: What its `key` gives.
    """
    from jaxlens.core.signatures import arguments

    names = [name for _, name in arguments(f.f, key.in_tree, key.static)]
    inputs = [
        Part(name, "input", core_cache.type_text(aval))
        for name, aval in zip(names, key.in_avals, strict=True)
    ]
    statics = [
        Part(core_cache.static_name(f, where), "static", static_text(value))
        for where, _, value in key.static
    ]
    settings = [
        Part(name, "setting", static_text(getattr(key, name))) for name in ("device", "axes", "x64")
    ]
    return (*inputs, *statics, *settings)
