"""Rebuilds the call of a key in JAX's trace cache, with a placeholder for each array.

JAX's key contains the tree structures of the arguments, the static values, and the avals of the
arrays in order. These determine the call:

    step(params, x, n=2)    ->    step({"w": ArrayLeaf(0)}, ArrayLeaf(1), n=2)
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call.arguments import flax_models
from jaxlens.call.call import Call


class ArrayLeaf(int):
    """Placeholder for an array: its index among the leaves that JAX flattens."""


def numbered(call: Call, info: Any, signature: Any) -> Call | None:
    """Returns the call with an `ArrayLeaf` per array; None if this version of JAX hides the key.

    Args:
        call: Any call of the function, for its signature and parameter names.
        info: The settings of its `jax.jit`.
        signature: The signature in JAX's key.
    """
    dynamic, static = compat.signature_tree(signature), compat.static_values(signature)
    if dynamic is None or static is None:
        return None
    *trees, keywords = dynamic
    values, static_keywords = static
    leaves = map(ArrayLeaf, count())
    filled = [tree.unflatten(islice(leaves, tree.num_leaves)) for tree in trees]
    positional, by_keyword = len(trees) - len(keywords), len(values) - len(static_keywords)
    args = filled[:positional]
    # In ascending order, so that each insertion leaves earlier positions final: (x, y) with a
    # static 1 at position 1 becomes (x, 1, y).
    for position, value in zip(static_positions(info), values[:by_keyword], strict=False):
        args.insert(position, value)
    named = dict(zip(keywords, filled[positional:], strict=True))
    named |= zip(static_keywords, values[by_keyword:], strict=True)
    return replace(call, args=tuple(args), kwargs=named)


def static_positions(info: Any) -> list[int]:
    """Returns the positions of static arguments, in order."""
    return sorted(i for i in info.static_argnums if i >= 0)


def leaf_paths(root: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the path of each leaf, and the leaf; paths in a Flax model are attribute names.

    Args:
        root: The value's name, with which the paths begin.
        value: A pytree.
    """
    flat, _ = jax.tree_util.tree_flatten_with_path(value, is_leaf=flax_models.is_states)
    for path, leaf in flat:
        name = root + jax.tree_util.keystr(path)
        if flax_models.is_states(leaf):
            inside = jax.tree_util.tree_leaves(leaf)
            yield from zip((name + step for step in flax_models.paths(leaf)), inside, strict=True)
        else:
            yield name, leaf


def named_leaves(call: Call) -> tuple[dict[int, str], dict[str, Any]]:
    """Returns the path of each array of a numbered call, and every other leaf by its path."""
    arrays: dict[int, str] = {}
    static: dict[str, Any] = {}
    for root, value in call.arguments.items():
        for path, leaf in leaf_paths(root, value):
            if isinstance(leaf, ArrayLeaf):
                arrays[leaf] = path
            else:
                static[path] = leaf
    return dict(sorted(arrays.items())), static
