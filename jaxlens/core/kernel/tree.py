"""Pytrees: nested containers as a flat list of leaves and a description of the nesting.

Transformations are written for lists of arrays; users write dicts of tuples of arrays. So every
transformation flattens its arguments on the way in, and unflattens its results on the way out.

    leaves, treedef = tree_flatten({"w": (1, 2), "b": 3})     # [3, 1, 2]: keys are sorted
    treedef.unflatten([30, 10, 20])                           # {"b": 30, "w": (10, 20)}

The description (`TreeDef`) is hashable and part of the cache key of `jit`: another nesting is
another program. `None` is a container without leaves.

In JAX: jax/_src/tree_util.py and "Pytrees" (docs.jax.dev, pytrees.html).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

IsLeaf = Callable[[Any], bool] | None  # what to take as a leaf besides objects of no container


class Container(NamedTuple):
    """How a class is flattened and unflattened.

    Attributes:
        flatten: Maps an object to its children and hashable auxiliary data.
        unflatten: Builds an object from auxiliary data and children.
    """

    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]]
    unflatten: Callable[[Any, Sequence[Any]], Any]


def _flatten_dict(d: dict[Any, Any]) -> tuple[Sequence[Any], Hashable]:
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
    dict: Container(_flatten_dict, lambda keys, xs: dict(zip(keys, xs, strict=True))),
    type(None): Container(lambda _: ((), None), lambda _, xs: None),
}
_NAMEDTUPLE = Container(lambda x: (x, cast(Hashable, type(x))), lambda cls, xs: cls(*xs))


def register_container(cls: type, container: Container) -> None:
    """Makes a class a container; its subclasses are not registered.

    Raises:
        ValueError: The class is registered already.
    """
    if _containers.get(cls) is not None:
        raise ValueError(f"{cls.__name__} is registered as a pytree already.")
    _containers[cls] = container


def container_of(kind: type) -> Any:
    """Returns the `Container` of a class; None if its objects are leaves."""
    if kind not in _containers:
        namedtuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
        _containers[kind] = _NAMEDTUPLE if namedtuple else None
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
        return container_of(self.kind).unflatten(self.data, children)

    def __str__(self) -> str:
        return f"PyTreeDef({self.unflatten([Unquoted('*')] * self.num_leaves)!r})"

    __repr__ = __str__


class Unquoted(str):
    """A string whose repr has no quotes: stands for a leaf in a printed tree."""

    __repr__ = str.__str__


_LEAF = TreeDef()


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """Returns the leaves of a tree from left to right, and its containers."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeDef:
    container = container_of(type(tree))
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
    types = tuple(map(type, data)) if type(data) is tuple else type(data)
    return TreeDef(type(tree), data, types, trees, sum([child.num_leaves for child in trees]))


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Returns the leaves of a tree from left to right."""
    return tree_flatten(tree, is_leaf)[0]
