"""vmap as users call it: axes as prefix trees, named axes for collectives, checked arguments.

    vmap(f, in_axes=(None, 0), axis_name="i")        # inside: psum(x, "i") sums over the examples

The names are in a context variable: a traced function may be called far from the `vmap` that names
its axis.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from jaxlens.core.kernel.basics import Dim, moveaxis, to_front
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.kernel.sources import named_scope
from jaxlens.core.kernel.trace import Flat
from jaxlens.core.kernel.types import setting
from jaxlens.core.kernel.vmap import batch_flat
from jaxlens.core.transforms.promotion import axis_of
from jaxlens.core.transforms.signatures import arguments, types_of
from jaxlens.core.transforms.trees import TreeDef, flat, prefix_leaves, tree_flatten
from jaxlens.core.transforms.values import as_value

_axes: ContextVar[dict[str, int]] = ContextVar("axes", default={})  # noqa: B039 - never mutated
named_axes = _axes.get  # the names of the axes that are mapped over, and their sizes


def naming(sizes: dict[str, int]) -> AbstractContextManager[None]:
    """Within it axes of these sizes have names that collectives can use."""
    return setting(_axes, _axes.get() | sizes)


def vmap_flat(
    f: Flat, size: int, values: Sequence[Any], dims: Sequence[Dim], name: str | None
) -> tuple[list[Any], list[Dim]]:
    """`vmap` of a function of flat lists, over an axis that may have a name."""
    with naming({name: size} if name else {}):
        return batch_flat(f, size, values, dims, name)


def vmap(
    f: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
) -> Callable[..., Any]:
    """Returns the function that does for many examples what `f` does for one.

    Args:
        f: A function of pytrees of arrays.
        in_axes: Which axis of each argument counts the examples; None if all examples share it. A
            tree that may stop early: `(0, None)`, `({"w": 0, "b": None}, 0)`.
        out_axes: Where that axis is in the results.
        axis_name: What collectives such as `psum` call it.
        axis_size: The number of examples, if no argument has it.

    Raises:
        ValueError: The arguments disagree on the number of examples; or `in_axes` does not fit
            them.
    """

    @wraps(f)
    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree, dims, size = counted("vmap", f, args, kwargs, in_axes, axis_size)
        flat_f, out_trees = flat(f, in_tree)
        with named_scope("vmap()"):
            results, dims_out = vmap_flat(flat_f, size, leaves, dims, axis_name)
        axes = prefix_leaves(out_axes, out_trees[0], "vmap out_axes")
        return out_trees[0].unflatten(map(_moved, [size] * len(axes), results, dims_out, axes))

    return batched


def counted(
    caller: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    in_axes: Any,
    size: int | None = None,
) -> tuple[list[Any], TreeDef, list[Dim], int]:
    """Returns the leaves of arguments, their tree, the axis of each leaf, the number of examples.

    Args:
        caller: The name of the transformation, for errors.
        f: The function.
        args: Its arguments.
        kwargs: Its keyword arguments, whose examples are along their first axes.
        in_axes: The axes, a tree that may stop early.
        size: The number of examples, if the user said it.
    """
    leaves, in_tree = tree_flatten((tuple(args), kwargs))
    avals = types_of(f, in_tree, leaves)
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    dims = prefix_leaves(axes, in_tree.children[0], f"{caller} in_axes")
    dims += [0] * (len(leaves) - len(dims))
    sizes = {} if size is None else {"axis_size": size}
    for n, (_, name) in enumerate(arguments(f, in_tree)):
        aval, dim = avals[n], dims[n]
        if dim is None:
            continue
        if not isinstance(dim, int) or not -aval.ndim <= dim < aval.ndim:
            raise (ValueError if isinstance(dim, int) else TypeError)(
                f"{caller}: in_axes says axis {dim!r} of argument {name}, which is "
                f"{aval.str_short()}: "
                f"{f'give an axis from 0 to {aval.ndim - 1}, or ' if aval.ndim else 'give '}None "
                f"to share it."
            )
        dims[n] = dim % aval.ndim
        sizes[name] = aval.shape[dim]
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise ValueError(
            f"{caller}: the arguments do not agree on the number of examples: {listed}."
        )
    if not sizes:
        raise ValueError(f"{caller}: no argument counts the examples: give in_axes or axis_size.")
    return leaves, in_tree, dims, next(iter(sizes.values()))


def _moved(size: int, value: Any, dim: Dim, out_dim: Any) -> Any:
    """Moves the examples of a result to the axis that `out_axes` says."""
    if out_dim is None:
        if dim is not None:
            raise ValueError(
                "vmap: out_axes is None for a result that differs from example to example."
            )
        return as_value(value)
    front = to_front(size, value, dim)
    return as_value(moveaxis(front, 0, axis_of(out_dim, aval_of(front).ndim)))
