"""Loops whose number of turns only the numbers decide: `while_loop`.

The condition and the body are jaxprs in the parameters of one equation; what both read and never
change stands before what is carried from turn to turn. A rule needs a fixpoint: if the body gives a
carried value a tangent, it has one from the start, which may give others one. Reverse mode is not
possible: it would have to keep the values of each turn, in memory of a size that nobody knows.

After "Structured control flow primitives" (docs.jax.dev, control-flow.html).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, promote
from jaxlens.core.batching import batch_jaxpr, to_front
from jaxlens.core.control.branches import fronts, nonzero, same_type, with_zeros
from jaxlens.core.forward import instantiate, jvp_jaxpr
from jaxlens.core.jaxprs import ClosedJaxpr, Jaxpr, Var, hoisted, kept, merge, split, used
from jaxlens.core.primitives.shapes import convert_element_type, i64s
from jaxlens.core.reverse import Partial, partial_jaxpr
from jaxlens.core.staging import Staging, Traced, aval_of, traced
from jaxlens.core.tracers import Primitive, Value, interpreting
from jaxlens.core.trees import TreeDef, tree_flatten

while_p = Primitive("while", multiple_results=True)
Flags = tuple[bool, ...]


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    """Applies `body_fun` to a value again and again, as long as `cond_fun` of it is true.

    Args:
        cond_fun: The value to a boolean scalar.
        body_fun: The value to the next one, which has the same containers and types.
        init: The first: a pytree of arrays.
    """
    body, leaves = loop_body("while_loop", body_fun, init)
    tree = body.out_tree
    test = traced(cond_fun, (tree.unflatten(leaves),), {})
    types = test.jaxpr.out_avals
    if [(aval.shape, aval.dtype) for aval in types] != [((), np.dtype(bool))]:
        listed = ", ".join(aval.str_short() for aval in types)
        raise TypeError(f"while_loop: cond_fun must return a boolean scalar, got {listed}.")
    results = while_p.bind(
        *test.consts, *body.consts, *leaves,
        cond_jaxpr=test.jaxpr, cond_nconsts=len(test.consts),
        body_jaxpr=body.jaxpr, body_nconsts=len(body.consts),
    )  # fmt: skip
    return tree.unflatten(results)


def loop_body(
    what: str,
    f: Callable[..., Any],
    init: Any,
    carry_of: Callable[[TreeDef], TreeDef] = lambda tree: tree,
    before: Sequence[Any] = (),
    after: Sequence[Any] = (),
) -> tuple[Traced, list[Any]]:
    """Traces the body of a loop, and checks that it returns what it is to be given next.

    A first value that is weakly typed, such as a Python 0, gets the dtype of the next one.

    Args:
        what: The loop, for the errors.
        f: The body.
        init: What it is given first.
        carry_of: Where in its results the next value is; raises if there is none.
        before: Its arguments before the carry.
        after: Those after it.

    Returns:
        The body, and the leaves of `init`.
    """
    leaves, tree = tree_flatten(init)
    while True:
        body = traced(f, (*before, tree.unflatten(leaves), *after), {})
        out_tree = carry_of(body.out_tree)
        if out_tree != tree:
            raise TypeError(
                f"{what}: the body must return a carry with the containers that it is given, "
                f"{tree}, but it returns {out_tree}."
            )
        pairs = list(zip(map(aval_of, leaves), body.jaxpr.out_avals, strict=False))
        if all(same_type(*pair) for pair in pairs):
            return body, leaves
        for place, (path, (old, new)) in enumerate(zip(tree.paths(), pairs, strict=True)):
            if same_type(old, new):
                continue
            dtype = promote(old, new)[0]
            if not old.weak_type or old.shape != new.shape or dtype == old.dtype:
                kind = "shapes" if old.shape != new.shape else "dtypes"
                raise TypeError(
                    f"{what}: the body must return a carry of the types that it is given, but "
                    f"carry{''.join(path)} goes in as {old.str_short()} and comes out as "
                    f"{new.str_short()}: the {kind} do not match. Convert one of them."
                )
            leaves[place] = converted(leaves[place], dtype)


def converted(x: Any, dtype: np.dtype) -> Any:
    """An array of this dtype; a scalar of it in place of a number of Python's of another one."""
    if isinstance(x, Value) or aval_of(x).dtype == dtype:
        return convert_element_type(x, dtype) if aval_of(x).dtype != dtype else x
    return np.asarray(x, dtype)[()]


