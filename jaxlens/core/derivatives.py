"""Gradients, Jacobians and Hessians: what users call, made of `jvp`, linearise and transpose.

A gradient is the transposed derivative applied to 1. A Jacobian is the derivative applied to every
basis vector at once, by `vmap`: a column each in forward mode, a row each in reverse mode. A
Hessian is a Jacobian of a gradient; which mode goes over which only decides what it costs.

After "The Autodiff Cookbook" (docs.jax.dev).
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from operator import index
from typing import Any

import numpy as np

from jaxlens.core.avals import is_inexact, tangent_aval
from jaxlens.core.batching import vmap
from jaxlens.core.forward import JVP, fitting, instantiate, jvp
from jaxlens.core.jaxprs import ClosedJaxpr
from jaxlens.core.primitives import pieces
from jaxlens.core.primitives.shapes import reshape
from jaxlens.core.reverse import backward_pass, linearize_flat
from jaxlens.core.signatures import arguments, name_of, type_of, types_of
from jaxlens.core.staging import as_function, flat
from jaxlens.core.tracers import Linear, aval_of, current
from jaxlens.core.trees import TreeDef, leaves_of, tree_flatten, tree_map, tree_structure

Argnums = int | Sequence[int]


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `f`, and its derivative there as a function of tangents.

    The work that does not depend on the tangents is done once.
    """
    results, out_tree, closed, in_tree = _linearized(f, primals)

    def pushforward(*tangents: Any) -> Any:
        given = leaves_of(in_tree, (tangents, {}), "the tangents of linearize", TypeError)
        for aval, tangent in zip(closed.in_avals, given, strict=True):
            fitting(aval, tangent, "linearize: a tangent")
        return out_tree.unflatten(as_function(closed)(*given))

    return out_tree.unflatten(results), pushforward


def _linearized(
    f: Callable[..., Any], primals: Sequence[Any]
) -> tuple[list[Any], TreeDef, ClosedJaxpr, TreeDef]:
    leaves, in_tree = tree_flatten((tuple(primals), {}))
    types_of(f, in_tree, leaves)
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
    aux: list[Any] = []

    def value_of(*args: Any) -> Any:
        found = f(*args)
        if has_aux:
            if not isinstance(found, tuple | list) or len(found) != 2:
                raise TypeError(f"has_aux: expected a pair (value, aux), got {found!r:.60}.")
            found, own = found
            aux[:] = [tree_map(_undifferentiated, own)]
        return found

    results, out_tree, closed, in_tree = _linearized(value_of, primals)

    def pullback(ct: Any) -> Any:
        cts = leaves_of(out_tree, ct, "the cotangent of vjp")
        expected = [tangent_aval(aval_of(result)) for result in results]
        cts = list(map(fitting, expected, cts, ["vjp: the cotangent"] * len(cts)))
        args = list(map(Linear, closed.in_avals))
        found = backward_pass(closed.jaxpr, closed.consts, args, cts)
        return in_tree.unflatten(map(instantiate, found))[0]

    return (out_tree.unflatten(results), pullback, *aux)


def _undifferentiated(x: Any) -> Any:
    """The value under the tracers of one jvp."""
    interpreter = current()
    return interpreter.split(x)[0] if isinstance(interpreter, JVP) else x


