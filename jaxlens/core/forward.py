"""Forward mode: each value carries its tangent along.

`jvp(f, x, t)` gives f(x) and the directional derivative of f at x along t, in one run: every
primitive computes its result and, by its rule, the result's tangent from its arguments' tangents.
Tangents known to be zero stay symbolic (`Zero`), so that constants cost nothing. Each call of
`jvp` is an interpreter of its own; a value of another one is a constant to it, which is what
keeps nested derivatives apart ("perturbation confusion": d/dx (x * d/dy (x + y)) is 1, not 2).

After "Evaluating Derivatives" (Griewank and Walther, 2008), chapter 3, and Autodidax.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxlens.core import sources
from jaxlens.core.avals import ShapedArray, float0, tangent_aval
from jaxlens.core.jaxprs import ClosedJaxpr, merge, split
from jaxlens.core.primitives.shapes import dense
from jaxlens.core.signatures import types_of
from jaxlens.core.staging import as_function, flat, trace
from jaxlens.core.tracers import (
    Interpreter,
    Primitive,
    Tracer,
    Zero,
    aval_of,
    current,
    interpreting,
)
from jaxlens.core.trees import leaves_of, tree_flatten


class JVPTracer(Tracer):
    """A value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, interpreter: "JVP", primal: Any, tangent: Any) -> None:
        self.interpreter = interpreter
        self.aval = aval_of(primal)
        self.primal = primal
        self.tangent = tangent

    def made(self) -> str:
        return self.primal.made() if isinstance(self.primal, Tracer) else "the arguments"


class JVP(Interpreter):
    """Computes results and tangents by the jvp rules, in the interpreter below."""

    def __init__(self, parent: Interpreter) -> None:
        self.parent: Interpreter = parent

    def split(self, value: Any) -> tuple[Any, Any]:
        """A value and its tangent, which is zero for what is none of ours."""
        if type(value) is JVPTracer and value.interpreter is self:
            return value.primal, value.tangent
        return value, Zero(tangent_aval(aval_of(value)))

    def join(self, primal: Any, tangent: Any) -> Any:
        """A tracer of both; the value alone where the tangent is zero."""
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals, tangents = zip(*map(self.split, args), strict=True) if args else ((), ())
        with interpreting(self.parent):
            if all(type(tangent) is Zero for tangent in tangents):
                return primitive.bind(*primals, **params)
            if sources.listeners:
                sources.emit("rule", primitive.name, rule="jvp")
            results, tangents_out = primitive.jvp(primals, tangents, **params)
        if primitive.multiple_results:
            return [self.join(*pair) for pair in zip(results, tangents_out, strict=True)]
        return self.join(results, tangents_out)


def instantiate(tangent: Any) -> Any:
    """A tangent as an array, zeros where it was symbolic; that of an integer has no numbers."""
    if type(tangent) is Zero and tangent.aval.dtype == float0:
        return np.zeros(tangent.aval.shape, float0)
    return dense(tangent)


def nonzero(tangents: Sequence[Any]) -> tuple[bool, ...]:
    """Which tangents or cotangents are not known to be zero."""
    return tuple(type(tangent) is not Zero for tangent in tangents)


def with_zeros(avals: Sequence[ShapedArray], flags: Sequence[bool], given: Sequence[Any]) -> Any:
    """A tangent for each type: given where flagged, else known to be zero."""
    return merge(flags, [Zero(tangent_aval(a)) for a in split(flags, avals)[0]], given)


def forced(flags: Sequence[bool], force: Sequence[bool] | None) -> list[bool]:
    """Flags, some of which must be on even where they need not."""
    return [flag or must for flag, must in zip(flags, force or [False] * len(flags), strict=True)]


def jvp_flat(
    f: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """`jvp` of a function of flat lists; tangents may be `Zero`, in and out."""
    interpreter = JVP(current())
    with interpreting(interpreter):
        results = f(*map(interpreter.join, primals, tangents))
    pairs = [interpreter.split(result) for result in results]
    interpreter.done = True
    return [primal for primal, _ in pairs], [tangent for _, tangent in pairs]


def jvp_jaxpr(
    closed: ClosedJaxpr, moves: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr of a jaxpr's jvp, which the rules of calls and loops are made of.

    Args:
        closed: The jaxpr.
        moves: Which parameters have a tangent.
        force: Which results must have one, be it zeros.

    Returns:
        A jaxpr of the parameters, then the tangents of those that have one; of the results, then
        the tangents of those that have one. And which results these are.
    """
    avals = closed.in_avals
    moving = [tangent_aval(aval) for aval in split(moves, avals)[1]]
    flags: list[bool] = []

    def both(*args: Any) -> list[Any]:
        tangents = with_zeros(avals, moves, args[len(avals) :])
        results, out = jvp_flat(as_function(closed), args[: len(avals)], tangents)
        flags[:] = forced(nonzero(out), force)
        return [*results, *map(instantiate, split(flags, out)[1])]

    return trace(both, [*avals, *moving]), flags


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of `f` and its derivative along a direction.

    Args:
        f: A function of pytrees of arrays.
        primals: Its arguments.
        tangents: The direction: for each argument a tree like it, of the same shapes and dtypes
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
    names = ["jvp: the tangent of `primals" + "".join(path[1:]) + "`" for path in in_tree.paths()]
    expected = list(map(tangent_aval, types_of(f, in_tree, leaves)))
    moving = list(map(fitting, expected, directions, names, [TypeError] * len(names)))
    flat_f, out_trees = flat(f, in_tree)
    with sources.named_scope("jvp()"):
        results, out = jvp_flat(flat_f, leaves, moving)
    return out_trees[0].unflatten(results), out_trees[0].unflatten(map(instantiate, out))


def fitting(expected: ShapedArray, given: Any, what: str, error: type = ValueError) -> Any:
    """A tangent or cotangent, which must be of this type; for an integer it is zero.

    Raises:
        ValueError: It has another shape; `error` if it has another dtype.
    """
    if expected.dtype == float0:
        return Zero(expected)
    got = aval_of(given)
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        kind = error if expected.shape == got.shape else ValueError
        raise kind(f"{what} must be {expected.str_short()}, got {got.str_short()}.")
    return given
