"""Transformations of jaxprs: what the rules of calls, branches and loops are made of.

The kernel transforms functions. A primitive that holds a jaxpr needs the transformed jaxpr, to hold
that instead: `jvp_jaxpr` traces the jvp of the jaxpr as a function, and so on. Each also says by
flags for which results it has something:

    { lambda ; a b. let c = sin a in (c, b) }      jvp_jaxpr, only a has a tangent:
    { lambda ; a b da. let c = sin a; d = cos a; dc = mul da d in (c, b, dc) }, flags [True, False]

What they return is remembered with the jaxpr (`memoized`): a loop that is differentiated twice has
one derivative, which is compiled once.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from jaxlens.core.kernel.basics import Dim, Linear, instantiate
from jaxlens.core.kernel.interpreter import Tracer, interpreting
from jaxlens.core.kernel.jaxpr import (
    Atom,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    as_function,
    hoisted,
)
from jaxlens.core.kernel.jvp import jvp_flat
from jaxlens.core.kernel.trace import Flat, trace
from jaxlens.core.kernel.types import tangent_aval, x64
from jaxlens.core.kernel.vjp import Partial, backward_pass
from jaxlens.core.kernel.vmap import mapped_axis
from jaxlens.core.transforms.batching import named_axes, vmap_flat
from jaxlens.core.transforms.flags import forced, in_front, merge, nonzero, split, with_zeros
from jaxlens.core.transforms.signatures import types_of
from jaxlens.core.transforms.trees import TreeDef, flat, tree_flatten


def used(eqns: Sequence[JaxprEqn], results: Iterable[Atom]) -> tuple[list[JaxprEqn], set[Var]]:
    """Returns the equations and variables that results depend on: dead code elimination."""
    needed = {atom for atom in results if type(atom) is Var}
    live = []
    for eqn in reversed(eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(atom for atom in eqn.invars if type(atom) is Var)
            live.append(eqn)
    return live[::-1], needed


def without_unused(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns a jaxpr without the equations that no result needs."""
    inner = closed.jaxpr
    eqns, _ = used(inner.eqns, inner.outvars)
    return ClosedJaxpr(Jaxpr(inner.constvars, inner.invars, inner.outvars, eqns), closed.consts)


