"""Pytrees: nested containers as a flat list of leaves and a description of the nesting.

Transformations are written for lists of arrays; users write dicts of tuples of arrays. So every
transformation flattens its arguments on the way in, and unflattens its results on the way out. The
trees are JAX's, so a container that is registered with JAX is one here; `lesson/trees.py` shows how
they are made. The description (`PyTreeDef`) is hashable and part of the cache key of `jit`: another
nesting is another program.

    leaves, treedef = tree_flatten({"w": (1, 2), "b": 3})     # [3, 1, 2]: keys are sorted
    treedef.unflatten([30, 10, 20])                           # {"b": 30, "w": (10, 20)}

Options and errors are about two trees: the arguments and the axes given for them, a value and the
cotangent given for it. Errors name a leaf by its path.
"""

from collections.abc import Callable
from typing import Any

from jax import tree_util
from jax.tree_util import tree_flatten_with_path, tree_leaves

from jaxlens.core.kernel.trace import Flat

PyTreeDef = Any  # JAX's, which has no type that mypy knows
tree_flatten: Callable[..., tuple[list[Any], PyTreeDef]] = tree_util.tree_flatten
Path = tuple[str, ...]  # the way from the root to a leaf, as in Python: ("['w']", "[0]")


def flat(f: Callable[..., Any], in_tree: PyTreeDef) -> tuple[Flat, list[PyTreeDef]]:
    """Turns a function of trees into one of flat lists.

    Args:
        f: The function.
        in_tree: The tree of its `(args, kwargs)`.

    Returns:
        The flat function, and a list that holds the tree of its results once it has been called.
    """
    out_trees: list[PyTreeDef] = []

    def flat_f(*leaves: Any) -> list[Any]:
        args, kwargs = in_tree.unflatten(leaves)
        results, out_tree = tree_flatten(f(*args, **kwargs))
        out_trees[:] = [out_tree]
        return results

    return flat_f, out_trees


def paths(treedef: PyTreeDef) -> list[Path]:
    """Returns the path of each leaf: `("['w']", "[0]")`."""
    pairs = tree_flatten_with_path(treedef.unflatten(range(treedef.num_leaves)))[0]
    return [tuple(map(str, path)) for path, _ in pairs]


def leaves_of(
    treedef: PyTreeDef, tree: Any, label: str, error: type[Exception] = ValueError
) -> list[Any]:
    """Returns the leaves of a tree that must have exactly these containers.

    Raises:
        ValueError: The tree has other containers; or `error`.
    """
    leaves, containers = tree_flatten(tree)
    if containers != treedef:
        raise error(f"{label}: expected the containers {treedef}, got {containers}")
    return leaves


def prefix_leaves(prefix: Any, treedef: PyTreeDef, label: str) -> list[Any]:
    """Returns a value per leaf of `treedef` from a tree that may stop early.

    A leaf of the prefix holds for all leaves below it, and None is a leaf: `in_axes=(0, None)` is
    a prefix of the arguments `(x, {"w": w, "b": b})` and gives [0, None, None].

    Raises:
        ValueError: The prefix has other containers than the tree.
    """
    values, branches = tree_flatten(prefix, lambda x: x is None)
    try:
        subtrees = branches.flatten_up_to(treedef.unflatten(range(treedef.num_leaves)))
    except ValueError:
        raise ValueError(f"{label}: {prefix!r} does not fit the containers {treedef}") from None
    pairs = zip(values, subtrees, strict=True)
    return [value for value, subtree in pairs for _ in tree_leaves(subtree)]
