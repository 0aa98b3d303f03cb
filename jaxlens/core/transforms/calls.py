"""Primitives that hold jaxprs: what calls, branches and loops have in common.

The rules of `jit`, `checkpoint` or `cond` are made of the rules for what is inside: the jvp of a
call is a call of the jvp.

    jit[{ a. let b = sin a in (b,) }] x         jvp:
    jit[{ a da. let b = sin a; c = cos a; db = mul da c in (b, db) }] x dx

Branches must agree on their types. Where one has a tangent and the other has none, both are
transformed again, with a tangent forced on each. What a transformed jaxpr takes from outside
becomes its first operands.

After "Structured control flow primitives" (docs.jax.dev, control-flow.html) and Autodidax.
"""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

from jaxlens.core.kernel.basics import Linear, Zero, instantiate
from jaxlens.core.kernel.interpreter import Primitive, aval_of, interpreting
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, Var, as_function, hoisted
from jaxlens.core.kernel.trace import Staging, trace
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.kernel.vjp import Partial
from jaxlens.core.transforms import jaxprs
from jaxlens.core.transforms.flags import Flags, cut, in_front, merge, nonzero, split, with_tangents
from jaxlens.core.transforms.jaxprs import memoized

Jaxprs = ClosedJaxpr | tuple[ClosedJaxpr, ...]  # of a call, or of branches


# ---- jaxprs made of jaxprs ----------------------------------------------------------------------


def reordered(
    closed: ClosedJaxpr, invars: Sequence[Var], outvars: Sequence[Any] | None = None
) -> ClosedJaxpr:
    """Returns a jaxpr with its parameters in another order, or more of them, or other results."""
    results = closed.jaxpr.outvars if outvars is None else outvars
    return ClosedJaxpr(Jaxpr([], invars, results, closed.eqns), [])


def pruned(closed: ClosedJaxpr, invars: Sequence[Var], outvars: Sequence[Any]) -> ClosedJaxpr:
    """Returns a jaxpr with these parameters and results, and only the equations that they need."""
    return jaxprs.without_unused(reordered(closed, invars, outvars))


@memoized
def first_results(closed: ClosedJaxpr, count: int) -> ClosedJaxpr:
    """Returns a jaxpr with its first results only."""
    return pruned(closed, closed.jaxpr.invars, closed.jaxpr.outvars[:count])


@memoized
def with_params(
    closed: ClosedJaxpr, positions: tuple[int, ...], types: tuple[ShapedArray, ...]
) -> ClosedJaxpr:
    """Widens the first parameters of a jaxpr to parameters of these types.

    Args:
        closed: The jaxpr.
        positions: Where each of its first parameters is among the new ones; the others are unused.
        types: The types of the new ones.
    """
    params = list(map(Var, types))
    for position, var in zip(positions, closed.jaxpr.invars, strict=False):
        params[position] = var
    return reordered(closed, [*params, *closed.jaxpr.invars[len(positions) :]])


def with_common_consts(
    branches: Sequence[tuple[ClosedJaxpr, list[Any]]],
) -> tuple[list[Any], list[Any]]:
    """Gives jaxprs with constants equal parameters: in front the constants of all of them."""
    consts = {id(const): const for _, own in branches for const in own}
    if not consts:
        return [closed for closed, _ in branches], []
    order, types = list(consts), tuple(map(aval_of, consts.values()))
    widened = [
        with_params(closed, tuple(order.index(id(const)) for const in own), types)
        for closed, own in branches
    ]
    return widened, list(consts.values())


def _agreed(
    branches: Sequence[ClosedJaxpr], transform: Callable[..., Any], *args: Any
) -> tuple[list[Any], list[bool]]:
    """Transforms all branches; what is flagged in one of them is forced in all."""
    results = [transform(closed, *args, None) for closed in branches]
    flags = [any(column) for column in zip(*(result[-1] for result in results), strict=True)]
    if any(result[-1] != flags for result in results):
        results = [transform(closed, *args, flags) for closed in branches]
    return results, flags


@memoized
def transformed(callee: Jaxprs, transform: Callable[..., Any], *args: Any) -> Any:
    """Returns a transformed jaxpr or branches, the constants that were added, and the flags."""
    if isinstance(callee, ClosedJaxpr):
        closed, *_, flags = transform(callee, *args)
        return *hoisted(closed), flags
    results, flags = _agreed(callee, transform, *args)
    branches, consts = with_common_consts([hoisted(result[0]) for result in results])
    return tuple(branches), consts, flags


