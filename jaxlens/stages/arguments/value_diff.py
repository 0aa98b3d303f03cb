"""Where exactly two values differ: "cfg.lr", "state.tx", and not the whole of an object.

Containers, dataclasses, partials, pytree definitions and plain objects are opened as long as few
of their parts differ. Values are compared as Python compares them, arrays by identity: nothing is
computed.
"""

import dataclasses
import enum
import functools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jax

PyTreeDef: Any = type(jax.tree_util.tree_structure(0))

_MOST = 3  # parts that are named, before the whole is
_STEPS = 200  # openings of one pair
_ATOMS = (str, bytes, int, float, complex, type)

Difference = tuple[str, Any, Any]
"""A path with its new and old value."""


def differences(name: str, new: Any, old: Any) -> list[Difference]:
    """The innermost parts in which two values differ; the whole where they are many.

    Args:
        name: What the values are called; the paths begin with it.
        new: A value.
        old: Another one.
    """
    found: list[Difference] = [(name, new, old)]
    closed: set[int] = set()
    for _ in range(_STEPS):
        place = next((i for i in range(len(found)) if i not in closed), None)
        if place is None:
            break
        path, now, was = found[place]
        every = _opened(now, was) or []
        parts = [(path + step, a, b) for step, a, b in every if not same(a, b)]
        if isinstance(now, tuple | list) and len(parts) == len(every) > 1:
            parts = []  # a shape is shown as a whole
        if parts and len(found) - 1 + len(parts) <= _MOST:
            found[place : place + 1] = parts
            closed = {i if i < place else i + len(parts) - 1 for i in closed}
        else:
            closed.add(place)
    return found


def same(new: Any, old: Any) -> bool:
    """Whether two values are equal; False if that takes a computation."""
    pairs = [(new, old)]
    begun: set[tuple[int, int]] = set()  # containers that hold themselves end here
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
        elif hasattr(a, "dtype"):
            return False
        else:
            try:
                if not bool(a == b):
                    return False
            except Exception:  # a user's __eq__ may do anything
                return False
    return True


def _opened(new: Any, old: Any) -> list[Difference] | None:
    """The parts of two values of one kind, each with its step; None where there are none."""
    if type(new) is not type(old) or isinstance(new, _ATOMS) or hasattr(new, "dtype"):
        return None
    if isinstance(new, AuxData):
        return _kept_opened(new.value, old.value)
    if isinstance(new, PyTreeDef):
        return _tree_parts(new, old)
    if isinstance(new, dict):
        if list(new) != list(old):
            return None
        return [(f"[{key!r}]", new[key], old[key]) for key in new]
    if isinstance(new, tuple | list):
        if len(new) != len(old):
            return None
        names = getattr(new, "_fields", None)
        steps = [f".{n}" for n in names] if names else [f"[{i}]" for i in range(len(new))]
        return list(zip(steps, new, old, strict=True))
    if isinstance(new, functools.partial):
        return [
            (".func", new.func, old.func),
            (".args", new.args, old.args),
            (".keywords", new.keywords, old.keywords),
        ]
    return _attributes(new, old)


def _attributes(new: Any, old: Any) -> list[Difference] | None:
    """The fields of dataclasses, and the attributes of other objects."""
    if dataclasses.is_dataclass(new):
        names = [field.name for field in dataclasses.fields(new)]
        if all(hasattr(new, name) and hasattr(old, name) for name in names):
            return [(f".{name}", getattr(new, name), getattr(old, name)) for name in names]
    if isinstance(new, enum.Enum | ModuleType) or _is_code(new):
        return None
    held, before = getattr(new, "__dict__", None), getattr(old, "__dict__", None)
    if not isinstance(held, dict) or not isinstance(before, dict) or list(held) != list(before):
        return None
    return [(f".{name}", held[name], before[name]) for name in held]


def _is_code(value: Any) -> bool:
    return hasattr(value, "__code__") or hasattr(value, "__func__")


# ---- pytrees ------------------------------------------------------------------------------------


def _tree_parts(new: Any, old: Any) -> list[Difference] | None:
    """The children of two nodes of one kind, and what these keep beside them."""
    now, was = new.node_data(), old.node_data()
    parts, others = new.children(), old.children()
    if now is None or was is None or now[0] is not was[0] or len(parts) != len(others):
        return None
    kind, kept = now
    children = list(zip(_child_steps(kind, kept, len(parts)), parts, others, strict=True))
    if issubclass(kind, tuple | list | dict):
        return None if not same(kept, was[1]) else children
    return [*_kept_parts(new, kept, was[1]), *children]


def _child_steps(kind: type, kept: Any, count: int) -> list[str]:
    if issubclass(kind, dict) and isinstance(kept, list | tuple) and len(kept) == count:
        return [f"[{key!r}]" for key in kept]
    names = list(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else _fields(kind, False)
    if kind.__module__.startswith("flax.nnx"):  # records of Flax's own round the user's model
        return [""] * count
    return [f".{name}" for name in names] if len(names) == count else _indices(count)


def _indices(count: int) -> list[str]:
    return [f"[{i}]" for i in range(count)]


def _kept_parts(node: Any, new: Any, old: Any) -> Iterator[Difference]:
    """What nodes keep beside their children: the static fields of a dataclass, as a rule."""
    kind = node.node_data()[0]
    names = _fields(kind, True) or _rest(kind, node)
    if not isinstance(new, tuple | list) or not isinstance(old, type(new)) or len(new) != len(old):
        yield "", AuxData(new), AuxData(old)
        return
    if len(new) == len(names) + 1:  # Equinox has what a wrapper says of itself in front
        names = ["", *names]
    named = len(names) == len(new) and not kind.__module__.startswith("flax.nnx")
    steps = [f".{name}" if name else "" for name in names] if named else [""] * len(new)
    yield from ((step, AuxData(a), AuxData(b)) for step, a, b in zip(steps, new, old, strict=True))


def _kept_opened(new: Any, old: Any) -> list[Difference] | None:
    """The parts of auxiliary data; the records of Flax add nothing to the path."""
    parts = _opened(new, old)
    if parts is None:
        return None
    own = type(new).__module__.startswith("flax.nnx")
    found = []
    for step, a, b in parts:
        pair = isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) == 2
        if pair and isinstance(a[0], str) and a[0] == b[0]:
            found.append((f".{a[0]}", AuxData(a[1]), AuxData(b[1])))
        else:
            found.append(("" if own else step, AuxData(a), AuxData(b)))
    return found


def _fields(kind: type, static: bool) -> list[str]:
    """Names of a dataclass's fields that its pytree node keeps, or has as children.

    Equinox, Flax and JAX each mark the static ones in a field's metadata.
    """
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return [field.name for field in fields if _is_static(field.metadata) is static]


def _rest(kind: type, node: Any) -> list[str]:
    """The fields of a dataclass that hold no leaf, where its fields are not marked."""
    try:
        filled = jax.tree_util.tree_unflatten(node, range(node.num_leaves))
        paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(filled)[0]]
    except Exception:  # a class of the user's may refuse such leaves
        return []
    held = {getattr(path[0], "name", None) for path in paths}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return [field.name for field in fields if field.name not in held]


def _is_static(marks: Any) -> bool:
    return bool(marks.get("static")) or marks.get("pytree_node") is False


class AuxData:
    """A value that a node of a pytree keeps beside its children: part of the structure."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AuxData) and same(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]
