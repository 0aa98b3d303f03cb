"""Pytrees under the names that `jax.tree_util` has."""

from typing import Any

from jaxlens.core.transforms.trees import (
    Path,
    register_dataclass,
    register_pytree_node,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from jaxlens.core.tree import all as tree_all
from jaxlens.core.tree import flatten as tree_flatten
from jaxlens.core.tree import flatten_with_path as tree_flatten_with_path
from jaxlens.core.tree import leaves as tree_leaves
from jaxlens.core.tree import leaves_with_path as tree_leaves_with_path
from jaxlens.core.tree import map_with_path as tree_map_with_path
from jaxlens.core.tree import reduce as tree_reduce
from jaxlens.core.tree import transpose as tree_transpose


def keystr(path: Path) -> str:
    """Formats the path of a leaf as Python: `['w'][0]`."""
    return "".join(path)


def register_pytree_node_class(cls: Any) -> Any:
    """Decorates a class with methods `tree_flatten` and `tree_unflatten`: makes it a container."""
    register_pytree_node(cls, cls.tree_flatten, cls.tree_unflatten)
    return cls