def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives the gradient of a scalar function; see `value_and_grad`."""
    both = value_and_grad(f, argnums, has_aux)

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
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

    @wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        value, pullback, *aux = vjp(*_of_one(f, argnums, args, kwargs), has_aux=has_aux)
        (found,) = pullback(_one(value))
        return (value, *aux) if has_aux else value, found

    return both


def _of_one(
    f: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callable[[Any], Any], Any]:
    """`f` of one argument, the others as given; of a tuple where `argnums` are several. And it."""
    named = argnums if isinstance(argnums, Sequence) else (argnums,)
    places = [_place(n, len(args), f) for n in named]

    def of_one(chosen: Any) -> Any:
        given = dict(zip(places, chosen if named is argnums else (chosen,), strict=True))
        return f(*(given.get(n, arg) for n, arg in enumerate(args)), **kwargs)

    leaves, in_tree = tree_flatten((args, kwargs))
    for leaf, (where, name) in zip(leaves, arguments(f, in_tree), strict=True):
        if where in places and not is_inexact(type_of(f, leaf, name).dtype):
            raise TypeError(
                f"grad requires real- or complex-valued inputs (input dtype that is a sub-dtype "
                f"of np.inexact), but argument {name} is {aval_of(leaf).str_short()}: convert it "
                f"with .astype(float)."
            )
    return of_one, tuple(args[n] for n in places) if named is argnums else args[places[0]]


def _place(argnum: int, count: int, f: Callable[..., Any]) -> int:
    if not -count <= index(argnum) < count:
        raise TypeError(
            f"grad: argnums names argument {argnum}, but {name_of(f)} was called with {count} "
            f"positional ones."
        )
    return argnum % count


def _one(value: Any) -> Any:
    """The cotangent 1 of a scalar."""
    if (kind := tree_structure(value).kind) is not None:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output was a {kind.__name__}: "
            f"return a scalar, or (scalar, rest) with has_aux=True."
        )
    aval = aval_of(value)
    if aval.shape:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}: "
            f"sum it, or use core.jacrev."
        )
    _check_real("grad", value)
    return np.ones((), aval.dtype)[()]


def _check_real(what: str, value: Any) -> None:
    aval = aval_of(value)
    if not is_inexact(aval.dtype) or aval.dtype.kind == "c":
        raise TypeError(
            f"{what} requires real-valued outputs, got {aval.str_short()}: take its real part or "
            f"convert it with .astype(float)."
        )


def jacfwd(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The function that gives the Jacobian, a column a run: for few inputs and many outputs.

    Returns:
        A function of the same arguments. Each leaf of `f`'s value becomes a tree like the argument
        that `argnums` names, of arrays of shape `(*leaf.shape, *argument.shape)`.
    """

    @wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_one, chosen = _of_one(f, argnums, args, kwargs)

        def column(basis: Any) -> Any:
            return jvp(of_one, (chosen,), (basis,))[1]

        columns = vmap(column, out_axes=-1)(_basis(chosen))
        return tree_map(partial(_split, chosen, -1), columns)

    return jacobian


def jacrev(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The function that gives the Jacobian, a row a run: for many inputs and few outputs."""

    @wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        value, pullback = vjp(*_of_one(f, argnums, args, kwargs))
        tree_map(partial(_check_real, "jacrev"), value)
        (rows,) = vmap(pullback)(_basis(value))
        leaves, in_tree = tree_flatten(rows)
        by_input = map(partial(_split, value, 0), leaves)
        return tree_map(lambda *column: in_tree.unflatten(column), *by_input)

    return jacobian


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives: forward mode over reverse mode."""
    return jacfwd(jacrev(f, argnums), argnums)


def _basis(tree: Any) -> Any:
    """Every basis vector of a tree of arrays, along a new first axis."""
    leaves, treedef = tree_flatten(tree)
    avals = list(map(aval_of, leaves))
    ends = np.cumsum([aval.size for aval in avals])
    columns = np.split(np.eye(ends[-1]), ends[:-1], axis=1)
    pairs = zip(columns, avals, strict=True)
    return treedef.unflatten(c.astype(aval.dtype).reshape(-1, *aval.shape) for c, aval in pairs)


def _split(tree: Any, axis: int, array: Any) -> Any:
    """Cuts the axis of the basis into the leaves that it ran over."""
    leaves, treedef = tree_flatten(tree)
    avals, shape = list(map(aval_of, leaves)), aval_of(array).shape
    place, sizes = range(len(shape))[axis], [aval.size for aval in avals]
    parts = pieces.split(array, sizes, place) if len(sizes) > 1 else [array]
    before, after = shape[:place], shape[place + 1 :]
    pairs = zip(parts, avals, strict=True)
    return treedef.unflatten(reshape(part, (*before, *a.shape, *after)) for part, a in pairs)
