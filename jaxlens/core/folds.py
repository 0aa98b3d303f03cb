"""Prefix combinations by any associative function: `associative_scan`.

Where (a . b) . c equals a . (b . c), the order of the work is free, and a tree needs a logarithmic
number of steps: combine all neighbouring pairs at once, then do the same with half as many values.
It is made of the function and of slices, so it has derivatives of all orders.

After "Prefix Sums and Their Applications" (Blelloch, 1990).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxlens.core.interop.from_jax import library
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.primitives.elementwise import add_p, like, or_p
from jaxlens.core.transforms.trees import tree_flatten
from jaxlens.core.transforms.values import as_value

_concatenate, _rev, _slice, _pad = (
    library("lax", name) for name in ("concatenate", "rev", "slice_in_dim", "pad")
)


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
    axis %= max(aval_of(leaves[0]).ndim, 1)
    sizes = {aval_of(leaf).shape[axis] for leaf in leaves}
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

    turned = [_rev(x, [axis]) for x in leaves] if reverse else leaves
    results = _prefixes(combine, turned, axis)
    results = [_rev(x, [axis]) for x in results] if reverse else results
    return tree.unflatten(map(as_value, results))


def _prefixes(combine: Callable[..., list[Any]], xs: list[Any], axis: int) -> list[Any]:
    """Computes all prefix combinations by a function of many pairs of elements at once."""
    n = aval_of(xs[0]).shape[axis]
    if n < 2:
        return xs

    def part(arrays: list[Any], start: int, limit: int, stride: int = 1) -> list[Any]:
        return [_slice(x, start, limit, stride, axis) for x in arrays]

    odd = _prefixes(combine, combine(part(xs, 0, n - 1, 2), part(xs, 1, n, 2)), axis)
    even = combine(odd if n % 2 else part(odd, 0, n // 2 - 1), part(xs, 2, n, 2))
    even = [_concatenate([*part([x], 0, 1), y], axis) for x, y in zip(xs, even, strict=True)]
    return [_woven(*pair, axis, n) for pair in zip(even, odd, strict=True)]


def _woven(even: Any, odd: Any, axis: int, n: int) -> Any:
    """Interleaves the elements of two arrays along an axis."""

    def spaced(x: Any, before: int, after: int) -> Any:
        config = [(0, 0, 0)] * aval_of(x).ndim
        config[axis] = (before, after, 1)
        return _pad(x, like(x, 0), config)

    both = spaced(even, 0, 1 - n % 2), spaced(odd, 1, n % 2)
    return (or_p if aval_of(even).dtype == np.bool_ else add_p).bind(*both)