def fixpoint(transform: Callable[[Flags], Any], carry: Flags) -> tuple[Any, Flags]:
    """What a transform makes of a body that returns a flag for each value it is given one for.

    Args:
        transform: Flags of what is carried to something whose last item begins with the flags
            of what is returned: all those given, and perhaps more.
        carry: The flags to begin with.

    Returns:
        What it makes, and the flags.
    """
    while True:
        found = transform(carry)
        grown = tuple(found[-1][: len(carry)])
        if grown == carry:
            return found, carry
        carry = grown


def reordered(closed: ClosedJaxpr, invars: Sequence[Var]) -> ClosedJaxpr:
    """A jaxpr with its parameters in another order, or with some that it does not use."""
    return ClosedJaxpr(Jaxpr([], invars, closed.jaxpr.outvars, closed.eqns), [])


def only(closed: ClosedJaxpr, results: Sequence[Any]) -> ClosedJaxpr:
    """A jaxpr with these results, and with the equations that they need."""
    needed = {atom for atom in results if isinstance(atom, Var)}
    eqns = used(closed.eqns, needed)
    return ClosedJaxpr(Jaxpr([], closed.jaxpr.invars, results, eqns), [])


def cut(items: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """A list in pieces of these lengths, and the rest."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(list(items[start : start + size]))
        start += size
    return [*pieces, list(items[start:])]


@while_p.rule("abstract")
def _(*avals: ShapedArray, body_jaxpr: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    return body_jaxpr.out_avals


@while_p.rule("lower")
def _(
    ctx: Any,
    *operands: Any,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
) -> list[Any]:
    cond_consts, body_consts, init = cut(operands, cond_nconsts, body_nconsts)
    types = [x.type for x in init]
    (pred,) = cond_jaxpr.out_avals
    loop = hlo.WhileOp(types, init)
    with ir.InsertionPoint(loop.cond.blocks.append(*types)) as here:
        (go,) = ctx.inline(cond_jaxpr, *cond_consts, *here.block.arguments, scope="while/cond")
        if pred.shape:  # some example is not done
            scalar = pred.update(shape=())
            own = replace(ctx, avals_in=[pred], avals_out=[scalar])
            go = own.reduce(hlo.or_, go, False, range(pred.ndim))
        hlo.return_([go])
    with ir.InsertionPoint(loop.body.blocks.append(*types)) as here:
        old = list(here.block.arguments)
        new = ctx.inline(body_jaxpr, *body_consts, *old, scope="while/body")
        if pred.shape:  # those that are done keep what they have
            (go,) = ctx.inline(cond_jaxpr, *cond_consts, *old, scope="while/body")
            new = [_where(ctx, go, *pair) for pair in zip(new, old, strict=True)]
        hlo.return_(new)
    return list(loop.results)


def _where(ctx: Any, which: Any, yes: Any, no: Any) -> Any:
    shape = yes.type.shape
    bools = ctx.type(ShapedArray(tuple(shape), np.dtype(bool)))
    spread = hlo.broadcast_in_dim(bools, which, i64s(range(which.type.rank)))
    return hlo.select(spread, yes, no)


@kept
def _jvp_of(body: ClosedJaxpr, count: int, consts: Flags, carry: Flags) -> tuple[Any, ...]:
    """The body with tangents, the constants that it got, and which carried values have one."""
    (both, _), carry = fixpoint(lambda carry: jvp_jaxpr(body, [*consts, *carry], carry), carry)
    inner, new = hoisted(both)
    sizes = len(new), count, len(carry), sum(consts)
    own, first, values, moving, moved = cut(inner.jaxpr.invars, *sizes)
    return reordered(inner, [*own, *first, *moving, *values, *moved]), new, carry


@while_p.rule("jvp")
def _(
    primals: Any,
    tangents: Any,
    *,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
) -> Any:
    cond_consts, body_consts, init = cut(primals, cond_nconsts, body_nconsts)
    _, const_tangents, init_tangents = cut(tangents, cond_nconsts, body_nconsts)
    has = nonzero(const_tangents)
    both, new, carry = _jvp_of(body_jaxpr, body_nconsts, has, nonzero(init_tangents))
    consts = [*new, *body_consts, *split(has, const_tangents)[1]]
    moving = [instantiate(t) for t in split(carry, init_tangents)[1]]
    results = while_p.bind(
        *cond_consts, *consts, *init, *moving,
        cond_jaxpr=_with_more(cond_jaxpr, tuple(map(aval_of, moving))), cond_nconsts=cond_nconsts,
        body_jaxpr=both, body_nconsts=len(consts),
    )  # fmt: skip
    values, moved = results[: len(init)], results[len(init) :]
    return values, with_zeros(body_jaxpr.out_avals, carry, moved)


@kept
def _with_more(closed: ClosedJaxpr, types: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    return reordered(closed, [*closed.jaxpr.invars, *map(Var, types)]) if types else closed


@kept
def _batch_of(
    jaxprs: tuple[ClosedJaxpr, ClosedJaxpr], size: int, tests: Flags, consts: Flags, carry: Flags
) -> tuple[Any, ...]:
    """The condition and body for all examples, their constants, and what differs by example.

    Once the condition does, all that is carried does: an example that is done keeps its own.
    """
    test, body = jaxprs
    differs = bool(test.out_avals[0].shape)

    def whole(carry: Flags) -> tuple[Any, ...]:
        every, flags = batch_jaxpr(body, size, [*consts, *carry], carry)
        every_test, (own,) = batch_jaxpr(test, size, [*tests, *carry], [differs and any(carry)])
        return every_test, every, [flag or own for flag in flags]

    (every_test, every, _), carry = fixpoint(whole, carry)
    return *hoisted(every_test), *hoisted(every), carry


@while_p.rule("batch")
def _(
    size: int,
    args: Any,
    dims: Any,
    *,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
) -> Any:
    flags = cut([dim is not None for dim in dims], cond_nconsts, body_nconsts)
    tests, consts, carry = map(tuple, flags)
    test, new_tests, body, new_consts, carry = _batch_of(
        (cond_jaxpr, body_jaxpr), size, tests, consts, carry
    )
    cond_consts, body_consts, init = cut(args, cond_nconsts, body_nconsts)
    cond_dims, body_dims, init_dims = cut(dims, cond_nconsts, body_nconsts)
    cond_consts, body_consts = (
        fronts(size, cond_consts, cond_dims),
        fronts(size, body_consts, body_dims),
    )
    triples = zip(init, init_dims, carry, strict=True)
    init = [to_front(size, x, dim) if has else x for x, dim, has in triples]
    results = while_p.bind(
        *new_tests, *cond_consts, *new_consts, *body_consts, *init,
        cond_jaxpr=test, cond_nconsts=len(new_tests) + cond_nconsts,
        body_jaxpr=body, body_nconsts=len(new_consts) + body_nconsts,
    )  # fmt: skip
    return results, [0 if has else None for has in carry]


@kept
def _partial_of(
    jaxprs: tuple[ClosedJaxpr, ClosedJaxpr], tests: Flags, consts: Flags, carry: Flags
) -> tuple[Any, ...] | None:
    """What of a loop can run now, if its condition can; and which carried values must wait."""
    test, body = jaxprs
    (known, *_), carry = fixpoint(
        lambda carry: partial_jaxpr(body, [*consts, *carry], carry), carry
    )
    known_test, _, (waits,) = partial_jaxpr(test, [*tests, *carry])
    if waits:
        return None
    now, new = hoisted(known)
    return *hoisted(known_test), only(now, now.jaxpr.outvars[: carry.count(False)]), new, carry


@while_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    sizes = params["cond_nconsts"], params["body_nconsts"]
    jaxprs = params["cond_jaxpr"], params["body_jaxpr"]
    flags = map(tuple, cut(list(map(interpreter.unknown, args)), *sizes))
    tests, consts, carry = flags
    found = _partial_of(jaxprs, tests, consts, carry)
    if found is None:
        whole: list[Any] = Staging.process(interpreter, while_p, args, params)
        return whole
    test, new_tests, body, new_consts, carry = found
    parts = zip((tests, consts, carry), cut(args, *sizes), strict=True)
    known_tests, known_consts, known_init = (split(waits, xs)[0] for waits, xs in parts)
    with interpreting(interpreter.parent):
        results = while_p.bind(
            *new_tests, *known_tests, *new_consts, *known_consts, *known_init,
            cond_jaxpr=test, cond_nconsts=len(new_tests) + len(known_tests),
            body_jaxpr=body, body_nconsts=len(new_consts) + len(known_consts),
        )  # fmt: skip
    whole = Staging.process(interpreter, while_p, args, params) if any(carry) else results
    return merge(carry, results, split(carry, whole)[1])


@while_p.rule("transpose")
def _(cts: Any, *args: Any, **params: Any) -> NoReturn:
    raise ValueError(
        "Reverse-mode differentiation does not work for while_loop, or for fori_loop with a number "
        "of turns that is not known while tracing: the values of each turn would have to be kept. "
        "Use scan, or fori_loop with Python integers as bounds; jvp and jacfwd work."
    )
