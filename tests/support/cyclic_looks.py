"""Looks at programs with cyclic values; run in a process of its own by `test_cyclic_values.py`.

Prints a line of JSON: of each look, what it ended in, how many levels of recursion it cost in
Python, and whether C code still recurses as deep as before. A look that costs all of them would
take every later one with it.
"""

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

import jaxlens
from jaxlens.call.arguments import pytrees
from jaxlens.keys import closed_values, value_diff

X = jnp.ones(3)
DEEP = 100_000


@jax.tree_util.register_dataclass
@dataclass
class Tree:
    """A node of a user's own, which JAX can flatten."""

    w: Any
    inner: Any


def cyclic_dict():
    node: dict[str, Any] = {"w": jnp.ones(3)}
    node["child"] = {"parent": node}
    return node


def cyclic_list():
    items: list[Any] = [jnp.ones(3)]
    items.append([items])
    return items


def cyclic_object():
    node = SimpleNamespace(w=jnp.ones(3))
    node.next = SimpleNamespace(previous=node, all=[node])
    return node


def cyclic_tree():
    tree = Tree(jnp.ones(3), None)
    tree.inner = {"up": tree}
    return tree


def deep(wrap, node):
    """A value in as many others."""
    for _ in range(DEEP):
        node = wrap(node)
    return node


MAKERS: dict[str, Callable[[], Any]] = {
    "cyclic_dict": cyclic_dict,
    "cyclic_list": cyclic_list,
    "cyclic_object": cyclic_object,
    "cyclic_tree": cyclic_tree,
    "deep_list": lambda: deep(lambda node: [node], [jnp.ones(3)]),
    "deep_dict": lambda: deep(lambda node: {"inner": node}, {"w": jnp.ones(3)}),
    "deep_tree": lambda: deep(lambda node: Tree(None, node), Tree(jnp.ones(3), None)),
    "deep_objects": lambda: deep(
        lambda node: SimpleNamespace(next=node), SimpleNamespace(w=jnp.ones(3))
    ),
}


def weight(value):
    """An array somewhere in it, found as Python finds it."""
    while not isinstance(value, jax.Array):
        if isinstance(value, dict):
            value = value.get("w", value.get("inner"))
        elif isinstance(value, list):
            value = value[0]
        else:
            inner = getattr(value, "w", None)
            value = inner if inner is not None else getattr(value, "next", None) or value.inner
    return value


def looks(value):
    """Looks at a value that is closed over, an argument, created by the trace, or compared."""

    def closes(x):
        return (x * weight(value)).sum()

    def leaves_a_global(x):
        global LEFT
        LEFT = [value, x]
        return x * 2

    def wraps_itself(x):
        return x * 2

    wraps_itself.__wrapped__ = wraps_itself  # type: ignore[attr-defined]
    jitted = jax.jit(closes)
    twin = SimpleNamespace(inner=[value, None])

    def watched():
        with jaxlens.recompiles() as found:
            jitted(X)
            jitted(jnp.ones((2, 3)))
            jax.jit(lambda x: closes(x))(X)
            jax.jit(lambda x: closes(x))(X)
        return str(found)

    return {
        "jaxpr": lambda: str(jaxlens.jaxpr(closes, X)),
        "cost": lambda: str(jaxlens.cost(closes, X)),
        "captured": lambda: str(jaxlens.captured(closes, X)),
        "key": lambda: str(jaxlens.key(jitted, X)),
        "recompiles": watched,
        "values": lambda: str(closed_values.values(closes)),
        "wrapped": lambda: str(jaxlens.jaxpr(wraps_itself, X)),
        "global": lambda: str(jaxlens.jaxpr(leaves_a_global, X)),
        "holds": lambda: str(pytrees.holds_arrays(value)),
        "same": lambda: str(value_diff.differences("v", [value, 1], [type(twin)(), 2])),
        "argument": lambda: str(jaxlens.jaxpr(lambda p: X * 2, value)),
        "argument under grad": lambda: str(
            jaxlens.capture(jax.jit(lambda p, x: x * 2), value, X).jaxpr.text
        ),
        "result": lambda: str(jaxlens.jaxpr(lambda x: value, X)),
    }


def python_levels():
    """How many frames of Python fit on the stack."""
    count = 0

    def go():
        nonlocal count
        count += 1
        go()

    with contextlib.suppress(RecursionError):
        go()
    return count


def c_levels():
    """How deep C code recurses: a list in lists, printed."""
    low, high = 0, 20_000
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if prints(nested(middle)) else (low, middle - 1)
    return low


def nested(levels):
    items: list[Any] = []
    for _ in range(levels):
        items = [items]
    return items


def prints(items):
    try:
        repr(items)
    except RecursionError:
        return False
    return True


def main():
    told: dict[str, dict[str, Any]] = {}
    str(jaxlens.cost(lambda x: x * 2, X))  # what is imported late is imported now
    before = python_levels()
    deepest = nested(c_levels() - 1)
    for kind, make in MAKERS.items():
        value = make()
        for name, look in looks(value).items():
            try:
                ended = look()
            except Exception as error:
                ended = f"{type(error).__name__}: {error}"
            lost = before - python_levels()
            told[f"{kind}, {name}"] = {
                "ended": ended,
                "python": lost,
                "c": prints(deepest),
            }
    sys.stdout.write(json.dumps(told))
