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
from jaxlens.core.avals import float0, tangent_aval
from jaxlens.core.jaxprs import ClosedJaxpr
from jaxlens.core.primitives.shapes import full
from jaxlens.core.staging import as_function, aval_of, trace
from jaxlens.core.tracers import Interpreter, Primitive, Tracer, Zero, current, interpreting
from jaxlens.core.trees import flatten_like, tree_flatten


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
    """A tangent as an array, zeros where it was symbolic."""
    if type(tangent) is not Zero:
        return tangent
    if tangent.aval.dtype == float0:
        return np.zeros(tangent.aval.shape, float0)
    return full(tangent.aval.shape, 0, tangent.aval.dtype)


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
    closed: ClosedJaxpr, nonzero: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr of a jaxpr's jvp, which the rules of calls and loops are made of.

    Args:
        closed: The jaxpr.
        nonzero: Which parameters have a tangent.
        force: Which results must have one, be it zeros.

    Returns:
        A jaxpr of the parameters, then the tangents of those that have one; of the results, then
        the tangents of those that have one. And which results these are.
    """
    avals = closed.in_avals
    moving = [tangent_aval(aval) for aval, has in zip(avals, nonzero, strict=True) if has]
    flags: list[bool] = []

    def both(*args: Any) -> list[Any]:
        given = iter(args[len(avals) :])
        tangents = [
            next(given) if has else Zero(tangent_aval(aval))
            for aval, has in zip(avals, nonzero, strict=True)
        ]
        results, out = jvp_flat(as_function(closed), args[: len(avals)], tangents)
        forced = force or [False] * len(out)
        flags[:] = [type(t) is not Zero or must for t, must in zip(out, forced, strict=True)]
        return [*results, *(instantiate(t) for t, has in zip(out, flags, strict=True) if has)]

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
        TypeError: A tangent does not fit its argument.
    """
    flat, in_tree = tree_flatten(tuple(primals))
    directions = flatten_like(in_tree, tuple(tangents), "the tangents of jvp")
    paths = in_tree.paths()
    checked = map(_fitting, flat, directions, ["primals" + "".join(p) for p in paths])
    out_tree = None

    def flat_f(*leaves: Any) -> list[Any]:
        nonlocal out_tree
        results, out_tree = tree_flatten(f(*in_tree.unflatten(leaves)))
        return results

    with sources.named_scope("jvp()"):
        results, out = jvp_flat(flat_f, flat, list(checked))
    assert out_tree is not None
    return out_tree.unflatten(results), out_tree.unflatten(map(instantiate, out))


def _fitting(primal: Any, tangent: Any, name: str) -> Any:
    expected, got = tangent_aval(aval_of(primal)), aval_of(tangent)
    if expected.dtype == float0:
        return Zero(expected)
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        raise TypeError(
            f"jvp: the tangent of `{name}` must be {expected.str_short()}, as the argument is, "
            f"got {got.str_short()}."
        )
    return tangent


def zero_like(value: Any) -> Any:
    """Zeros for the tangent of a value."""
    return instantiate(Zero(tangent_aval(aval_of(value))))
