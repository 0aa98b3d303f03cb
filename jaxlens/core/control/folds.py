"""Prefix combinations by any associative function: `associative_scan`.

Where (a . b) . c equals a . (b . c), the order of the work is free, and a tree needs a logarithmic
number of steps: combine all neighbouring pairs at once, then do the same with half as many values.
It is made of the function and of slices, so it has derivatives of all orders.

After "Prefix Sums and Their Applications" (Blelloch, 1990).
"""

from collections.abc import Callable
from typing import Any

from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.kernel.tree import tree_flatten
from jaxlens.core.primitives.cumulative import prefixes
from jaxlens.core.transforms.values import as_value


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
