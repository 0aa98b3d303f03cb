"""Pytrees: nested containers as a flat list of leaves and a description of the nesting.

Transformations are written for lists of arrays; users write dicts of tuples of arrays. So every
transformation flattens its arguments on the way in and puts the same containers round its results
on the way out. The description (`TreeDef`) is hashable: a different nesting is another program.

After "Pytrees" (docs.jax.dev, pytrees.html). `None` is a container without leaves, and dicts are
gone through in the order of their keys, so that equal dicts give equal lists.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar, cast

_Class = TypeVar("_Class", bound=type)
Path = tuple[str, ...]  # how to get from the root to a leaf: ("['w']", "[0]")


class Container(NamedTuple):
    """How one class is taken apart and put together.

    Attributes:
        flatten: An object to its children and what else is needed to build it again (hashable).
        unflatten: These two, the other way round, to an object.
        keys: The same data to the name of each child, as it would be written in Python.
    """

    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    keys: Callable[[Any, int], Iterable[str]]


def _numbered(_: Any, count: int) -> Iterable[str]:
    return (f"[{i}]" for i in range(count))


def _nameless(_: Any, count: int) -> Iterable[str]:
    return (f".<child {i}>" for i in range(count))


def _flatten_dict(d: dict[Any, Any]) -> tuple[Sequence[Any], Hashable]:
    try:
        keys = tuple(sorted(d))
    except TypeError:
        raise ValueError(
            f"A dict in a pytree must have keys that can be sorted, got {list(d)[:4]}: "
            f"use keys of one type."
        ) from None
    return [d[key] for key in keys], keys


_containers: dict[type, Container | None] = {  # None: the class was seen, and is none
    tuple: Container(lambda x: (x, None), lambda _, xs: tuple(xs), _numbered),
    list: Container(lambda x: (x, None), lambda _, xs: list(xs), _numbered),
    dict: Container(
        _flatten_dict,
        lambda keys, xs: dict(zip(keys, xs, strict=True)),
        lambda keys, _: (f"[{key!r}]" for key in keys),
    ),
    type(None): Container(lambda _: ((), None), lambda _, xs: None, _numbered),
}
_NAMED = Container(  # any namedtuple
    lambda x: (x, cast(Hashable, type(x))),
    lambda cls, xs: cls(*xs),
    lambda cls, _: (f".{name}" for name in cls._fields),
)


def register_pytree_node(
    cls: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
    keys: Callable[[Any, int], Iterable[str]] = _nameless,
) -> None:
    """Makes a class a container.

    Args:
        cls: The class; not its subclasses.
        flatten: An object to its children and the rest of it, which must be hashable.
        unflatten: That rest and new children to an object.
        keys: That rest and the number of children to the name of each.

    Raises:
        ValueError: It is registered already.
    """
    if _containers.get(cls) is not None:
        raise ValueError(f"{cls.__name__} is registered as a pytree already.")
    _containers[cls] = Container(flatten, unflatten, keys)


def register_dataclass(cls: _Class, static: Sequence[str] = ()) -> _Class:
    """Makes a dataclass a container of its fields; those named `static` are compared, not traced.

    Returns:
        The class, so that it can stand above one as a decorator.
    """
    names = tuple(field.name for field in fields(cls) if field.name not in static)

    def flatten(x: Any) -> tuple[Sequence[Any], Hashable]:
        return [getattr(x, name) for name in names], tuple(getattr(x, name) for name in static)

    def unflatten(rest: Any, children: Sequence[Any]) -> Any:
        new: Any = object.__new__(cls)  # no __init__: it may check what only real arrays have
        for name, value in zip((*names, *static), (*children, *rest), strict=True):
            object.__setattr__(new, name, value)
        return new

    register_pytree_node(cls, flatten, unflatten, lambda *_: (f".{name}" for name in names))
    return cls


def _container(kind: type) -> Any:
    """How a class is taken apart; None for one that is no container."""
    if kind not in _containers:
        named = issubclass(kind, tuple) and hasattr(kind, "_fields")
        _containers[kind] = _NAMED if named else None
    return _containers[kind]


class TreeDef:
    """The containers of a pytree, with holes for its leaves; one object for each nesting.

    Attributes:
        kind: The class of the container; None where the whole tree is one leaf.
        data: What the container says beside its children, such as the keys of a dict.
        children: The trees in it.
        num_leaves: How many holes there are.
    """

    kind: type | None
    data: Hashable
    children: tuple["TreeDef", ...]
    num_leaves: int

    def __new__(
        cls, kind: type | None, data: Hashable, children: tuple["TreeDef", ...]
    ) -> "TreeDef":
        # 1 and True are equal keys of a dict, but not the same tree.
        types = tuple(map(type, data)) if type(data) is tuple else type(data)
        key = kind, data, types, children
        try:
            found = _all.get(key)
        except TypeError:
            name = kind.__name__ if kind else ""
            raise TypeError(
                f"What a {name} keeps beside its children must be hashable, got {data!r:.80}."
            ) from None
        if found is None:
            found = object.__new__(cls)
            found.kind, found.data, found.children = kind, data, children
            found.num_leaves = sum(child.num_leaves for child in children) if kind else 1
            found = _all.setdefault(key, found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeDef, (self.kind, self.data, self.children)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Puts leaves into the holes.

        Raises:
            ValueError: There are more or fewer than holes.
        """
        rest = list(leaves)
        if len(rest) != self.num_leaves:
            raise ValueError(f"expected {self.num_leaves} leaves for {self}, got {len(rest)}")
        return self._filled(iter(rest))

    def _filled(self, leaves: Any) -> Any:
        if self.kind is None:
            return next(leaves)
        children = [
            next(leaves) if child is _LEAF else child._filled(leaves) for child in self.children
        ]
        return _container(self.kind).unflatten(self.data, children)

    def paths(self) -> list[Path]:
        """How to get to each leaf."""
        if self.kind is None:
            return [()]
        names = _container(self.kind).keys(self.data, len(self.children))
        pairs = zip(names, self.children, strict=True)
        return [(name, *rest) for name, child in pairs for rest in child.paths()]

    def __str__(self) -> str:
        return f"PyTreeDef({self.unflatten([Unquoted('*')] * self.num_leaves)!r})"

    __repr__ = __str__


