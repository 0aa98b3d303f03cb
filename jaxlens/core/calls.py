"""Primitives that hold jaxprs: what calls, branches and loops have in common.

The rules of `jit`, `checkpoint` or `cond` are made of the rules for what is inside: the jvp of a
call is a call of the jvp. A transform of a jaxpr says by flags for which results it has something:
a tangent, all examples, something to wait for. Branches must agree on these: where they do not,
they are transformed once more, with what was found in one forced on all. What a transform takes
from outside becomes operands before the others, and what it made is remembered (`kept`), so that it
is compiled once.

After "Structured control flow primitives" (docs.jax.dev, control-flow.html) and Autodidax.
"""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

from jaxlens.core.avals import ShapedArray
from jaxlens.core.batching import Dim, batch_flat, batch_jaxpr, to_front
from jaxlens.core.forward import instantiate, jvp_jaxpr, nonzero, with_zeros
from jaxlens.core.jaxprs import ClosedJaxpr, Jaxpr, Var, hoisted, kept, merge, split, used
from jaxlens.core.primitives.shapes import fronts
from jaxlens.core.reverse import Partial, partial_jaxpr, transpose_jaxpr
from jaxlens.core.staging import Staging, as_function, trace
from jaxlens.core.tracers import Linear, Primitive, Zero, aval_of, interpreting, mapped_axis

Flags = tuple[bool, ...]
Jaxprs = ClosedJaxpr | tuple[ClosedJaxpr, ...]  # of a call, or of branches

# ---- lists and their flags ----------------------------------------------------------------------


