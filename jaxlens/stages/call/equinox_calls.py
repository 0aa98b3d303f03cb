"""A call of a function that `equinox.filter_jit` made, under the user's names.

Equinox jits a function of its own. Its dynamic argument has the arrays, its static argument has
everything else:

    step(net, x, True)
    fun_wrapped({}, {"first": (net's arrays,), "fun": ..., "rest": ...}, (net's other leaves, ...))

Here both are combined again. Nothing of Equinox is imported, and only the unflattening of its
modules is called.

Tried with Equinox 0.13. Where it arranges them differently, its own names are shown.
"""

from collections.abc import Sequence
from typing import Any

import jax

from jaxlens.stages.arguments.inputs import signature_of
from jaxlens.stages.call.call import Call, with_owner

_CODE = "_filter_jit_cache.<locals>.fun_wrapped"
_PARTS = ("fun", "first", "rest")


def is_equinox(fun: Any) -> bool:
    """Whether a jitted function's Python function is Equinox's own."""
    code = getattr(fun, "__code__", None)
    return getattr(code, "co_qualname", "") == _CODE


def user_function(fun: Any, statics: Sequence[Any]) -> Any:
    """The user's function inside Equinox's, or None where `fun` is not Equinox's.

    Args:
        fun: The Python function of a jitted one.
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
    """The call as the user wrote it; None where the function called is not Equinox's.

    Args:
        call: A call of the Python function of a jitted one, with placeholders for its arrays.
    """
    try:
        if not is_equinox(call.function):
            return None
        donated, others, static = call.args
        arrays = {**donated, **others}
        function, first, (rest, kwargs) = (
            _combined(arrays[part], fixed) for part, fixed in zip(_PARTS, static, strict=True)
        )
        args = (first, *rest)[:-1]  # Equinox ends them with a None
        if jax.tree_util.all_leaves([function]):
            return Call(function, args, kwargs, signature_of(function))
        signature = with_owner(function)  # a module is called: its arrays are arguments too
        return Call(type(function).__call__, (function, *args), kwargs, signature, function)
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _combined(arrays: Sequence[Any], static: tuple[Sequence[Any], Any]) -> Any:
    leaves, tree = static
    return tree.unflatten(a if a is not None else b for a, b in zip(arrays, leaves, strict=True))
