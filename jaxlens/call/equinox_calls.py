"""Recovers the user's call from the call of a function that `equinox.filter_jit` returned.

Equinox jits a function of its own. Its dynamic arguments contain the arrays, its static argument
everything else:

    step(net, x, True)
    fun_wrapped({}, {"first": (net's arrays,), "fun": ..., "rest": ...}, (net's other leaves, ...))

This module combines both again. It does not import Equinox, and calls only the unflattening of
its modules.

Checked with Equinox 0.13. If another version arranges the arguments differently, Equinox's own
names are shown.
"""

from collections.abc import Sequence
from typing import Any

import jax

from jaxlens.call.arguments.inputs import signature_of
from jaxlens.call.call import Call, with_owner

_CODE = "_filter_jit_cache.<locals>.fun_wrapped"
_PARTS = ("fun", "first", "rest")


def is_equinox(fun: Any) -> bool:
    """Whether a jitted function's Python function is Equinox's own."""
    code = getattr(fun, "__code__", None)
    return getattr(code, "co_qualname", "") == _CODE


def user_function(fun: Any, statics: Sequence[Any]) -> Any:
    """Returns the user's function inside Equinox's; None if `fun` is not Equinox's.

    Args:
        fun: The Python function inside a jitted one.
        statics: The static values of its call.
    """
    try:
        if not is_equinox(fun):
            return None
        leaves, tree = statics[0][0]
        return tree.unflatten(leaves)
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def user_call(call: Call) -> Call | None:
    """Returns the call as the user wrote it; None if the function is not Equinox's.

    Args:
        call: A call of the Python function inside a jitted one, with placeholders for arrays.
    """
    try:
        if not is_equinox(call.function):
            return None
        donated, undonated, static = call.args
        arrays = {**donated, **undonated}
        parts = []
        for part, (leaves, tree) in zip(_PARTS, static, strict=True):
            pairs = zip(arrays[part], leaves, strict=True)
            parts.append(tree.unflatten(a if a is not None else b for a, b in pairs))
        function, first, (rest, kwargs) = parts
        args = (first, *rest)[:-1]  # Equinox appends a None
        if jax.tree_util.all_leaves([function]):
            return Call(function, args, kwargs, signature_of(function))
        signature = with_owner(function)  # the function is a module: its arrays are arguments too
        return Call(type(function).__call__, (function, *args), kwargs, signature, function)
    except (IndexError, KeyError, TypeError, ValueError):
        return None
