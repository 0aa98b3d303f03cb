"""Replaces the arrays of a call by shapes, so that it can be traced again without them.

A capture may live long and must not keep the user's arrays alive. Static values and values that
the function closes over are unchanged.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import jax

from jaxlens.stages.arguments.arrays import is_array
from jaxlens.stages.arguments.inputs import abstract
from jaxlens.stages.call.call import Call
from jaxlens.stages.call.library_jits import InnerCall
from jaxlens.stages.call.traceable import TraceableCall
from jaxlens.stages.core.program import plain


def shaped(call: TraceableCall) -> TraceableCall:
    """Returns the call with a `ShapeDtypeStruct` in place of each array."""
    return replace(
        call,
        args=tuple(_part(n, value, call.static) for n, value in enumerate(call.args)),
        kwargs={k: _part(k, value, call.static) for k, value in call.kwargs.items()},
        leaves=(),
        owner=_owner(call.owner),
        opened=_opened(call.opened, call.static) if call.inner is None else _bare(call.opened),
        core=_opened(call.core, call.static),
        inner=_inner(call.inner),
    )


def _opened(opened: Call | None, static: Collection[int | str]) -> Call | None:
    if opened is None:
        return None
    return replace(
        opened,
        args=tuple(_part(n, value, static) for n, value in enumerate(opened.args)),
        kwargs={k: _part(k, value, static) for k, value in opened.kwargs.items()},
        owner=_owner(opened.owner),
    )


def _bare(opened: Call | None) -> Call | None:
    """Drops the arguments of a library jit's call, which is traced through its inner function."""
    return opened and replace(opened, args=(), kwargs={}, owner=None)


def _inner(inner: InnerCall | None) -> InnerCall | None:
    return inner and replace(inner, call=replace(inner.call, args=(), kwargs={}), leaves=[])


def _owner(owner: Any) -> Any:
    """Returns the owner if it is a leaf, not a pytree: then it is static, and the call keeps it."""
    return owner if jax.tree_util.all_leaves([owner]) else None


def _part(place: int | str, value: Any, static: Collection[int | str]) -> Any:
    return value if place in static else jax.tree_util.tree_map(_shape, value)


def _shape(leaf: Any) -> Any:
    """Returns the shape of an array; returns any other leaf unchanged."""
    if not is_array(leaf):
        return leaf
    struct: Any = jax.ShapeDtypeStruct
    array = plain(leaf)
    aval = abstract(array)
    if aval is None:  # a NumPy array of strings or objects is a static argument
        return leaf
    sharding = array.sharding if getattr(array, "committed", False) else None
    weak = bool(getattr(aval, "weak_type", False))
    return struct(aval.shape, aval.dtype, sharding=sharding, weak_type=weak)
