"""Replaces the arrays of a call by shapes or weak references, as a capture may live long.

With shapes the call can be traced again, with weak references it can be run again while the user
keeps the arrays. Static values and values that the function closes over are unchanged.
"""

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

import jax
import numpy as np

from jaxlens.call.arguments import written_shapes
from jaxlens.call.arguments.inputs import abstract
from jaxlens.call.arguments.pytrees import is_array
from jaxlens.call.call import Call
from jaxlens.call.core_program import plain
from jaxlens.call.traceable import TraceableCall
from jaxlens.errors import UnavailableError

_SMALL = 2**20  # bytes of a call's smallest arrays that are kept by strong references
_Call = TypeVar("_Call", Call, TraceableCall)


def shaped(call: TraceableCall) -> TraceableCall:
    """Returns the call with a `ShapeDtypeStruct` in place of each array."""
    opened, inner = call.opened, call.inner
    if inner is not None:  # the library jit's call, which is traced through its inner function
        inner = replace(inner, call=replace(inner.call, args=(), kwargs={}), leaves=[])
        opened = opened and replace(opened, args=(), kwargs={}, owner=None)
    return replace(
        _with_shapes(call, call.static),
        leaves=(),
        opened=opened and _with_shapes(opened, call.static),
        core=call.core and _with_shapes(call.core, call.static),
        inner=inner,
    )


def _with_shapes(call: _Call, static: Collection[int | str]) -> _Call:
    def shapes(place: int | str, value: Any) -> Any:
        return value if place in static else jax.tree_util.tree_map(shape_of, value)

    return replace(
        call,
        args=tuple(shapes(n, value) for n, value in enumerate(call.args)),
        kwargs={k: shapes(k, value) for k, value in call.kwargs.items()},
        # An owner that is a leaf, not a pytree, is static: the call keeps it.
        owner=call.owner if jax.tree_util.all_leaves([call.owner]) else None,
    )


def shape_of(leaf: Any) -> Any:
    """Returns the shape of an array, with its sharding if committed; else the leaf itself."""
    if not is_array(leaf) or isinstance(leaf, jax.core.Tracer):
        return leaf
    array = plain(leaf)
    aval = abstract(array)
    if aval is None:  # a NumPy array of strings or objects is a static argument
        return leaf
    sharding = array.sharding if getattr(array, "committed", False) else None
    weak = bool(getattr(aval, "weak_type", False))
    return written_shapes.abstract(aval.shape, aval.dtype, sharding, weak)


@dataclass(frozen=True, slots=True)
class WeakArguments:
    """Arguments of a call.

    Attributes:
        structure: Their pytree structure.
        leaves: A function per leaf, which returns the leaf, or None if it was deleted.
    """

    structure: Any
    leaves: tuple[Callable[[], Any], ...]

    def get(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the positional and keyword arguments.

        Raises:
            UnavailableError: An array was deleted.
        """
        values = [leaf() for leaf in self.leaves]
        if any(value is None for value in values):
            raise UnavailableError(
                "the arrays of this call are gone: nothing else kept them; "
                "give them names and look at the call again"
            )
        args, kwargs = jax.tree_util.tree_unflatten(self.structure, values)
        return args, kwargs


def weakly_held(args: Sequence[Any], kwargs: Mapping[str, Any]) -> WeakArguments:
    """Returns the arguments with weak references to all arrays but the smallest, 1 MiB of them.

    So `f(params, jnp.ones(3))` can be run again, and no model is kept alive.
    """
    leaves, structure = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
    sizes = {n: x.nbytes for n, x in enumerate(leaves) if isinstance(x, jax.Array | np.ndarray)}
    order = sorted(sizes, key=lambda n: sizes[n])
    sums = accumulate(sizes[n] for n in order)
    large = {n for n, total in zip(order, sums, strict=True) if total > _SMALL}
    references = [weakref.ref(x) if n in large else _kept(x) for n, x in enumerate(leaves)]
    return WeakArguments(structure, tuple(references))


def _kept(leaf: Any) -> Callable[[], Any]:
    return lambda: leaf
