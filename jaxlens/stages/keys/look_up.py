"""Makes the key of a call without calling it: of the call itself, or with other arguments.

Nothing is traced or run, and no entry is added. An argument that is changed (another shape, dtype,
weak type or static value) becomes an abstract shape or a literal; the others stay.
"""

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from jaxlens.errors import OptionError
from jaxlens.ir.compile_log import CallKey, KeySlot
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.stages import compat
from jaxlens.stages.arguments.inputs import leaves, static_text
from jaxlens.stages.arguments.written_shapes import abstract, arguments
from jaxlens.stages.call.call import Call, open_call
from jaxlens.stages.call.traceable import function_name
from jaxlens.stages.keys.core_keys import CoreKeys
from jaxlens.stages.keys.jax_keys import JaxKeys


def call_key(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallKey:
    """Returns the key of `f(*args, **kwargs)`, and whether it is in the caches.

    Args:
        f: A function; of one that is not jitted, the key that its jit would have.
        args: Positional arguments, arrays or `jax.ShapeDtypeStruct`s.
        kwargs: Keyword arguments.
    """
    name = function_name(f)
    core = sys.modules.get("jaxlens.core")  # imported by whoever made the function
    keys: CoreKeys | JaxKeys
    if core is not None and isinstance(f, core.Jitted):
        keys = CoreKeys(f, args, kwargs, name)
    else:
        keys = JaxKeys(open_call(f, tuple(args), dict(kwargs)), name)
    verdict = keys.verdict()
    try:
        parts, defaults = keys.parts()
    except (TypeError, ValueError, OverflowError):  # the verdict says why
        parts, defaults = (), ()
    return CallKey(name, parts, verdict, defaults)


def slots(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[KeySlot]:
    """Returns the arguments of a call that can be changed: its arrays, then its static values."""
    call, static = _opened(f, args, kwargs)
    arrays = [
        KeySlot(
            leaf.name, "array", str(type_of(leaf.aval)), bool(getattr(leaf.aval, "weak_type", 0))
        )
        for leaf in leaves(call.args, call.kwargs, call.signature)
        if leaf.root not in static and leaf.aval is not None
    ]
    statics = [
        KeySlot(name, "static", static_text(value), editable=_is_literal(value))
        for name, value in call.split(static)[0].items()
    ]
    return arrays + statics


def varied(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    changed: Sequence[KeySlot],
) -> CallKey:
    """Returns the key of the call with some of its arguments changed.

    Args:
        f: The function.
        args: Positional arguments.
        kwargs: Keyword arguments.
        changed: The arguments that differ.

    Raises:
        OptionError: A text is neither a type ("f32[3,4]") nor a Python literal.
    """
    call, static = _opened(f, args, kwargs)
    new = {slot.name: slot for slot in changed}
    values = [
        _with_type(new[leaf.name], leaf.value)
        if leaf.name in new and leaf.root not in static
        else leaf.value
        for leaf in leaves(call.args, call.kwargs, call.signature)
    ]
    structure = jax.tree_util.tree_structure((call.args, call.kwargs))
    positional, named = jax.tree_util.tree_unflatten(structure, values)
    written = {name: _literal(new[name]) for name in call.split(static)[0] if name in new}
    call = replace(call, args=positional, kwargs=named).with_arguments(written)
    return replace(call_key(call.function, call.args, call.kwargs), function=function_name(f))


def _opened(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Call, set[int | str]]:
    """Unwraps the call, and returns it with its static arguments."""
    opened = open_call(f, tuple(args), dict(kwargs))
    parts = compat.jit_parts(opened.function)
    static = {*parts[1].static_argnums, *parts[1].static_argnames} if parts else set()
    return opened, static


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False


def _literal(slot: KeySlot) -> Any:
    try:
        return ast.literal_eval(slot.text.strip())
    except (ValueError, SyntaxError):
        raise OptionError(
            f"{slot.name}: expected a Python literal such as 3, True or 'relu', got {slot.text!r}"
        ) from None


def _with_type(slot: KeySlot, value: Any) -> Any:
    """Returns an abstract array of a slot's type, on the devices of the value."""
    positional, named = arguments(slot.text)
    if len(positional) != 1 or named or not isinstance(positional[0], jax.ShapeDtypeStruct):
        raise OptionError(f"{slot.name}: expected a type such as f32[3,4], got {slot.text!r}")
    sharding = getattr(value, "sharding", None) if getattr(value, "committed", False) else None
    return abstract(positional[0].shape, positional[0].dtype, sharding, slot.weak)
