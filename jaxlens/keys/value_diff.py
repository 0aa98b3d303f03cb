"""Finds the innermost parts in which two values differ: "cfg.lr" instead of the whole `cfg`.

Containers, dataclasses, partials, pytree definitions and other objects are opened as long as few of
their parts differ. Values are compared by `==`, arrays by identity: nothing is computed.

    Config(lr=0.1, sizes=(4, 4)), Config(lr=0.2, sizes=(4, 4))    cfg.lr: 0.1, 0.2
    Config(lr=0.1, sizes=(4, 4)), Config(lr=0.1, sizes=(8, 8))    cfg.sizes: (4, 4), (8, 8)
    {"a": 1, "b": 2}, {"a": 1, "c": 2}                            cfg: the whole, as the keys differ
"""

import dataclasses
import enum
import functools
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import jax

PyTreeDef: Any = type(jax.tree_util.tree_structure(0))

_MOST = 3  # parts that are named, before the whole is
_STEPS = 200  # openings of one pair
_ATOMS = (str, bytes, int, float, complex, type)

Difference = tuple[str, Any, Any]
"""A path with its new and old value."""


def differences(name: str, new: Any, old: Any, most: int = _MOST) -> list[Difference]:
    """Returns the innermost parts in which two values differ; the whole values if they are many.

    Args:
        name: The name of the values, with which the paths begin.
        new: The new value.
        old: The old value.
        most: How many are given, before the whole is.
    """
    innermost: list[Difference] = []
    pending: list[Difference] = [(name, new, old)]
    for _ in range(_STEPS):
        if not pending:
            break
        path, now, was = pending.pop(0)
        children = list(_opened(now, was))
        parts = [(path + step, a, b) for step, a, b in children if not same(a, b)]
        if isinstance(now, tuple | list) and len(parts) == len(children) > 1:
            parts = []  # a shape is shown as a whole
        if parts and len(innermost) + len(pending) + len(parts) <= most:
            pending = parts + pending
        else:
            innermost.append((path, now, was))
    return innermost + pending


def same(new: Any, old: Any) -> bool:
    """Whether two values are equal; False if that takes a computation."""
    pairs = [(new, old)]
    begun: set[tuple[int, int]] = set()  # a container that contains itself ends here
    while pairs:
        a, b = pairs.pop()
        if a is b or (id(a), id(b)) in begun:
            continue
        if isinstance(a, tuple | list | dict):
            begun.add((id(a), id(b)))
        if type(a) is not type(b):
            return False
        if isinstance(a, tuple | list):
            if len(a) != len(b):
                return False
            pairs += zip(a, b, strict=True)
        elif isinstance(a, dict):
            if list(a) != list(b):
                return False
            pairs += ((a[key], b[key]) for key in a)
        elif _is_array(a):
            return False
        else:
            try:
                if not bool(a == b):
                    return False
            except Exception:  # a user's __eq__ may do anything
                return False
    return True


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")  # a config may have a `dtype`


def _opened(new: Any, old: Any) -> Iterator[Difference]:
    """Yields the parts of two values of one class; none where they cannot be opened."""
    if type(new) is not type(old) or isinstance(new, _ATOMS) or _is_array(new):
        return
    if isinstance(new, AuxData):
        yield from _aux_opened(new.value, old.value)
    elif isinstance(new, PyTreeDef):
        yield from _tree_parts(new, old)
    elif isinstance(new, dict):
        if list(new) == list(old):
            yield from ((f"[{key!r}]", new[key], old[key]) for key in new)
    elif isinstance(new, tuple | list):
        if len(new) == len(old):
            yield from zip(tuple_steps(new), new, old, strict=True)
    else:
        yield from _attributes(new, old)


def tuple_steps(value: Sequence[Any]) -> list[str]:
    """Returns the steps to the items of a tuple or list: names of fields, or indices."""
    names = getattr(value, "_fields", None)
    return [f".{name}" for name in names] if names else [f"[{i}]" for i in range(len(value))]