@memoized
def _halves(callee: Jaxprs, unknown: Flags) -> Any:
    """Applies `partial_jaxpr` to a jaxpr or to branches.

    The residuals of branches share slots: the n-th residual of a type is the same result in all.

    Returns:
        What is known now, with the results and then the residuals; the constants that were added.
        What is left, of the residuals and the unknown parameters. And flags for its results.
    """
    if isinstance(callee, ClosedJaxpr):
        now_half, later, flags = jaxprs.partial_jaxpr(callee, unknown)
        return *hoisted(now_half), later, flags
    halves, flags = _agreed(callee, jaxprs.partial_jaxpr, unknown)
    # With residuals f32[3], f32[3] in one branch and f32[3], f32[] in another the slots are two of
    # type f32[3] and one of f32[]. Each branch fills its own and gives zeros for the rest.
    count = flags.count(False)
    kinds = [now_half.out_avals[count:] for now_half, *_ in halves]
    slots_of = [[(aval, types[:n].count(aval)) for n, aval in enumerate(types)] for types in kinds]
    slots = list(dict.fromkeys(chain(*slots_of)))

    def with_all_slots(now_half: ClosedJaxpr, own: Sequence[Any]) -> ClosedJaxpr:
        def padded(*args: Any) -> list[Any]:
            results, residuals = cut(as_function(now_half)(*args), count)
            filled = dict(zip(own, residuals, strict=True))
            rest = [filled[s] if s in filled else instantiate(Zero(s[0])) for s in slots]
            return [*results, *rest]

        return now_half if own == slots else trace(padded, now_half.in_avals)

    pairs = list(zip(halves, slots_of, strict=True))
    now, consts = with_common_consts([hoisted(with_all_slots(half[0], own)) for half, own in pairs])
    types = tuple(aval for aval, _ in slots)
    rest = (with_params(half[1], tuple(map(slots.index, own)), types) for half, own in pairs)
    return tuple(now), consts, tuple(rest), flags


# ---- calls --------------------------------------------------------------------------------------


def call_rules(
    primitive: Primitive,
    key: str = "jaxpr",
    before: int = 0,
    transposed: Callable[..., Any] = jaxprs.transpose_jaxpr,
) -> None:
    """Gives the rules of the transforms to a primitive that calls a jaxpr, or one of several.

    Args:
        primitive: The primitive.
        key: The parameter that holds the jaxpr, or a tuple of branches.
        before: How many operands select the branch; the others are the arguments of all branches.
        transposed: How a jaxpr is transposed.
    """

    def call(first: Sequence[Any], args: Sequence[Any], params: Any, callee: Jaxprs) -> Any:
        return primitive.bind(*first, *args, **params | {key: callee})

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        (first, args), moving = cut(primals, before), tangents[before:]
        has = nonzero(moving)
        both, consts, flags = transformed(params[key], jaxprs.jvp_jaxpr, has)
        results = call(first, [*consts, *args, *split(has, moving)[1]], params, both)
        return with_tangents(results, flags)

    def batch(size: int, args: Any, dims: Any, **params: Any) -> Any:
        batched = tuple(dim is not None for dim in dims[before:])
        whole, consts, flags = transformed(params[key], jaxprs.batch_jaxpr, size, batched)
        operands = [*consts, *in_front(size, args[before:], dims[before:])]
        results = call(args[:before], operands, params, whole)
        return results, [0 if has else None for has in flags]

    def partial(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
        first, args = cut(args, before)
        if any(map(interpreter.unknown, first)):
            whole: list[Any] = Staging.process(interpreter, primitive, [*first, *args], params)
            return whole
        unknown = tuple(map(interpreter.unknown, args))
        now, consts, later, flags = _halves(params[key], unknown)
        values, rest = split(unknown, args)
        with interpreting(interpreter.parent):
            branch = now if isinstance(now, ClosedJaxpr) else now[0]
            results = call(first, [*consts, *values], params, now) if branch.out_avals else []
        done, residuals = cut(results, flags.count(False))
        operands = [*first, *residuals, *rest]
        return record_rest(interpreter, primitive, flags, done, operands, params | {key: later})

    def transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
        first, operands = cut(args, before)
        linear, has = tuple(type(x) is Linear for x in operands), nonzero(cts)
        back, consts, flags = transformed(params[key], transposed, linear, has)
        fixed, moving = split(linear, operands)[0], split(has, cts)[1]
        results = call(first, [*consts, *fixed, *moving], params, back)
        cts_in = merge(linear, repeat(None), merge(flags, repeat(None), results))
        return [*[None] * before, *cts_in]

    primitive.jvp, primitive.batch = jvp, batch
    primitive.partial, primitive.transpose = partial, transpose


def record_rest(
    interpreter: Partial, call: Primitive, flags: Sequence[bool], done: Any, args: Any, params: Any
) -> list[Any]:
    """Returns the results of a call: some are done, a call for the flagged ones is recorded."""
    rest = Staging.process(interpreter, call, args, params) if any(flags) else []
    return merge(flags, done, rest)
