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
from jaxlens.ir.compile_log import CallKey, KeyChange, KeyPart, merged
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


class JaxKeys:
    """A call of JAX's, its key, and the keys of earlier calls; nothing is traced to read them.

    The call is that of a jitted function, or of a library's wrapper of one.

    Args:
        call: The call, partials and methods opened.
        name: The function's name.
    """

    def __init__(self, call: Call, name: str) -> None:
        self.name = name
        self._unknown = ""  # why the verdict is unknown
        try:
            inner = library_jits.inner_call(call)
        except (TypeError, ValueError) as error:
            inner, self._unknown = None, f"{name} would refuse this call: {first_line(error)}"
        if inner is not None and inner.known:
            call = inner.call
        jitted = compat.jit_parts(call.function)
        if jitted is None and not self._unknown:
            is_wrapper = inner is not None or compat.inner_jit(call.function)
            self._unknown = (_WRAPPED if is_wrapper else EAGER).format(name=name)
            # The key of a function that is not jitted is that of its jit.
            jitted = None if is_wrapper else compat.jit_parts(jax.jit(call.function))
        self._info = jitted[1] if jitted else None
        self._call = replace(call, function=jitted[0]) if jitted else call

    def parts(self) -> tuple[KeyPart, ...]:
        """Returns the rows of the key.

        Raises:
            TypeError: JAX would refuse an argument.
            ValueError: A static argument cannot be hashed.
        """
        key = key_of(self._call, self._info) if self._info is not None else None
        return tuple(key.parts()) if key is not None else ()

    def verdict(self) -> Verdict:
        """Returns whether the call would hit; if not, the differences to the nearest key."""
        call = self._call
        if self._unknown:
            return _unknown(self._unknown)
        keys = compat.trace_keys(call.function)
        try:
            new_key = compat.trace_key(self._info, call.args, call.kwargs)
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
                return self._compiled(key, arrays, len(keys))
        if not keys:
            return Verdict(False, "trace", ("never called before",))
        new = cached_key(call, context, rest)
        near = nearest(changes(new, cached_key(call, *key)) for key in keys)
        return Verdict(False, "trace", _reasons(near) or (_UNREADABLE,), len(keys))

    def _compiled(self, key: _Exact, arrays: Sequence[Any], earlier: int) -> Verdict:
        """Returns the verdict on a call whose trace exists."""
        program = compat.traced_program(self._call.function, key[1])
        if program is None:
            return Verdict(False, "trace", ("an earlier trace of it failed",), earlier)
        lowered = compat.lower_keys(program)
        shardings = compat.resolved_shardings(program, arrays)
        if lowered is None or shardings is None:
            return _unknown(
                f"it was traced before; whether it was compiled, {_UNREADABLE}", earlier
            )
        if not lowered:
            return Verdict(False, "compile", ("traced before, never compiled",), earlier)
        same = [k for k in lowered if k[0] == key[0] and k[1][0] == shardings]
        if not same:
            names = self._array_names()
            near = nearest(moved(names, shardings, k[1][0]) for k in lowered)
            return Verdict(False, "compile", _reasons(near) or ("settings differ",), earlier)
        compiled = [compat.is_compiled(program, k) for k in same]
        if any(compiled):
            return Verdict(True, earlier=earlier)
        if None in compiled:
            return _unknown(f"lowered before; {_UNREADABLE}", earlier)
        return Verdict(False, "compile", ("lowered before, never compiled",), earlier)

    def _array_names(self) -> Sequence[str]:
        call, info = self._call, self._info
        assert info is not None
        static = {*info.static_argnums, *info.static_argnames}
        call_leaves = leaves(call.args, call.kwargs, call.signature)
        return call.names or [leaf.name for leaf in call_leaves if leaf.root not in static]


def _unknown(reason: str, earlier: int = 0) -> Verdict:
    return Verdict(None, reasons=(reason,), earlier=earlier)


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
    keys = JaxKeys(open_call(f, tuple(args), dict(kwargs)), name)
    verdict = keys.verdict()
    try:
        parts = keys.parts()
    except (TypeError, ValueError, OverflowError):  # the verdict says why
        parts = ()
    return CallKey(name, parts, verdict)
