"""Prefix combinations by any associative function: `associative_scan`.

Where (a . b) . c equals a . (b . c), the order of the work is free, and a tree needs a logarithmic
number of steps: combine all neighbouring pairs at once, then do the same with half as many values.
It is made of the function and of slices, so it has derivatives of all orders.

After "Prefix Sums and Their Applications" (Blelloch, 1990).
"""

from collections.abc import Callable, Sequence
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

    return tree.unflatten(map(as_value, prefixes(combine, leaves, axes, reverse)))


def prefixes(
    combine: Callable[..., list[Any]], xs: list[Any], axes: Sequence[int], reverse: bool = False
) -> list[Any]:
    """Computes all prefix combinations by an associative function.

    Args:
        combine: A function of two lists of arrays to one, for many pairs of elements at once.
        xs: Arrays.
        axes: The axis of each along which its elements are.
        reverse: Whether to begin at the end.
    """
    if reverse:
        flipped = [_rev(x, [axis]) for x, axis in zip(xs, axes, strict=True)]
        results = prefixes(combine, flipped, axes)
        return [_rev(x, [axis]) for x, axis in zip(results, axes, strict=True)]
    n = aval_of(xs[0]).shape[axes[0]]
    if n < 2:
        return xs

    def part(arrays: list[Any], *place: int) -> list[Any]:
        start, limit, stride = place
        return [_slice(x, start, limit, stride, axis) for x, axis in zip(arrays, axes, strict=True)]

    odd = prefixes(combine, combine(part(xs, 0, n - 1, 2), part(xs, 1, n, 2)), axes)
    even = combine(odd if n % 2 else part(odd, 0, n // 2 - 1, 1), part(xs, 2, n, 2))
    triples = zip(xs, even, axes, strict=True)
    even = [_concatenate([_slice(x, 0, 1, 1, axis), y], axis) for x, y, axis in triples]
    return [_woven(*triple, n) for triple in zip(even, odd, axes, strict=True)]


def _woven(even: Any, odd: Any, axis: int, n: int) -> Any:
    """Interleaves the elements of two arrays along an axis."""

    def spaced(x: Any, before: int, after: int) -> Any:
        config = [(0, 0, 0)] * aval_of(x).ndim
        config[axis] = (before, after, 1)
        return _pad(x, like(x, 0), config)

    both = spaced(even, 0, 1 - n % 2), spaced(odd, 1, n % 2)
    return (or_p if aval_of(even).dtype == np.bool_ else add_p).bind(*both)
