"""Determines whether a call would hit JAX's caches, and the differences if not.

The key of the trace cache is made as JAX makes it and compared with the keys in the cache, then the
key of the lowering. Nothing is traced and no entry is added. A miss is explained by the nearest
earlier key.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call import library_jits
from jaxlens.call.arguments.inputs import leaves
from jaxlens.call.call import Call, open_call
from jaxlens.call.numbered_call import numbered
from jaxlens.call.traceable import function_name
from jaxlens.errors import first_line
from jaxlens.ir.compile_log import CallKey, KeyChange, merged
from jaxlens.ir.facts import Verdict
from jaxlens.keys.explain import EAGER, changes, moved, nearest
from jaxlens.keys.jax_key import cached_key, key_of, static_arguments

_MOST = 12  # differences that are listed
_WRAPPED = (
    "{name} calls a jitted function from within a wrapper; what that function would be given, "
    "and so whether it would hit, cannot be known without the call"
)
_OF_CORE = "{name} is jitted by jaxlens.core, whose keys its cache_keys() returns"
_UNREADABLE = "this version of JAX does not let its caches be read"

_Exact = tuple[Any, tuple[Any, ...]]
"""A key of the trace cache: trace context, and (jit's settings, signature, types, mesh)."""


_Jitted = tuple[Call, Any, str]
"""A call of the Python function in a jitted one, jit's settings, and why the verdict is unknown.

The settings are None where there are none, and the reason is "" where the verdict can be known.
"""


def verdict_of(call: Call, name: str) -> Verdict:
    """Returns whether a call would hit JAX's caches; if not, what differs from the nearest key.

    Args:
        call: A call of a jitted function, or of a library's wrapper of one, partials and methods
            opened.
        name: The function's name.
    """
    return _verdict(*_jitted(call, name))


def _jitted(call: Call, name: str) -> _Jitted:
    unknown = ""
    try:
        inner = library_jits.inner_call(call)
    except (TypeError, ValueError) as error:
        inner, unknown = None, f"{name} would refuse this call: {first_line(error)}"
    if inner is not None and inner.known:
        call = inner.call
    jitted = compat.jit_parts(call.function)
    if jitted is None and not unknown:
        is_wrapper = inner is not None or compat.inner_jit(call.function)
        unknown = (_WRAPPED if is_wrapper else EAGER).format(name=name)
        # The key of a function that is not jitted is that of its jit.
        jitted = None if is_wrapper else compat.jit_parts(jax.jit(call.function))
    return (
        (replace(call, function=jitted[0]), jitted[1], unknown) if jitted else (call, None, unknown)
    )


def _verdict(call: Call, info: Any, unknown: str) -> Verdict:
    if unknown:
        return _unknown(unknown)
    keys = compat.trace_keys(call.function)
    try:
        new_key = compat.trace_key(info, call.args, call.kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        return _unknown(f"JAX would refuse this call: {first_line(error)}")
    if keys is None or new_key is None:
        return _unknown(_UNREADABLE)
    (context, rest), arrays = new_key
    if unhashable := _unhashable(call, rest):
        return _unknown(unhashable)
    keys = [key for key in keys if not compat.is_apart(key[0], context)]
    for key in keys:
        # Equal settings of jit need not be one object.
        if key[0] == context and key[1][1:] == rest[1:] and tuple(key[1][0]) == tuple(rest[0]):
            return replace(_compiled(call, info, key, arrays), earlier=len(keys))
    if not keys:
        return Verdict(False, "trace", ("never called before",))
    new = cached_key(call, context, rest)
    near = nearest(changes(new, cached_key(call, *key)) for key in keys)
    return Verdict(False, "trace", _reasons(near) or (_UNREADABLE,), len(keys))


def _compiled(call: Call, info: Any, key: _Exact, arrays: Sequence[Any]) -> Verdict:
    """Returns the verdict on a call whose trace exists."""
    program = compat.traced_program(call.function, key[1])
    if program is None:
        return Verdict(False, "trace", ("an earlier trace of it failed",))
    lowered = compat.lower_keys(program)
    shardings = compat.resolved_shardings(program, arrays)
    if lowered is None or shardings is None:
        return _unknown(f"it was traced before; whether it was compiled, {_UNREADABLE}")
    if not lowered:
        return Verdict(False, "compile", ("traced before, never compiled",))
    same = [k for k in lowered if k[0] == key[0] and k[1][0] == shardings]
    if not same:
        static = {*info.static_argnums, *info.static_argnames}
        every = leaves(call.args, call.kwargs, call.signature)
        names = call.names or [leaf.name for leaf in every if leaf.root not in static]
        near = nearest(moved(names, shardings, k[1][0]) for k in lowered)
        return Verdict(False, "compile", _reasons(near) or ("settings differ",))
    compiled = [compat.is_compiled(program, k) for k in same]
    if any(compiled):
        return Verdict(True)
    if None in compiled:
        return _unknown(f"lowered before; {_UNREADABLE}")
    return Verdict(False, "compile", ("lowered before, never compiled",))


def _unknown(reason: str) -> Verdict:
    return Verdict(None, reasons=(reason,))


def _reasons(differences: Sequence[KeyChange]) -> tuple[str, ...]:
    """Returns the differences as lines, at most `_MOST`."""
    reasons = tuple(map(str, merged(differences)))
    if len(reasons) <= _MOST:
        return reasons
    return (*reasons[:_MOST], f"and {len(reasons) - _MOST} more differences")


def _unhashable(call: Call, rest: tuple[Any, ...]) -> str:
    """Returns why JAX would reject a static argument; "" if it would not."""
    numbered_call = numbered(call, *rest[:2])
    for name, value in static_arguments(numbered_call, *rest[:2]).items() if numbered_call else ():
        try:
            hash(value)
        except TypeError:
            return (
                f"JAX would refuse this call: {name} is static and a {type(value).__name__} "
                "cannot be hashed; pass a tuple or another hashable value"
            )
    return ""


def verdict_of_core(f: Any, name: str) -> Verdict:
    """Returns that JAX's caches have nothing of a function of the core."""
    core: Any = sys.modules["jaxlens.core"]
    return _unknown((_OF_CORE if isinstance(f, core.Jitted) else EAGER).format(name=name))


def call_key(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallKey:
    """Returns the key of `f(*args, **kwargs)`, and whether it is in JAX's caches.

    Args:
        f: A function; of one that is not jitted, the key that its jit would have.
        args: Positional arguments, arrays or `jax.ShapeDtypeStruct`s.
        kwargs: Keyword arguments.
    """
    name = function_name(f)
    core = sys.modules.get("jaxlens.core")  # imported by whoever made the function
    if core is not None and isinstance(f, core.Jitted):
        return CallKey(name, (), verdict_of_core(f, name))
    jitted, info, unknown = _jitted(open_call(f, tuple(args), dict(kwargs)), name)
    verdict = _verdict(jitted, info, unknown)
    try:
        key = key_of(jitted, info) if info is not None else None
        parts = tuple(key.parts()) if key is not None else ()
    except (TypeError, ValueError, OverflowError):  # the verdict says why
        parts = ()
    return CallKey(name, parts, verdict)