class Unquoted(str):
    """A text that prints as it is, in the place of a leaf."""

    __repr__ = str.__str__


_all: dict[Any, TreeDef] = {}
_LEAF = TreeDef(None, None, ())


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree from left to right, and what is needed to put them back."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeDef:
    kind = type(tree)
    container = _containers.get(kind) or _container(kind)
    if container is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF
    # Every call of a jitted function comes by: most containers are tuples and lists, most children
    # leaves, most trees known.
    plain = kind is tuple or kind is list
    children, data = (tree, None) if plain else container.flatten(tree)
    inner = []
    for child in children:
        if _containers.get(type(child), container) is None:
            leaves.append(child)
            inner.append(_LEAF)
        else:
            inner.append(_flatten(child, leaves, is_leaf))
    trees = tuple(inner)
    return (plain and _all.get((kind, None, type(None), trees))) or TreeDef(kind, data, trees)


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """`treedef.unflatten(leaves)`."""
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any) -> TreeDef:
    """The containers of a tree."""
    return tree_flatten(tree)[1]


def tree_map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """A tree like the first, with `f` of the leaves that stand at one place in all of them.

    Raises:
        ValueError: Another tree has other containers than the first.
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = [leaves, *(flatten_like(treedef, other, "tree_map") for other in rest)]
    return treedef.unflatten(map(f, *columns))


def flatten_like(treedef: TreeDef, tree: Any, what: str) -> list[Any]:
    """The leaves of a tree that must have these containers; below its leaves it may have more.

    Args:
        treedef: The containers expected.
        tree: The tree.
        what: Whose tree it is, for the error.

    Raises:
        ValueError: It has others.
    """
    if treedef.kind is None:
        return [tree]
    container = _container(type(tree))
    children, data = container.flatten(tree) if container else ((), None)
    found = type(tree), data, len(children)
    if found != (treedef.kind, treedef.data, len(treedef.children)):
        raise ValueError(f"{what}: expected the containers {treedef}, got {tree_structure(tree)}")
    pairs = zip(treedef.children, children, strict=True)
    return [leaf for child, inner in pairs for leaf in flatten_like(child, inner, what)]


def leaves_of(
    treedef: TreeDef, tree: Any, what: str, error: type[Exception] = ValueError
) -> list[Any]:
    """The leaves of a tree that must have these containers and no others.

    Raises:
        ValueError: It has others; or `error`.
    """
    leaves, found = tree_flatten(tree)
    if found is not treedef:
        raise error(f"{what}: expected the containers {treedef}, got {found}")
    return leaves


def prefix_leaves(prefix: Any, treedef: TreeDef, what: str) -> list[Any]:
    """A value for each leaf, from a tree that may stop early: its leaf stands for all below.

    `in_axes=(0, None)` is such a prefix of the tree of the arguments. None is a leaf of it.

    Raises:
        ValueError: It branches otherwise than the tree does.
    """
    given, branches = tree_flatten(prefix, lambda x: x is None)
    try:
        below = flatten_like(branches, treedef.unflatten(range(treedef.num_leaves)), what)
    except ValueError:
        raise ValueError(f"{what}: {prefix!r} does not fit the containers {treedef}") from None
    pairs = zip(given, below, strict=True)
    return [value for value, part in pairs for _ in tree_leaves(part)]
