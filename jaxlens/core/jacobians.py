"""Jacobians and Hessians: the derivative applied to every basis vector at once, by `vmap`.

Forward mode gives a column per run, reverse mode a row. A Hessian is the Jacobian of a gradient;
forward over reverse costs one forward run per input.

    jacfwd(f)(x)  =  vmap(lambda basis: jvp(f, (x,), (basis,))[1], out_axes=-1)(eye)

After "The Autodiff Cookbook" (docs.jax.dev).
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from jaxlens.core.interop.from_jax import library
from jaxlens.core.kernel.basics import reshape
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.transforms.batching import vmap
from jaxlens.core.transforms.derivatives import Argnums, check_output, jvp, of_argnums, vjp
from jaxlens.core.transforms.trees import tree_flatten, tree_map


def jacfwd(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Returns the function that gives the Jacobian by forward mode: for few inputs, many outputs.

    Args:
        f: A function of pytrees.
        argnums: Which arguments to differentiate with respect to.

    Returns:
        A function of the same arguments. Each leaf of `f`'s value becomes a tree like the argument
        in `argnums`, of arrays of shape `(*leaf.shape, *argument.shape)`.
    """

    @wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen = of_argnums(f, argnums, args, kwargs, "jacfwd")

        def column(basis: Any) -> Any:
            return jvp(of_chosen, (chosen,), (basis,))[1]

        columns = vmap(column, out_axes=-1)(_basis(chosen))
        return tree_map(partial(_split, chosen, -1), columns)

    return jacobian


def jacrev(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Returns the function that gives the Jacobian by reverse mode: for few outputs."""

    @wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        value, pullback = vjp(*of_argnums(f, argnums, args, kwargs, "jacrev"))
        tree_map(partial(check_output, "jacrev"), value)
        (rows,) = vmap(pullback)(_basis(value))
        leaves, in_tree = tree_flatten(rows)
        by_input = map(partial(_split, value, 0), leaves)
        return tree_map(lambda *column: in_tree.unflatten(column), *by_input)

    return jacobian


jacobian = jacrev


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Returns the function that gives the second derivatives: forward mode over reverse mode."""
    return jacfwd(jacrev(f, argnums), argnums)


def _basis(tree: Any) -> Any:
    """Returns every basis vector of a tree of arrays, along a new first axis."""
    leaves, treedef = tree_flatten(tree)
    avals = list(map(aval_of, leaves))
    ends = np.cumsum([aval.size for aval in avals])
    columns = np.split(np.eye(ends[-1]), ends[:-1], axis=1)
    pairs = zip(columns, avals, strict=True)
    return treedef.unflatten(c.astype(aval.dtype).reshape(len(c), *aval.shape) for c, aval in pairs)


def _split(tree: Any, axis: int, array: Any) -> Any:
    """Cuts the axis of basis vectors into one part per leaf of the tree that they are of."""
    leaves, treedef = tree_flatten(tree)
    avals, shape = list(map(aval_of, leaves)), aval_of(array).shape
    axis, sizes = range(len(shape))[axis], [aval.size for aval in avals]
    parts = library("lax", "split")(array, sizes, axis) if len(sizes) > 1 else [array]
    before, after = shape[:axis], shape[axis + 1 :]
    pairs = zip(parts, avals, strict=True)
    return treedef.unflatten(reshape(part, (*before, *a.shape, *after)) for part, a in pairs)
