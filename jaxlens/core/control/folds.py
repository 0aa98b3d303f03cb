"""Reductions and scans by any associative function: `reduce`, `associative_scan`.

Where (a . b) . c equals a . (b . c), the order of the work is free, and a tree needs a logarithmic
number of steps: combine all neighbouring pairs at once, then do the same with half as many values.
Both are made of the function and of slices, so they have derivatives of all orders. A reduction
that XLA has an op for, such as a sum, uses that op.

After "Prefix Sums and Their Applications" (Blelloch, 1990).
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import Value, aval_of
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, as_function
from jaxlens.core.kernel.tree import tree_flatten
from jaxlens.core.primitives import contractions as sums
from jaxlens.core.primitives.cumulative import prefixes, reduce_prod
from jaxlens.core.primitives.pieces import concatenate, slice_in_axis
from jaxlens.core.transforms.calls import all_examples, same_type
from jaxlens.core.transforms.jaxprs import traced
from jaxlens.core.transforms.promotion import axis_of
from jaxlens.core.transforms.trees import flatten_like

# ---- reduce -------------------------------------------------------------------------------------


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
) -> Any:
    """Reduces arrays along axes by an associative function.

    Args:
        operands: A pytree of arrays of one shape.
        init_values: A tree like it of scalars: what combining with changes nothing.
        computation: An associative function of two such trees of scalars.
        dimensions: The axes, which disappear.
    """
    leaves, tree = tree_flatten(operands)
    inits = flatten_like(tree, init_values, "reduce: init_values")
    of_all = {aval_of(leaf).shape for leaf in leaves}
    if len(of_all) != 1:
        raise TypeError(f"reduce: the operands must have one shape, got {sorted(of_all)}.")
    ndim = len(*of_all)
    axes = sorted(axis_of(axis, ndim) for axis in dimensions)
    basics.without(aval_of(leaves[0]), tuple(axes), "reduce")
    scalars = tree.unflatten(aval_of(leaf).update(shape=(), weak_type=False) for leaf in leaves)
    body = traced(computation, (scalars, scalars), {})
    for leaf, init, out in zip(leaves, inits, body.jaxpr.out_avals, strict=True):
        expected = aval_of(leaf).update(shape=())
        if not same_type(expected, aval_of(init)) or not same_type(expected, out):
            raise TypeError(
                f"reduce: init_values and computation must give {expected.str_short()} for an "
                f"operand of {aval_of(leaf).str_short()}, got {aval_of(init).str_short()} and "
                f"{out.str_short()}."
            )
    reducer = _reducer_of(body.jaxpr, inits)
    if reducer:
        return body.out_tree.unflatten([reducer(leaves[0], tuple(axes))])
    (shape,), rest_axes = of_all, basics.other_axes(ndim, axes)
    count, rest = prod(shape[axis] for axis in axes), [shape[axis] for axis in rest_axes]
    rows = []
    for x, init in zip(leaves, inits, strict=True):
        column = basics.reshape(basics.transpose(x, [*axes, *rest_axes]), (count, *rest))
        rows.append(concatenate([basics.broadcast_in_dim(init, (1, *rest), ()), column], 0))
    results = _folded(partial(as_function(body.jaxpr), *body.consts), rows)
    return body.out_tree.unflatten(results)


_KNOWN: dict[str, tuple[Callable[[np.dtype], Any], Callable[..., Any]]] = {
    "add": (lambda _: 0, basics.reduce_sum),
    "mul": (lambda _: 1, reduce_prod),
    "max": (sums.lowest, sums.reduce_max),
    "min": (sums.highest, sums.reduce_min),
    "and": (lambda dtype: ~np.zeros((), dtype), sums.reduce_and),
    "or": (lambda _: 0, sums.reduce_or),
}


def _reducer_of(closed: ClosedJaxpr, inits: Sequence[Any]) -> Callable[..., Any] | None:
    """Returns the function of the primitive that computes this reduction, if there is one."""
    if len(inits) != 1 or len(closed.eqns) != 1 or isinstance(inits[0], Value):
        return None
    (eqn,), (init,) = closed.eqns, inits
    start, function = _KNOWN.get(eqn.primitive.name, (None, None))
    of_both = list(eqn.invars) == list(closed.jaxpr.invars) and closed.jaxpr.outvars == eqn.outvars
    return function if start and of_both and init == start(aval_of(init).dtype) else None


def _folded(f: Callable[..., Any], rows: list[Any]) -> list[Any]:
    """Combines all rows of arrays to one, neighbours first, so that their order is kept."""
    n, *rest = aval_of(rows[0]).shape

    def part(*place: int) -> list[Any]:
        return [slice_in_axis(x, 0, *place) for x in rows]

    while n > 1:
        shape = (n // 2, *rest)
        pairs = [basics.reshape(x, (prod(shape),)) for x in (*part(0, n - 1, 2), *part(1, n, 2))]
        halved = all_examples(f, prod(shape), [True] * len(pairs), pairs)
        halved = [basics.reshape(x, shape) for x in halved]
        if n % 2:
            halved = [concatenate(pair, 0) for pair in zip(halved, part(n - 1, n), strict=True)]
        rows = halved
        n -= n // 2
    return [basics.reshape(x, rest) for x in rows]


# ---- associative_scan ---------------------------------------------------------------------------


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Computes all prefix combinations by an associative function, in logarithmic depth.

    Args:
        fn: An associative function of two trees like `elems`, applied to many pairs at once.
        elems: A pytree of arrays with equally long axes `axis`.
        reverse: Whether to begin at the end.
        axis: Along which axis.
    """
    leaves, tree = tree_flatten(elems)
    axes = [axis % max(aval_of(leaf).ndim, 1) for leaf in leaves]
    sizes = {aval_of(leaf).shape[place] for leaf, place in zip(leaves, axes, strict=True)}
    if len(sizes) != 1:
        raise ValueError(
            f"associative_scan: axis {axis} must be equally long in all arrays, got lengths "
            f"{sorted(sizes)}."
        )

    def combine(first: list[Any], second: list[Any]) -> list[Any]:
        results, out = tree_flatten(fn(tree.unflatten(first), tree.unflatten(second)))
        if out != tree:
            raise TypeError(f"associative_scan: fn must return the containers {tree}, got {out}.")
        return results

    return tree.unflatten(prefixes(combine, leaves, axes, reverse))
