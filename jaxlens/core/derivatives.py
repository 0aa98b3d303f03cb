"""Gradients, Jacobians and Hessians: what users call, made of `jvp`, linearise and transpose.

A gradient is the transposed derivative applied to 1. A Jacobian is the derivative applied to every
basis vector at once, by `vmap`: a column each in forward mode, a row each in reverse mode. A
Hessian is a Jacobian of a gradient; which mode goes over which only decides what it costs.

After "The Autodiff Cookbook" (docs.jax.dev).
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from jaxlens.core.avals import ShapedArray, float0, is_inexact, tangent_aval
from jaxlens.core.batching import vmap
from jaxlens.core.forward import instantiate, jvp
from jaxlens.core.jaxprs import ClosedJaxpr
from jaxlens.core.primitives.shapes import reshape
from jaxlens.core.reverse import backward_pass, linearize_flat
from jaxlens.core.staging import as_function, aval_of, flat
from jaxlens.core.tracers import Linear, Zero, current
from jaxlens.core.trees import TreeDef, flatten_like, tree_flatten, tree_map


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `f`, and its derivative there as a function of tangents.

    The work that does not depend on the tangents is done once.
    """
    results, out_tree, closed, in_tree = _linearized(f, primals)

    def pushforward(*tangents: Any) -> Any:
        flat_tangents = flatten_like(in_tree, (tuple(tangents), {}), "the tangents of linearize")
        return out_tree.unflatten(as_function(closed)(*flat_tangents))

    return out_tree.unflatten(results), pushforward


def _linearized(
    f: Callable[..., Any], primals: Sequence[Any]
) -> tuple[list[Any], TreeDef, ClosedJaxpr, TreeDef]:
    leaves, in_tree = tree_flatten((tuple(primals), {}))
    flat_f, out_trees = flat(f, in_tree)
    results, closed = linearize_flat(flat_f, leaves)
    return results, out_trees[0], closed, in_tree


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `f`, and the function that takes a cotangent of it back to the arguments.

    Args:
        f: A function of pytrees of arrays.
        *primals: Its arguments.
        has_aux: Whether it returns `(value, aux)` and aux is not differentiated.

    Returns:
        `f(*primals)` and a function of one cotangent, a tree like the value, that gives a tuple
        of cotangents, one per argument; with `has_aux`, then `aux`.
    """
    kept: list[Any] = []
    wanted = _keep_aux(f, kept) if has_aux else f
    results, out_tree, closed, in_tree = _linearized(wanted, primals)

    def pullback(ct: Any) -> Any:
        cts = flatten_like(out_tree, ct, "the cotangent of vjp")
        expected = [aval_of(result) for result in results]
        cts = list(map(_fitting, expected, cts))
        args = [Linear(var.aval) for var in closed.jaxpr.invars]
        found = backward_pass(closed.jaxpr, closed.consts, args, cts)
        return in_tree.unflatten(map(instantiate, found))[0]

    value = out_tree.unflatten(results)
    return (value, pullback, kept[0]) if has_aux else (value, pullback)


def _fitting(expected: ShapedArray, ct: Any) -> Any:
    aval = aval_of(ct)
    if aval.dtype == float0 or not is_inexact(expected.dtype):
        return Zero(tangent_aval(expected))
    if (aval.shape, aval.dtype) != (expected.shape, expected.dtype):
        raise ValueError(
            f"vjp: the cotangent must be {expected.str_short()}, as the value is, "
            f"got {aval.str_short()}."
        )
    return ct


def _keep_aux(f: Callable[..., Any], kept: list[Any]) -> Callable[..., Any]:
    """`f` without its aux, of which the undifferentiated values are kept."""

    def value(*args: Any, **kwargs: Any) -> Any:
        found, aux = f(*args, **kwargs)
        kept[:] = [tree_map(_undifferentiated, aux)]
        return found

    return value


def _undifferentiated(x: Any) -> Any:
    """The value under the tracers of one jvp."""
    interpreter = current()
    split = getattr(interpreter, "split", None)
    return split(x)[0] if split else x


def grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of a scalar function; see `value_and_grad`."""
    both = value_and_grad(f, argnums, has_aux)

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives a scalar function's value and gradient.

    Args:
        f: A function of pytrees to a scalar.
        argnums: Which arguments to differentiate by.
        has_aux: Whether `f` returns `(value, aux)` and aux is not differentiated.

    Returns:
        A function of the same arguments. Its gradient is a tree like the argument, a tuple of
        them where `argnums` is a sequence; its value is `(value, aux)` with `has_aux`.

    Raises:
        TypeError: The value is no real scalar, or an argument has an integer dtype.
    """
    several = argnums if isinstance(argnums, Sequence) else (argnums,)

    @wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        places = [_place(n, len(args), f) for n in several]

        def of_chosen(*chosen: Any) -> Any:
            every = list(args)
            for place, arg in zip(places, chosen, strict=True):
                every[place] = arg
            return f(*every, **kwargs)

        chosen = [args[place] for place in places]
        for place, arg in zip(places, chosen, strict=True):
            _check_input(arg, place)
        value, pullback, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        found = pullback(_one(value))
        value = (value, aux[0]) if has_aux else value
        return value, found if isinstance(argnums, Sequence) else found[0]

    return both


def _place(argnum: int, count: int, f: Callable[..., Any]) -> int:
    if not -count <= argnum < count:
        name = getattr(f, "__name__", "the function")
        raise ValueError(
            f"grad: argnums names argument {argnum}, but {name} was called with {count} "
            f"positional ones."
        )
    return argnum % count


def _check_input(arg: Any, place: int) -> None:
    leaves, tree = tree_flatten(arg)
    for leaf, path in zip(leaves, tree.paths(), strict=True):
        if not is_inexact(aval_of(leaf).dtype):
            raise TypeError(
                f"grad requires real- or complex-valued inputs (input dtype that is a sub-dtype "
                f"of np.inexact), but argument {place}{''.join(path)} is "
                f"{aval_of(leaf).str_short()}: convert it with .astype(float)."
            )


def _one(value: Any) -> Any:
    """The cotangent 1 of a scalar."""
    aval = aval_of(value)
    if aval.shape:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}: "
            f"sum it, or use core.jacrev."
        )
    if not is_inexact(aval.dtype) or aval.dtype.kind == "c":
        raise TypeError(
            f"grad requires real-valued outputs, got {aval.str_short()}: take its real part or "
            f"convert it with .astype(float)."
        )
    return np.ones((), aval.dtype)[()]


def jacfwd(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The function that gives the Jacobian, a column a run: for few inputs and many outputs.

    Returns:
        A function of the same arguments. Each leaf of `f`'s value becomes a tree like the argument
        that `argnums` names, of arrays of shape `(*leaf.shape, *argument.shape)`.
    """

    @wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_one = _of_one(f, args, kwargs, argnums)

        def column(basis: Any) -> Any:
            return jvp(of_one, (args[argnums],), (basis,))[1]

        columns = vmap(column, out_axes=-1)(_basis(args[argnums]))
        return tree_map(partial(_split, args[argnums], last=True), columns)

    return jacobian


