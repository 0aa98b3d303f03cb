"""The call that a key of JAX's trace cache was made for, with a placeholder for each array.

JAX's key has the containers of the arguments, the static values, and the types of the arrays in
order. From these the call can be written down again:

    step(params, x, n=2)    ->    step({"w": ArrayLeaf(0)}, ArrayLeaf(1), n=2)
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

import jax

from jaxlens.stages import compat
from jaxlens.stages.arguments import flax_models
from jaxlens.stages.call.call import Call


class ArrayLeaf(int):
    """Stands for an array: its position among the leaves that JAX sees."""


def numbered(call: Call, info: Any, signature: Any) -> Call | None:
    """A call with an `ArrayLeaf` for each array; None where this version of JAX hides it.

    Args:
        call: Tells the function and how it names its parameters.
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
    for position, value in zip(static_positions(info), values[:by_keyword], strict=False):
        args.insert(position, value)
    named = dict(zip(keywords, filled[positional:], strict=True))
    named |= zip(static_keywords, values[by_keyword:], strict=True)
    return replace(call, args=tuple(args), kwargs=named)


def static_positions(info: Any) -> list[int]:
    """The positions of static arguments, in order."""
    return sorted(i for i in info.static_argnums if i >= 0)


def leaf_paths(root: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The path of each leaf, and the leaf; those of a Flax model by its attributes.

    Args:
        root: What the value is called; the paths begin with it.
        value: A pytree.
    """
    found, _ = jax.tree_util.tree_flatten_with_path(value, is_leaf=flax_models.is_states)
    for path, leaf in found:
        name = root + jax.tree_util.keystr(path)
        if flax_models.is_states(leaf):
            inside = jax.tree_util.tree_leaves(leaf)
            yield from zip((name + step for step in flax_models.paths(leaf)), inside, strict=True)
        else:
            yield name, leaf


def named_leaves(call: Call) -> tuple[dict[int, str], dict[str, Any]]:
    """The path of each array of a numbered call, in JAX's order, and every other leaf by path."""
    arrays: dict[int, str] = {}
    others: dict[str, Any] = {}
    for root, value in call.arguments.items():
        for path, leaf in leaf_paths(root, value):
            if isinstance(leaf, ArrayLeaf):
                arrays[leaf] = path
            else:
                others[path] = leaf
    return dict(sorted(arrays.items())), others
