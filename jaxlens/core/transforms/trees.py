"""Pytrees side by side: paths, several trees at once, prefixes such as `in_axes`.

The kernel flattens one tree at a time. Options and errors are about two: the arguments and the
axes given for them, a value and the cotangent given for it. Errors name a leaf by its path.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from jaxlens.core.kernel import tree as pytree
from jaxlens.core.kernel.tree import TreeDef, tree_flatten, tree_leaves

_Class = TypeVar("_Class", bound=type)
Keys = Callable[[Any, int], Iterable[str]]
Path = tuple[str, ...]  # the way from the root to a leaf, as in Python: ("['w']", "[0]")


def tree_structure(tree: Any) -> TreeDef:
    """Returns the containers of a tree."""
    return tree_flatten(tree)[1]


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Same as `treedef.unflatten(leaves)`."""
    return treedef.unflatten(leaves)


# ---- containers of the user's, and paths --------------------------------------------------------


def _numbered(_: Any, count: int) -> Iterable[str]:
    return (f"[{i}]" for i in range(count))


def _nameless(_: Any, count: int) -> Iterable[str]:
    return (f".<child {i}>" for i in range(count))


_keys: dict[type, Keys] = {
    tuple: _numbered,
    list: _numbered,
    dict: lambda keys, _: (f"[{key!r}]" for key in keys),
}


def register_pytree_node(
    cls: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
    keys: Keys = _nameless,
) -> None:
    """Makes a class a container.

    Args:
        cls: The class; its subclasses are not registered.
        flatten: Maps an object to its children and hashable auxiliary data.
        unflatten: Builds an object from auxiliary data and new children.
        keys: Maps auxiliary data and the number of children to the name of each child, as it is
            written in Python.

    Raises:
        ValueError: The class is registered already.
    """
    pytree.register_container(cls, pytree.Container(flatten, unflatten))
    _keys[cls] = keys


def paths(treedef: TreeDef) -> list[Path]:
    """Returns the path of each leaf: `("['w']", "[0]")`."""
    if treedef.kind is None:
        return [()]
    fields: Sequence[str] = getattr(treedef.kind, "_fields", ())  # of a namedtuple
    keys: Keys = _keys.get(treedef.kind, lambda *_: (f".{name}" for name in fields))
    names = keys(treedef.data, len(treedef.children))
    pairs = zip(names, treedef.children, strict=True)
    return [(name, *rest) for name, child in pairs for rest in paths(child)]


def register_dataclass(
    cls: _Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
) -> _Class:
    """Makes a dataclass a container.

    Args:
        cls: The class.
        data_fields: Its children; the other fields if not given.
        meta_fields: What is compared, not traced; if not given, the fields with
            `metadata={"static": True}`.

    Returns:
        The class, so that it can be used as a decorator.
    """
    fields = dataclasses.fields(cls)
    if meta_fields is None:
        meta_fields = [field.name for field in fields if field.metadata.get("static")]
    static = tuple(meta_fields)
    if data_fields is None:
        data_fields = [field.name for field in fields if field.name not in static]
    names = tuple(data_fields)

    def flatten(x: Any) -> tuple[Sequence[Any], Hashable]:
        return [getattr(x, name) for name in names], tuple(getattr(x, name) for name in static)

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        new: Any = object.__new__(cls)  # no __init__: it may check what only real arrays have
        for name, value in zip((*names, *static), (*children, *data), strict=True):
            object.__setattr__(new, name, value)
        return new

    register_pytree_node(cls, flatten, unflatten, lambda *_: (f".{name}" for name in names))
    return cls


def tree_map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Returns a tree like the first, with `f` applied to the corresponding leaves of all trees.

    Raises:
        ValueError: Another tree has other containers than the first.
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = [leaves, *(flatten_like(treedef, other, "tree_map") for other in rest)]
    return treedef.unflatten(map(f, *columns))


def flatten_like(treedef: TreeDef, tree: Any, label: str) -> list[Any]:
    """Returns the subtrees of a tree at the leaves of `treedef`.

    Args:
        treedef: The containers expected; below its leaves the tree may have more.
        tree: The tree.
        label: Names the tree in the error.

    Raises:
        ValueError: The tree has other containers.
    """
    if treedef.kind is None:
        return [tree]
    container = pytree.container_of(type(tree))
    children, data = container.flatten(tree) if container else ((), None)
    if (type(tree), data, len(children)) != (treedef.kind, treedef.data, len(treedef.children)):
        raise ValueError(f"{label}: expected the containers {treedef}, got {tree_structure(tree)}")
    pairs = zip(treedef.children, children, strict=True)
    return [leaf for child, inner in pairs for leaf in flatten_like(child, inner, label)]


def leaves_of(
    treedef: TreeDef, tree: Any, label: str, error: type[Exception] = ValueError
) -> list[Any]:
    """Returns the leaves of a tree that must have exactly these containers.

    Raises:
        ValueError: The tree has other containers; or `error`.
    """
    leaves, containers = tree_flatten(tree)
    if containers != treedef:
        raise error(f"{label}: expected the containers {treedef}, got {containers}")
    return leaves


def prefix_leaves(prefix: Any, treedef: TreeDef, label: str) -> list[Any]:
    """Returns a value per leaf of `treedef` from a tree that may stop early.

    A leaf of the prefix holds for all leaves below it, and None is a leaf: `in_axes=(0, None)` is
    a prefix of the arguments `(x, {"w": w, "b": b})` and gives [0, None, None].

    Raises:
        ValueError: The prefix has other containers than the tree.
    """
    values, branches = tree_flatten(prefix, lambda x: x is None)
    try:
        subtrees = flatten_like(branches, treedef.unflatten(range(treedef.num_leaves)), label)
    except ValueError:
        raise ValueError(f"{label}: {prefix!r} does not fit the containers {treedef}") from None
    pairs = zip(values, subtrees, strict=True)
    return [value for value, subtree in pairs for _ in tree_leaves(subtree)]