def _attributes(new: Any, old: Any) -> Iterator[Difference]:
    """Yields what a partial has, the fields of dataclasses, or the attributes of other objects."""
    names: Sequence[str] | None = None
    if isinstance(new, functools.partial):
        names = ("func", "args", "keywords")
    elif dataclasses.is_dataclass(new):
        names = [field.name for field in dataclasses.fields(new)]
    if names is not None and all(hasattr(value, name) for name in names for value in (new, old)):
        yield from ((f".{name}", getattr(new, name), getattr(old, name)) for name in names)
        return
    is_code = hasattr(new, "__code__") or hasattr(new, "__func__")
    now, was = getattr(new, "__dict__", None), getattr(old, "__dict__", None)
    if is_code or isinstance(new, enum.Enum | ModuleType):
        return
    if isinstance(now, dict) and isinstance(was, dict) and list(now) == list(was):
        yield from ((f".{name}", now[name], was[name]) for name in now)


# ---- pytrees ------------------------------------------------------------------------------------


def _tree_parts(new: Any, old: Any) -> Iterator[Difference]:
    """Yields the auxiliary data and the children of two nodes of one class."""
    now, was = new.node_data(), old.node_data()
    parts, old_parts = new.children(), old.children()
    if now is None or was is None or now[0] is not was[0] or len(parts) != len(old_parts):
        return
    kind, aux_data = now
    if not issubclass(kind, tuple | list | dict):
        yield from _aux_parts(new, aux_data, was[1])
    elif not same(aux_data, was[1]):
        return
    yield from zip(_child_steps(kind, aux_data, len(parts)), parts, old_parts, strict=True)


def _child_steps(kind: type, aux_data: Any, count: int) -> list[str]:
    if issubclass(kind, dict) and isinstance(aux_data, list | tuple) and len(aux_data) == count:
        return [f"[{key!r}]" for key in aux_data]
    names = list(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else _fields(kind, False)
    if kind.__module__.startswith("flax.nnx"):  # Flax's own records around the user's model
        return [""] * count
    return [f".{name}" for name in names] if len(names) == count else tuple_steps(range(count))


def _aux_parts(node: Any, new: Any, old: Any) -> Iterator[Difference]:
    """Yields the parts of the nodes' auxiliary data, usually the static fields of a dataclass.

    `Linear(w=array, n=3)` with a static `n` has the auxiliary data (3,): the part is ".n".
    """
    kind = node.node_data()[0]
    names = _fields(kind, True) or _leafless_fields(kind, node)
    if not isinstance(new, tuple | list) or not isinstance(old, type(new)) or len(new) != len(old):
        yield "", AuxData(new), AuxData(old)
        return
    if len(new) == len(names) + 1:  # Equinox has the names of a wrapper in front
        names = ["", *names]
    named = len(names) == len(new) and not kind.__module__.startswith("flax.nnx")
    steps = [f".{name}" if name else "" for name in names] if named else [""] * len(new)
    yield from ((step, AuxData(a), AuxData(b)) for step, a, b in zip(steps, new, old, strict=True))


def _aux_opened(new: Any, old: Any) -> Iterator[Difference]:
    """Yields the parts of auxiliary data.

    A pair of a name and a value, as in Flax, has the path ".name"; Flax's own records have none.
    """
    own = type(new).__module__.startswith("flax.nnx")
    for step, a, b in _opened(new, old):
        pair = isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) == 2
        if pair and isinstance(a[0], str) and a[0] == b[0]:
            yield f".{a[0]}", AuxData(a[1]), AuxData(b[1])
        else:
            yield "" if own else step, AuxData(a), AuxData(b)


def _fields(kind: type, static: bool) -> list[str]:
    """Returns the names of the static fields of a dataclass, or of the others.

    Equinox, Flax and JAX each mark the static ones in the field's metadata.
    """
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    marks = {field.name: field.metadata for field in fields}
    return [
        name
        for name, mark in marks.items()
        if static == (bool(mark.get("static")) or not mark.get("pytree_node", True))
    ]


def _leafless_fields(kind: type, node: Any) -> list[str]:
    """Returns the fields of a dataclass that have no leaf, for a class that does not mark them."""
    try:
        filled = jax.tree_util.tree_unflatten(node, range(node.num_leaves))
        paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(filled)[0]]
    except Exception:  # a class of the user's may refuse such leaves
        return []
    with_leaves = {getattr(path[0], "name", None) for path in paths}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return [field.name for field in fields if field.name not in with_leaves]


class AuxData:
    """The auxiliary data of a pytree node, or a part of it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AuxData) and same(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]