def jacrev(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The function that gives the Jacobian, a row a run: for many inputs and few outputs."""

    @wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        value, pullback = vjp(_of_one(f, args, kwargs, argnums), args[argnums])
        (rows,) = vmap(pullback)(_basis(value))
        in_leaves, in_tree = tree_flatten(rows)
        by_input = [_split(value, leaf, last=False) for leaf in in_leaves]
        value_tree = tree_flatten(value)[1]
        by_output = [tree_flatten(tree)[0] for tree in by_input]
        return value_tree.unflatten(
            in_tree.unflatten(column) for column in zip(*by_output, strict=True)
        )

    return jacobian


def hessian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives: forward mode over reverse mode."""
    return jacfwd(jacrev(f, argnums), argnums)


def _of_one(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnum: int
) -> Callable[[Any], Any]:
    """`f` of one argument, the others as given."""
    _check_input(args[argnum], argnum)
    return lambda arg: f(*args[:argnum], arg, *args[argnum + 1 :], **kwargs)


def _basis(tree: Any) -> Any:
    """Every basis vector of a tree of arrays, along a new first axis."""
    leaves, treedef = tree_flatten(tree)
    avals = list(map(aval_of, leaves))
    size = sum(aval.size for aval in avals)
    rows, start = [], 0
    for aval in avals:
        row = np.zeros((size, aval.size), aval.dtype)
        row[start : start + aval.size] = np.eye(aval.size)
        rows.append(row.reshape(size, *aval.shape))
        start += aval.size
    return treedef.unflatten(rows)


def _split(tree: Any, array: Any, last: bool) -> Any:
    """Cuts the axis of the basis into the leaves that it ran over."""
    leaves, treedef = tree_flatten(tree)
    rest = aval_of(array).shape[:-1] if last else aval_of(array).shape[1:]
    pieces, start = [], 0
    for aval in map(aval_of, leaves):
        part = slice(start, start + aval.size)
        piece = array[(..., part)] if last else array[part]
        pieces.append(reshape(piece, (*rest, *aval.shape) if last else (*aval.shape, *rest)))
        start += aval.size
    return treedef.unflatten(pieces)
