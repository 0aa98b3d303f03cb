"""The functions of `trees.py` under the names that `jax.tree` has."""

from jaxlens.core.kernel.tree import tree_flatten as flatten
from jaxlens.core.kernel.tree import tree_leaves as leaves
from jaxlens.core.transforms.trees import tree_map as map
from jaxlens.core.transforms.trees import tree_structure as structure
from jaxlens.core.transforms.trees import tree_unflatten as unflatten

__all__ = ["flatten", "leaves", "map", "structure", "unflatten"]