def memoized(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of a jaxpr, of a tuple of jaxprs, or of a function, with a cache.

    An entry lives as long as its first jaxpr. A result that holds tracers is not kept: the next
    trace has others.
    """
    cache: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()

    @wraps(transform)
    def memoizing(jaxprs: Any, *args: Any) -> Any:
        first, *rest = jaxprs if isinstance(jaxprs, tuple) else (jaxprs,)
        try:
            entries = cache.setdefault(first, {})
        except TypeError:  # a callable that cannot be hashed, or not weakly referenced
            entries = {}
        key = (*rest, *args, mapped_axis(), x64())
        if key in entries:
            return entries[key]
        result = transform(jaxprs, *args)
        parts = result if isinstance(result, tuple) else ()
        consts = (item for part in parts if isinstance(part, list) for item in part)
        if not any(isinstance(item, Tracer) for item in consts):
            entries[key] = result
        return result

    return memoizing


# ---- jaxprs of functions ------------------------------------------------------------------------


class TracedFunction(NamedTuple):
    """A traced function of trees, as calls and loops hold it.

    Attributes:
        jaxpr: Its jaxpr, whose first parameters are the constants.
        consts: The values of the constants.
        out_tree: The tree of the results.
    """

    jaxpr: ClosedJaxpr
    consts: list[Any]
    out_tree: TreeDef


def traced(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> TracedFunction:
    """Traces a function of trees; once per function and types, so that it is compiled once."""
    leaves, in_tree = tree_flatten((tuple(args), kwargs))
    avals = tuple(types_of(f, in_tree, leaves))
    body: TracedFunction = _traced(f, in_tree, avals, tuple(named_axes().items()))
    return body


@memoized
def _traced(f: Flat, in_tree: TreeDef, avals: Sequence[Any], _: Any) -> TracedFunction:
    flat_f, out_trees = flat(f, in_tree)
    return TracedFunction(*hoisted(trace(flat_f, avals)), out_trees[0])


def make_jaxpr(f: Callable[..., Any]) -> Callable[..., ClosedJaxpr]:
    """Returns the function that gives the jaxpr of `f` at the types of its arguments."""

    def jaxpr_of(*args: Any, **kwargs: Any) -> ClosedJaxpr:
        leaves, in_tree = tree_flatten((args, kwargs))
        return trace(flat(f, in_tree)[0], types_of(f, in_tree, leaves))

    return jaxpr_of


# ---- jaxprs of jaxprs ---------------------------------------------------------------------------


def jvp_jaxpr(
    closed: ClosedJaxpr, moves: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """Returns the jvp of a jaxpr.

    Args:
        closed: The jaxpr.
        moves: Which parameters have a tangent.
        force: Which results must have one, even if it is zeros.

    Returns:
        A jaxpr of the parameters and the tangents of those that have one; its results are the
        results and the tangents of those that have one. And flags for the latter.
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


def batch_jaxpr(
    closed: ClosedJaxpr, size: int, batched: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """Returns a jaxpr for all examples.

    Args:
        closed: The jaxpr for one example.
        size: The number of examples.
        batched: Which parameters hold all examples, along their first axis.
        force: Which results must be batched even if all examples share them.

    Returns:
        The jaxpr, and which results hold all examples, along their first axis.
    """
    dims: list[Dim] = [0 if has else None for has in batched]
    pairs = zip(closed.in_avals, batched, strict=True)
    avals = [aval.update(shape=(size, *aval.shape)) if has else aval for aval, has in pairs]
    name = mapped_axis()
    flags: list[bool] = []

    def whole(*args: Any) -> list[Any]:
        results, dims_out = vmap_flat(as_function(closed), size, args, dims, name)
        flags[:] = forced([dim is not None for dim in dims_out], force)
        return in_front(size, results, dims_out, flags)

    return trace(whole, avals), flags


def partial_jaxpr(
    closed: ClosedJaxpr, unknown: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool]]:
    """Splits a jaxpr in two: what can be computed now, and what depends on unknown parameters.

    Args:
        closed: The jaxpr.
        unknown: Which parameters are unknown.
        force: Which results must be computed later even if they are known.

    Returns:
        A jaxpr of the known parameters, with the known results and then the residuals. A jaxpr of
        the residuals and then the unknown parameters, with the other results. And flags for these.
        Neither computes what no result needs.
    """
    later: list[Any] = []
    flags: list[bool] = []

    def now(*values: Any) -> list[Any]:
        partial = Partial()
        params = list(map(partial.parameter, split(unknown, closed.in_avals)[1]))
        with interpreting(partial):
            results = as_function(closed)(*merge(unknown, values, params))
        flags[:] = forced(list(map(partial.unknown, results)), force)
        done, waiting = split(flags, results)
        rest = partial.closed([tracer.variable for tracer in params], waiting)
        eqns, needed = used(rest.eqns, rest.jaxpr.outvars)
        has = [var in needed for var in rest.jaxpr.constvars]
        invars = [*split(has, rest.jaxpr.constvars)[1], *rest.jaxpr.invars]
        later[:] = [ClosedJaxpr(Jaxpr([], invars, rest.jaxpr.outvars, eqns), [])]
        return [*done, *split(has, rest.consts)[1]]

    first = without_unused(trace(now, split(unknown, closed.in_avals)[0]))
    return first, later[0], flags


def transpose_jaxpr(
    closed: ClosedJaxpr,
    linear: Sequence[bool],
    moves: Sequence[bool],
    force: Sequence[bool] | None = None,
) -> tuple[ClosedJaxpr, list[bool]]:
    """Returns the transpose of a jaxpr.

    Args:
        closed: The jaxpr.
        linear: Which parameters it is linear in.
        moves: Which results have a cotangent.
        force: Which linear parameters must get one, even if it is zeros.

    Returns:
        A jaxpr of the other parameters and then the cotangents of the results; its results are
        the cotangents of those linear parameters that have one. And flags for these.
    """
    flags: list[bool] = []
    fixed, moving = split(linear, closed.in_avals)
    cts_in = split(moves, closed.out_avals)[1]

    def back(*values: Any) -> list[Any]:
        args = merge(linear, values[: len(fixed)], map(Linear, moving))
        cts = with_zeros(closed.out_avals, moves, values[len(fixed) :])
        cts_out = backward_pass(closed.jaxpr, closed.consts, args, cts, inside=True)
        flags[:] = forced(nonzero(cts_out), force)
        return list(map(instantiate, split(flags, cts_out)[1]))

    return trace(back, [*fixed, *cts_in]), flags
