"""Pytrees under the names that `jax.tree` has.

A path is a tuple of strings, each as it is written in Python: `("['w']", "[0]")`.
"""

import builtins
from collections.abc import Callable
from functools import reduce as _reduce
from typing import Any

from jaxlens.core.kernel.tree import IsLeaf, TreeDef
from jaxlens.core.kernel.tree import tree_flatten as flatten
from jaxlens.core.kernel.tree import tree_leaves as leaves
from jaxlens.core.transforms.trees import Path, paths
from jaxlens.core.transforms.trees import flatten_like as _flatten_like
from jaxlens.core.transforms.trees import tree_map as map
from jaxlens.core.transforms.trees import tree_structure as structure
from jaxlens.core.transforms.trees import tree_unflatten as unflatten

_NOTHING: Any = object()


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true."""
    return builtins.all(leaves(tree, is_leaf))


def reduce(
    f: Callable[[Any, Any], Any], tree: Any, start: Any = _NOTHING, is_leaf: IsLeaf = None
) -> Any:
    """Combines the leaves from left to right, beginning with `start` if it is given."""
    return _reduce(f, leaves(tree, is_leaf), *([] if start is _NOTHING else [start]))


def transpose(outer: TreeDef, inner: TreeDef, tree: Any) -> Any:
    """Turns a tree of trees inside out: a list of dicts into a dict of lists."""
    rows = [_flatten_like(inner, row, "tree.transpose") for row in _flatten_like(outer, tree, "")]
    columns = [outer.unflatten(column) for column in zip(*rows, strict=True)]
    return inner.unflatten(columns)


def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[Path, Any]], TreeDef]:
    """Returns pairs of path and leaf, and the containers."""
    values, treedef = flatten(tree, is_leaf)
    return list(zip(paths(treedef), values, strict=True)), treedef


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[Path, Any]]:
    """Returns pairs of path and leaf."""
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Returns a tree like the first, with `f` applied to each path and the leaves there."""
    places = iter(paths(structure(map(lambda _: 0, tree, is_leaf=is_leaf))))
    return map(lambda *xs: f(next(places), *xs), tree, *rest, is_leaf=is_leaf)