def cut(items: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """A list in pieces of these lengths, and the rest."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(list(items[start : start + size]))
        start += size
    return [*pieces, list(items[start:])]


def in_front(
    size: int, args: Sequence[Any], dims: Sequence[Dim], flags: Sequence[bool] | None = None
) -> list[Any]:
    """The arguments, of which those flagged, or that differ, hold all examples in a first axis."""
    flags = [dim is not None for dim in dims] if flags is None else flags
    triples = zip(args, dims, flags, strict=True)
    return [to_front(size, x, dim) if has else x for x, dim, has in triples]


def all_examples(
    f: Callable[..., Sequence[Any]], size: int, flags: Sequence[bool], args: Sequence[Any]
) -> list[Any]:
    """A function of flat lists for all examples, along the first axis of each result.

    Args:
        f: It.
        size: How many examples there are.
        flags: Which arguments hold all of them, along their first axes.
        args: The arguments.
    """
    results, dims = batch_flat(f, size, args, [0 if has else None for has in flags], mapped_axis())
    return fronts(size, results, dims)


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether two types are equal but for their weakness."""
    return (a.shape, a.dtype) == (b.shape, b.dtype)


# ---- jaxprs made of jaxprs ----------------------------------------------------------------------


def reordered(
    closed: ClosedJaxpr, invars: Sequence[Var], outvars: Sequence[Any] | None = None
) -> ClosedJaxpr:
    """A jaxpr with its parameters in another order, or with more; and its results, if given."""
    results = closed.jaxpr.outvars if outvars is None else outvars
    return ClosedJaxpr(Jaxpr([], invars, results, closed.eqns), [])


def pruned(closed: ClosedJaxpr, invars: Sequence[Var], outvars: Sequence[Any]) -> ClosedJaxpr:
    """A jaxpr with these parameters and results, and with the equations that they need."""
    eqns = used(closed.eqns, {atom for atom in outvars if isinstance(atom, Var)})
    return ClosedJaxpr(Jaxpr([], invars, outvars, eqns), [])


@kept
def beginning(closed: ClosedJaxpr, count: int) -> ClosedJaxpr:
    """A jaxpr with its first results alone."""
    return pruned(closed, closed.jaxpr.invars, closed.jaxpr.outvars[:count])


@kept
def placed(
    closed: ClosedJaxpr, places: tuple[int, ...], types: tuple[ShapedArray, ...]
) -> ClosedJaxpr:
    """A jaxpr whose first parameters have these places among some, the others of which are idle."""
    params = list(map(Var, types))
    for place, var in zip(places, closed.jaxpr.invars, strict=False):
        params[place] = var
    return reordered(closed, [*params, *closed.jaxpr.invars[len(places) :]])


def together(found: Sequence[tuple[ClosedJaxpr, list[Any]]]) -> tuple[list[Any], list[Any]]:
    """Jaxprs with equal parameters: in front the constants of all, of which each uses its own."""
    every = {id(const): const for _, consts in found for const in consts}
    if not every:
        return [closed for closed, _ in found], list(every.values())
    order, types = list(every), tuple(map(aval_of, every.values()))
    jaxprs = [
        placed(closed, tuple(order.index(id(const)) for const in consts), types)
        for closed, consts in found
    ]
    return jaxprs, list(every.values())


def _agreed(
    branches: Sequence[ClosedJaxpr], transform: Callable[..., Any], *args: Any
) -> tuple[list[Any], list[bool]]:
    """All transformed; what a transform flags in one of them, it is forced to in all."""
    found = [transform(closed, *args, None) for closed in branches]
    flags = [any(column) for column in zip(*(each[-1] for each in found), strict=True)]
    if any(each[-1] != flags for each in found):
        found = [transform(closed, *args, flags) for closed in branches]
    return found, flags


@kept
def made(held: Jaxprs, transform: Callable[..., Any], *args: Any) -> Any:
    """A transform of a jaxpr or of branches: it, the constants that it added, what it flagged."""
    if isinstance(held, ClosedJaxpr):
        closed, *_, flags = transform(held, *args)
        return *hoisted(closed), flags
    found, flags = _agreed(held, transform, *args)
    jaxprs, consts = together([hoisted(each[0]) for each in found])
    return tuple(jaxprs), consts, flags


@kept
def _halves(held: Jaxprs, unknown: Flags) -> Any:
    """A jaxpr or branches split in two; the n-th residuals of a type of two branches are one.

    Returns:
        What can be computed now: the results, then the residuals; the constants that it added.
        What must wait, of the residuals and the unknown parameters. And which results these are.
    """
    if isinstance(held, ClosedJaxpr):
        known, later, flags = partial_jaxpr(held, unknown)
        return *hoisted(known), later, flags
    found, flags = _agreed(held, partial_jaxpr, unknown)
    count = flags.count(False)
    kinds = [known.out_avals[count:] for known, *_ in found]
    own = [[(aval, types[:n].count(aval)) for n, aval in enumerate(types)] for types in kinds]
    slots = list(dict.fromkeys(chain(*own)))

    def filled(known: ClosedJaxpr, mine: Sequence[Any]) -> ClosedJaxpr:
        def with_all(*args: Any) -> list[Any]:
            results, residuals = cut(as_function(known)(*args), count)
            given = dict(zip(mine, residuals, strict=True))
            rest = [given[s] if s in given else instantiate(Zero(s[0])) for s in slots]
            return [*results, *rest]

        return known if mine == slots else trace(with_all, known.in_avals)

    now, consts = together(
        [hoisted(filled(each[0], mine)) for each, mine in zip(found, own, strict=True)]
    )
    types = tuple(aval for aval, _ in slots)
    pairs = zip(found, own, strict=True)
    rest = (placed(each[1], tuple(map(slots.index, mine)), types) for each, mine in pairs)
    return tuple(now), consts, tuple(rest), flags


# ---- calls --------------------------------------------------------------------------------------


def call_rules(
    primitive: Primitive,
    key: str = "jaxpr",
    before: int = 0,
    transposed: Callable[..., Any] = transpose_jaxpr,
) -> None:
    """Gives a primitive that calls a jaxpr, or one of several, the rules of the transforms.

    Args:
        primitive: It.
        key: The parameter that holds the jaxpr, or a tuple of branches.
        before: How many operands say which branch; the others are the arguments of all.
        transposed: How a jaxpr is transposed.
    """

    def call(first: Sequence[Any], args: Sequence[Any], params: Any, held: Jaxprs) -> list[Any]:
        found: list[Any] = primitive.bind(*first, *args, **params | {key: held})
        return found

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        (first, args), moving = cut(primals, before), tangents[before:]
        has = nonzero(moving)
        both, consts, flags = made(params[key], jvp_jaxpr, has)
        results = call(first, [*consts, *args, *split(has, moving)[1]], params, both)
        values, moved = cut(results, len(flags))
        return values, with_zeros(list(map(aval_of, values)), flags, moved)

    def batch(size: int, args: Any, dims: Any, **params: Any) -> Any:
        batched = tuple(dim is not None for dim in dims[before:])
        whole, consts, flags = made(params[key], batch_jaxpr, size, batched)
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
        known, rest = split(unknown, args)
        with interpreting(interpreter.parent):
            one = now if isinstance(now, ClosedJaxpr) else now[0]
            results = call(first, [*consts, *known], params, now) if one.out_avals else []
        done, residuals = cut(results, flags.count(False))
        operands = [*first, *residuals, *rest]
        return waiting(interpreter, primitive, flags, done, operands, params | {key: later})

    def transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
        first, operands = cut(args, before)
        linear, has = tuple(type(x) is Linear for x in operands), nonzero(cts)
        back, consts, flags = made(params[key], transposed, linear, has)
        known, moving = split(linear, operands)[0], split(has, cts)[1]
        found = call(first, [*consts, *known, *moving], params, back)
        return [*[None] * before, *merge(linear, repeat(None), merge(flags, repeat(None), found))]

    primitive.jvp, primitive.batch = jvp, batch
    primitive.partial, primitive.transpose = partial, transpose


def waiting(
    interpreter: Partial, call: Primitive, flags: Sequence[bool], done: Any, args: Any, params: Any
) -> list[Any]:
    """The results of a call: some are done; the call for those that are flagged is written down."""
    rest = Staging.process(interpreter, call, args, params) if any(flags) else []
    return merge(flags, done, rest)
