"""Pytrees: nested containers as a flat list of leaves and a description of the nesting.

Transformations are written for lists of arrays; users write dicts of tuples of arrays. So every
transformation flattens its arguments on the way in, and unflattens its results on the way out.

    leaves, treedef = tree_flatten({"w": (1, 2), "b": 3})     # [3, 1, 2]: keys are sorted
    treedef.unflatten([30, 10, 20])                           # {"b": 30, "w": (10, 20)}

The description (`TreeDef`) is hashable and part of the cache key of `jit`: another nesting is
another program. `None` is a container without leaves. What is a container for JAX is one here too.

Options and errors are about two trees: the arguments and the axes given for them, a value and the
cotangent given for it. Errors name a leaf by its path.

In JAX: jax/_src/tree_util.py and "Pytrees" (docs.jax.dev, pytrees.html).
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from jaxlens.core.kernel.trace import Flat

_Class = TypeVar("_Class", bound=type)
IsLeaf = Callable[[Any], bool] | None  # what to take as a leaf besides objects of no container
Path = tuple[str, ...]  # the way from the root to a leaf, as in Python: ("['w']", "[0]")


def _numbered(_: Any, count: int) -> Iterable[str]:
    return (f"[{number}]" for number in range(count))


class Container(NamedTuple):
    """How a class is flattened and unflattened.

    Attributes:
        flatten: Maps an object to its children and hashable auxiliary data.
        unflatten: Builds an object from auxiliary data and children.
        keys: Maps auxiliary data and the number of children to the name of each child.
    """

    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    keys: Callable[[Any, int], Iterable[str]] = _numbered


def _sorted(d: dict[Any, Any]) -> tuple[Sequence[Any], Hashable]:
    try:
        keys = tuple(sorted(d))
    except TypeError:
        raise ValueError(
            f"A dict in a pytree must have keys that can be sorted, got {list(d)[:4]}: "
            f"use keys of one type."
        ) from None
    return [d[key] for key in keys], keys


_containers: dict[type, Container | None] = {  # None: a class that was looked up, and is a leaf
    tuple: Container(lambda x: (x, None), lambda _, xs: tuple(xs)),
    list: Container(lambda x: (x, None), lambda _, xs: list(xs)),
    dict: Container(
        _sorted,
        lambda keys, xs: dict(zip(keys, xs, strict=True)),
        lambda keys, _: (f"[{key!r}]" for key in keys),
    ),
    type(None): Container(lambda _: ((), None), lambda _, xs: None),
}
foreign: list[Callable[[Any], Container | None]] = []  # ask another library: `core/__init__.py`


def register_pytree_node(
    cls: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
    keys: Callable[[Any, int], Iterable[str]] = _numbered,
) -> None:
    """Makes a class a container, its subclasses not; see `Container`.

    Raises:
        ValueError: The class is registered already.
    """
    if _containers.get(cls) is not None:
        raise ValueError(f"{cls.__name__} is registered as a pytree already.")
    _containers[cls] = Container(flatten, unflatten, keys)


def register_dataclass(
    cls: _Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
) -> _Class:
    """Makes a dataclass a container; can be used as a decorator.

    Args:
        cls: The class.
        data_fields: Its children; the other fields if not given.
        meta_fields: What is compared, not traced; if not given, the fields with
            `metadata={"static": True}`.
    """
    fields = dataclasses.fields(cls)
    if meta_fields is None:
        meta_fields = [field.name for field in fields if field.metadata.get("static")]
    static = tuple(meta_fields)
    names = tuple(data_fields or (field.name for field in fields if field.name not in static))

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        new: Any = object.__new__(cls)  # no __init__: it may check what only real arrays have
        for name, value in zip((*names, *static), (*children, *data), strict=True):
            object.__setattr__(new, name, value)
        return new

    register_pytree_node(
        cls,
        lambda x: ([getattr(x, n) for n in names], tuple(getattr(x, n) for n in static)),
        unflatten,
        lambda *_: (f".{name}" for name in names),
    )
    return cls


def _container(x: Any) -> Container | None:
    """Returns how an object is flattened; None if it is a leaf."""
    kind = type(x)
    if kind not in _containers:
        _containers[kind] = next(filter(None, (container_of(x) for container_of in foreign)), None)
    return _containers[kind]


class TreeDef(NamedTuple):
    """The containers of a pytree, with holes for its leaves.

    Attributes:
        kind: The class of the container; None if the whole tree is one leaf.
        data: Auxiliary data of the container, such as the keys of a dict.
        types: The classes of the data, since 1 == True: {1: x} and {True: x} are different trees.
        children: The trees of its children.
        num_leaves: The number of holes.
    """

    kind: type | None = None
    data: Hashable = None
    types: Hashable = None
    children: Sequence["TreeDef"] = ()
    num_leaves: int = 1

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Puts leaves into the holes.

        Raises:
            ValueError: There are more or fewer leaves than holes.
        """
        items = list(leaves)
        if len(items) != self.num_leaves:
            raise ValueError(f"expected {self.num_leaves} leaves for {self}, got {len(items)}")
        return self._build(iter(items))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        children = [child._build(leaves) for child in self.children]
        container: Any = _containers[self.kind]
        return container.unflatten(self.data, children)

    def __repr__(self) -> str:
        return f"PyTreeDef({self.unflatten([Unquoted('*')] * self.num_leaves)!r})"


