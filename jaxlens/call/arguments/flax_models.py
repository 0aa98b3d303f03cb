"""Names the arrays that `flax.nnx` passes to jit by the user's attributes of the model.

`nnx.jit` splits a model into a graph definition and a flat list of arrays, so that jit's inputs are
called `model.states[0][3]`. The graph definition lists, in preorder, the attribute of each array.

Checked with Flax 0.12. For another graph definition, the names of the flat list are used.
"""

from types import FunctionType
from typing import Any

import jax


def is_states(value: Any) -> bool:
    """Whether a value is a model that `flax.nnx` has split."""
    kind = type(value)
    return kind.__name__ == "NodeStates" and kind.__module__.startswith("flax.nnx")


def paths(value: Any) -> list[str]:
    """Returns the path of each array of a split model, such as ".layers[0].kernel"."""
    flat, _ = jax.tree_util.tree_flatten_with_path(value)
    plain = [jax.tree_util.keystr(path) for path, _ in flat]
    try:
        attributes = _of_graph(value._graphdef)
    except (AttributeError, StopIteration, TypeError):
        return plain
    return attributes if len(attributes) == len(plain) else plain


def _of_graph(graph: Any) -> list[str]:
    """Returns the paths of the attributes that are arrays, in preorder."""
    # Both lists are in preorder; a node has its number of attributes. With the attributes that are
    # still to come on a stack, each attribute belongs to the node on top:
    #     nodes: Model (2), Linear (1), w    attributes: layer, w, rate    ".layer.w", ".rate"
    nodes, attributes = iter(graph.nodes), iter(graph.attributes)
    array_paths: list[str] = []
    root = next(nodes)
    if type(root).__name__ == "VariableDef":  # a variable alone
        return [""]
    pending = [("", getattr(root, "num_attributes", 0))]
    while pending:
        path, left = pending.pop()
        if not left:
            continue
        pending.append((path, left - 1))
        key, attribute = next(attributes)
        step = _step_text(key)
        kind = type(attribute).__name__
        if kind == "NodeAttr":
            node = next(nodes)
            if hasattr(node, "num_attributes"):
                pending.append((path + step, node.num_attributes))
            elif type(node).__name__ != "NodeRef":
                array_paths.append(path + step)
        elif "Array" in kind:
            array_paths.append(path + step)
    return array_paths


def updates(results: Any) -> list[tuple[int | str, str]] | None:
    """Returns the variables that a function under `nnx.jit` without graph updates has written.

    Args:
        results: What its jitted function returns: the user's result, and groups of updates.

    Returns:
        For each the position or name of its argument, and its path in that. None where the
        results are others.
    """
    try:
        _, groups = results
        keys = [key for group in groups for key in group._keys]
        # Paths as Python writes them, without the container of Flax's own.
        steps = [[step for step in map(_step, key[1:]) if step != "__state__"] for key in keys]
        return [(root, "".join(map(_step_text, path)) + ".value") for root, *path in steps]
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


def _step(key: Any) -> Any:
    return next(getattr(key, name) for name in ("idx", "key", "name") if hasattr(key, name))


def _step_text(step: Any) -> str:
    return f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]"


def cached(f: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """Returns the function and arguments of an `nnx.cached_partial`; None for anything else."""
    code: Any = getattr(f, "__code__", None) if isinstance(f, FunctionType) else None
    if getattr(code, "co_qualname", "") != "_cached_partial.<locals>.cache_args_wrapper":
        return None
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    if not {"f", "cached_args"} <= cells.keys():
        return None
    return cells["f"].cell_contents, tuple(cells["cached_args"].cell_contents)
