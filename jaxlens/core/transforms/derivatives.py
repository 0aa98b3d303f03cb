"""Derivatives as users call them: `jvp`, `linearize`, `vjp`, `grad`, with checked arguments.

A gradient is the transposed derivative applied to 1:

    grad(f)(x)  =  vjp(f, x)[1](1.0)[0]

After "The Autodiff Cookbook" (docs.jax.dev). `jacobians.py` applies the derivative to every basis
vector.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from operator import index
from typing import Any

from jaxlens.core.kernel.basics import Linear, Zero, instantiate, number
from jaxlens.core.kernel.interpreter import aval_of, current
from jaxlens.core.kernel.jaxpr import as_function
from jaxlens.core.kernel.jvp import JVP, jvp_flat
from jaxlens.core.kernel.sources import named_scope
from jaxlens.core.kernel.types import ShapedArray, float0, is_inexact, tangent_aval
from jaxlens.core.kernel.vjp import backward_pass, linearize_flat
from jaxlens.core.transforms.signatures import arguments, name_of, type_of, types_of
from jaxlens.core.transforms.trees import (
    flat,
    leaves_of,
    paths,
    tree_flatten,
    tree_map,
    tree_structure,
)
from jaxlens.core.transforms.values import as_value

Argnums = int | Sequence[int]


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Returns the value of `f` and its derivative in a direction.

    Args:
        f: A function of pytrees of arrays.
        primals: Its arguments.
        tangents: The direction: per argument a tree like it, of the same shapes and dtypes
            (`float0` for integers).

    Returns:
        `f(*primals)` and its tangent, a tree like it.

    Raises:
        ValueError: A tangent has another shape than its argument.
        TypeError: It has another dtype.
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError("jvp: primals and tangents must be tuples, with an entry per argument.")
    leaves, in_tree = tree_flatten((tuple(primals), {}))
    directions = leaves_of(in_tree, (tuple(tangents), {}), "the tangents of jvp", TypeError)
    names = ["jvp: the tangent of `primals" + "".join(path[1:]) + "`" for path in paths(in_tree)]
    expected = list(map(tangent_aval, types_of(f, in_tree, leaves)))
    checked = list(map(check_tangent, expected, directions, names, [TypeError] * len(names)))
    flat_f, out_trees = flat(f, in_tree)
    with named_scope("jvp()"):
        results, out = jvp_flat(flat_f, leaves, checked)
    value, tangent = map(as_value, results), map(as_value, map(instantiate, out))
    return out_trees[0].unflatten(value), out_trees[0].unflatten(tangent)


def check_tangent(expected: ShapedArray, tangent: Any, label: str, error: type = ValueError) -> Any:
    """Returns a tangent or cotangent, which must be of this type; `Zero` for an integer.

    Raises:
        ValueError: It has another shape; `error` if it has another dtype.
    """
    if expected.dtype == float0:
        return Zero(expected)
    aval = aval_of(tangent)
    if expected.strong != aval.strong:
        kind = error if expected.shape == aval.shape else ValueError
        raise kind(f"{label} must be {expected.str_short()}, got {aval.str_short()}.")
    return tangent


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the value of `f`, and its derivative there as a function of tangents.

    The work that does not depend on the tangents is done once.
    """
    leaves, in_tree = tree_flatten((primals, {}))
    types_of(f, in_tree, leaves)
    flat_f, out_trees = flat(f, in_tree)
    results, closed = linearize_flat(flat_f, leaves)

    def pushforward(*tangents: Any) -> Any:
        leaves = leaves_of(in_tree, (tangents, {}), "the tangents of linearize", TypeError)
        for aval, tangent in zip(closed.in_avals, leaves, strict=True):
            check_tangent(aval, tangent, "linearize: a tangent")
        return out_trees[0].unflatten(map(as_value, as_function(closed)(*leaves)))

    return out_trees[0].unflatten(map(as_value, results)), pushforward


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Returns the value of `f`, and the function that maps its cotangent to the arguments'.

    Args:
        f: A function of pytrees of arrays.
        *primals: Its arguments.
        has_aux: Whether `f` returns `(value, aux)` and aux is not differentiated.

    Returns:
        `f(*primals)` and a function of one cotangent, a tree like the value, that gives a tuple
        of cotangents, one per argument; with `has_aux`, then `aux`.
    """
    aux: list[Any] = []

    def value_of(*args: Any) -> Any:
        value = f(*args)
        if has_aux:
            if not isinstance(value, tuple | list) or len(value) != 2:
                raise TypeError(f"has_aux: expected a pair (value, aux), got {value!r:.60}.")
            value, own = value
            aux[:] = [tree_map(_primal, own)]
        return value

    leaves, in_tree = tree_flatten((primals, {}))
    types_of(value_of, in_tree, leaves)
    flat_f, out_trees = flat(value_of, in_tree)
    results, closed = linearize_flat(flat_f, leaves)
    (out_tree,) = out_trees

    def pullback(ct: Any) -> Any:
        cts = leaves_of(out_tree, ct, "the cotangent of vjp")
        checked = list(map(check_tangent, closed.out_avals, cts, ["vjp: the cotangent"] * len(cts)))
        args = list(map(Linear, closed.in_avals))
        cts_in = backward_pass(closed.jaxpr, closed.consts, args, checked)
        return in_tree.unflatten(map(as_value, map(instantiate, cts_in)))[0]

    return (out_tree.unflatten(map(as_value, results)), pullback, *aux)


def _primal(x: Any) -> Any:
    """Returns a value without its tangent."""
    interpreter = current()
    return interpreter.split(x)[0] if isinstance(interpreter, JVP) else x


def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Returns the function that gives the gradient of a scalar function; see `value_and_grad`."""
    both = value_and_grad(f, argnums, has_aux)

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, ct = both(*args, **kwargs)
        return (ct, value[1]) if has_aux else ct

    return gradient


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns the function that gives the value and gradient of a scalar function.

    Args:
        f: A function of pytrees to a scalar.
        argnums: Which arguments to differentiate with respect to.
        has_aux: Whether `f` returns `(value, aux)` and aux is not differentiated.

    Returns:
        A function of the same arguments. The gradient is a tree like the argument, a tuple of
        trees if `argnums` is a sequence; the value is `(value, aux)` with `has_aux`.

    Raises:
        TypeError: The value is not a real scalar, or an argument has an integer dtype.
    """

    @wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen = of_argnums(f, argnums, args, kwargs, "grad")
        value, pullback, *aux = vjp(of_chosen, chosen, has_aux=has_aux)
        (ct,) = pullback(_unit_cotangent(value))
        return (value, *aux) if has_aux else value, ct

    return both


def of_argnums(
    f: Callable[..., Any],
    argnums: Argnums,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    caller: str,
) -> tuple[Callable[[Any], Any], Any]:
    """Returns `f` as a function of the arguments in `argnums`, the others fixed; and these.

    Both are a tuple of arguments if `argnums` is a sequence, else the only argument.

    Raises:
        TypeError: `caller` cannot differentiate with respect to one of their dtypes.
    """
    numbers = argnums if isinstance(argnums, Sequence) else (argnums,)
    positions = [_position(n, len(args), f) for n in numbers]

    def of_chosen(chosen: Any) -> Any:
        values = dict(zip(positions, chosen if numbers is argnums else (chosen,), strict=True))
        return f(*(values.get(n, arg) for n, arg in enumerate(args)), **kwargs)

    leaves, in_tree = tree_flatten((args, kwargs))
    for leaf, (position, name) in zip(leaves, arguments(f, in_tree), strict=True):
        if position in positions:
            _check_input(caller, type_of(f, leaf, name), name)
    chosen = tuple(args[n] for n in positions)
    return of_chosen, chosen if numbers is argnums else chosen[0]


def _check_input(caller: str, aval: ShapedArray, name: str) -> None:
    """Raises unless an argument has a dtype that `caller` can differentiate with respect to."""
    got = f"but argument {name} is {aval.str_short()}"
    if not is_inexact(aval.dtype):
        raise TypeError(
            f"{caller} requires real- or complex-valued inputs (input dtype that is a sub-dtype "
            f"of np.inexact), {got}: convert it with .astype(float)."
        )
    if caller == "jacfwd" and aval.dtype.kind == "c":
        raise TypeError(f"{caller} requires real-valued inputs, {got}: use jvp and vjp.")


def _position(argnum: int, count: int, f: Callable[..., Any]) -> int:
    if not -count <= index(argnum) < count:
        raise TypeError(
            f"grad: argnums names argument {argnum}, but {name_of(f)} was called with {count} "
            f"positional ones."
        )
    return argnum % count


def _unit_cotangent(value: Any) -> Any:
    """Returns the cotangent 1 of a value, which must be a real scalar."""
    if tree_structure(value).kind is not None:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output was a "
            f"{type(value).__name__}: "
            f"return a scalar, or (scalar, rest) with has_aux=True."
        )
    aval = aval_of(value)
    if aval.shape:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}: "
            f"sum it, or use core.jacrev."
        )
    check_output("grad", value)
    return number(1, aval.dtype, aval.weak_type)


def check_output(caller: str, value: Any) -> None:
    """Raises unless a value is real and has derivatives."""
    aval = aval_of(value)
    if not is_inexact(aval.dtype) or aval.dtype.kind == "c":
        raise TypeError(
            f"{caller} requires real-valued outputs, got {aval.str_short()}: take its real part, "
            f"convert it with .astype(float), or use jvp and vjp."
        )
