"""Pytrees under the names that `jax.tree` has.

A path is a tuple of strings, each as it is written in Python: `("['w']", "[0]")`.
"""

from typing import Any

from jaxlens.core.transforms.trees import IsLeaf, Path, TreeDef, paths
from jaxlens.core.transforms.trees import tree_flatten as flatten
from jaxlens.core.transforms.trees import tree_leaves as leaves
from jaxlens.core.transforms.trees import tree_map as map
from jaxlens.core.transforms.trees import tree_structure as structure
from jaxlens.core.transforms.trees import tree_unflatten as unflatten

__all__ = ["flatten", "flatten_with_path", "leaves", "map", "structure", "unflatten"]


def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[Path, Any]], TreeDef]:
    """Returns pairs of path and leaf, and the containers."""
    values, treedef = flatten(tree, is_leaf)
    return list(zip(paths(treedef), values, strict=True)), treedef