class Unquoted(str):
    """A string whose repr has no quotes: stands for a leaf in a printed tree."""

    __repr__ = str.__str__


_LEAF = TreeDef()


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """Returns the leaves of a tree from left to right, and its containers."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeDef:
    kind = type(tree)
    container = _containers[kind] if kind in _containers else _container(tree)
    if container is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF
    children, data = container.flatten(tree)
    trees = tuple([_flatten(child, leaves, is_leaf) for child in children])
    try:
        hash(data)
    except TypeError:
        raise TypeError(
            f"What a {type(tree).__name__} keeps beside its children must be hashable, got "
            f"{data!r:.80}."
        ) from None
    types: Any = tuple(map(type, data)) if type(data) is tuple else type(data)
    return TreeDef(type(tree), data, types, trees, sum([child.num_leaves for child in trees]))


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Returns the leaves of a tree from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any) -> TreeDef:
    """Returns the containers of a tree."""
    return tree_flatten(tree)[1]


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Same as `treedef.unflatten(leaves)`."""
    return treedef.unflatten(leaves)


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Returns a tree like the first, with `f` applied to the corresponding leaves of all trees.

    Raises:
        ValueError: Another tree has other containers than the first.
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = [leaves, *(_flatten_like(treedef, other, "tree_map") for other in rest)]
    return treedef.unflatten(map(f, *columns))


def flat(f: Callable[..., Any], in_tree: TreeDef) -> tuple[Flat, list[TreeDef]]:
    """Turns a function of trees into one of flat lists.

    Args:
        f: The function.
        in_tree: The tree of its `(args, kwargs)`.

    Returns:
        The flat function, and a list that holds the tree of its results once it has been called.
    """
    out_trees: list[TreeDef] = []

    def flat_f(*leaves: Any) -> list[Any]:
        args, kwargs = in_tree.unflatten(leaves)
        results, out_tree = tree_flatten(f(*args, **kwargs))
        out_trees[:] = [out_tree]
        return results

    return flat_f, out_trees


# ---- two trees ----------------------------------------------------------------------------------


def paths(treedef: TreeDef) -> list[Path]:
    """Returns the path of each leaf: `("['w']", "[0]")`."""
    if treedef.kind is None:
        return [()]
    container: Any = _containers[treedef.kind]
    pairs = zip(container.keys(treedef.data, len(treedef.children)), treedef.children, strict=True)
    return [(name, *rest) for name, child in pairs for rest in paths(child)]


def _flatten_like(treedef: TreeDef, tree: Any, label: str) -> list[Any]:
    """Returns the subtrees of a tree at the leaves of `treedef`.

    Raises:
        ValueError: The tree has other containers, which the error calls by `label`.
    """
    if treedef.kind is None:
        return [tree]
    container = _container(tree)
    children, data = container.flatten(tree) if container else ((), None)
    if (type(tree), data, len(children)) != (treedef.kind, treedef.data, len(treedef.children)):
        raise ValueError(f"{label}: expected the containers {treedef}, got {tree_structure(tree)}")
    pairs = zip(treedef.children, children, strict=True)
    return [leaf for child, inner in pairs for leaf in _flatten_like(child, inner, label)]


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
        subtrees = _flatten_like(branches, treedef.unflatten(range(treedef.num_leaves)), label)
    except ValueError:
        raise ValueError(f"{label}: {prefix!r} does not fit the containers {treedef}") from None
    pairs = zip(values, subtrees, strict=True)
    return [value for value, subtree in pairs for _ in tree_leaves(subtree)]
