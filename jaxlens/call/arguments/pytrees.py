"""Walks over pytrees that may contain themselves, or nest deeper than Python recurses.

Flattening in jaxlib recurses in C, and an error inside a container does not restore the recursion
depth (jax 0.10.2 and 0.12.0.1): after flattening a dict that contains itself, every Python call of
the process raises RecursionError. So values of unknown depth, such as those of closures, are walked
here, and a program's arguments are checked here before jaxlib flattens them. Each node is opened
by one level only, which does not recurse.
"""

import inspect
import sys
import traceback
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxlens.call.arguments.inputs import named_arguments
from jaxlens.errors import OptionError

_DICTS = (dict, OrderedDict, defaultdict)
_DEEPEST = 200  # containers inside each other, of what is only looked through
_LEAVES = 200_000
_SPARE = 100  # levels that JAX itself needs below its caller
_LONGEST = 80  # characters of a key, or of a path in a message


def leaves(value: Any, most: int = _LEAVES) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of a pytree with their paths as `jax.tree_util.keystr` writes them.

    Each container is opened once, and none below 200 levels.

    Args:
        value: Anything.
        most: Leaves and containers after which the walk ends.
    """
    # The walk keeps its nodes alive: a class may create its children at each flattening,
    # and an identity is only one as long as its object lives.
    opened: dict[int, Any] = {}
    pending = [("", 0, value)]
    left = most
    while pending and left > 0:
        path, depth, part = pending.pop()
        left -= 1
        if id(part) in opened or depth > _DEEPEST:
            continue
        children = _children(part)
        if children is None:
            yield path, part
            continue
        opened[id(part)] = part
        # The walk ends before it reaches more children than these.
        pending += [(path + _text(k), depth + 1, c) for k, c in children[:left]][::-1]


def is_array(value: Any) -> bool:
    """Whether a value is one array of JAX, NumPy or `jaxlens.core`, or a NumPy scalar."""
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return True
    core = sys.modules.get("jaxlens.core")  # imported by whoever made the array
    return core is not None and isinstance(value, core.Array)


def holds_arrays(value: Any) -> bool:
    """Whether a value is an array, or a pytree with an array among its leaves."""
    return is_array(value) or any(is_array(leaf) for _, leaf in leaves(value))


def check_call(
    args: Sequence[Any], kwargs: Mapping[str, Any], signature: inspect.Signature | None
) -> None:
    """Checks each argument of a call; see `check`."""
    for name, value in named_arguments(args, kwargs, signature).items():
        check(name, value)


def check(name: str, value: Any) -> None:
    """Checks that JAX can flatten a value: it neither contains itself nor nests too deep.

    Args:
        name: The name of the argument.
        value: The argument.

    Raises:
        OptionError: JAX cannot flatten the value.
    """
    frames = sum(1 for _ in traceback.walk_stack(sys._getframe()))
    limit = sys.getrecursionlimit() - frames - _SPARE
    deepest: dict[int, int] = {}  # where each container was met, in containers round it
    kept: list[Any] = []  # alive, see `leaves`
    pending = [("", 0, value)]
    while pending:
        path, depth, part = pending.pop()
        children = _children(part) if deepest.get(id(part), -1) < depth else None
        if children is None:
            continue
        if depth >= limit:
            raise OptionError(
                f"expected containers that nest at most {limit} deep, none of which holds itself, "
                f"got deeper ones in {name}{path[:_LONGEST]}: jax.jit cannot flatten them either; "
                "pass the arrays in a list"
            )
        deepest[id(part)] = depth
        kept.append(children)
        pending += [(path + _text(key), depth + 1, child) for key, child in children]


def _children(part: Any) -> list[tuple[Any, Any]] | None:
    """Returns the children of a node with JAX's keys; None for a leaf."""
    kind = type(part)
    if part is None:
        return []
    if kind in _DICTS:
        return [(jax.tree_util.DictKey(key), child) for key, child in part.items()]
    if kind is list or kind is tuple:
        return [(jax.tree_util.SequenceKey(i), child) for i, child in enumerate(part)]
    if jax.tree_util.all_leaves([part]):
        return None
    # JAX calls `is_leaf` with the node, which is opened, then with each child, which is not.
    is_leaf = iter((False,))
    try:
        children = jax.tree_util.tree_flatten_with_path(part, is_leaf=lambda _: next(is_leaf, True))
    except Exception:  # a class of the user's, which may be half made
        return []
    return [(path[0], child) for path, child in children[0]]


def _text(key: Any) -> str:
    """Returns a step of a path; the `repr` of a key may fail, or be long."""
    try:
        text = jax.tree_util.keystr((key,))
    except Exception:
        return "[...]"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...]"
