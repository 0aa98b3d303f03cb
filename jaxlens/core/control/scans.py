"""Loops over rows and ranges: `scan`, `map`, `fori_loop`.

`scan` carries a value from row to row and stacks the results of the iterations. Since their number
is known, reverse mode can store what each iteration computed, stacked like any other result, and
go through it from the last row to the first. Loop-invariant values are computed once. An RNN is a
scan over time, and its gradient a scan backwards over time.

After "Structured control flow primitives" (docs.jax.dev, control-flow.html).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.control.loops import converted, loop_body, loop_jvp, looped, while_loop, while_op
from jaxlens.core.kernel.basics import Linear, Zero, add_any_p, i64s, instantiate, moveaxis
from jaxlens.core.kernel.interpreter import Primitive, Tracer, aval_of, interpreting
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, Var, as_function, hoisted
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.kernel.vjp import Partial, backward_pass
from jaxlens.core.primitives.elementwise import add_p, like, lt
from jaxlens.core.transforms.calls import pruned, record_rest, reordered
from jaxlens.core.transforms.flags import Flags, cut, in_front, merge, nonzero, split, with_zeros
from jaxlens.core.transforms.jaxprs import batch_jaxpr, memoized, partial_jaxpr, traced
from jaxlens.core.transforms.promotion import promote
from jaxlens.core.transforms.trees import TreeDef, paths, tree_flatten

scan_p = Primitive("scan", multiple_results=True)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Loops over the first axis of arrays, carrying a value and stacking results.

    Args:
        f: `(carry, x) -> (carry, y)`; the carry keeps its containers and types.
        init: The first carry.
        xs: A pytree of arrays, of which `f` gets one row per iteration.
        length: The number of iterations, if there are no `xs`.
        reverse: Whether to go from the last row to the first.
        unroll: How many iterations to write out in the program; True for all of them.

    Returns:
        The last carry, and the `y` of all iterations, stacked as in `xs`.
    """
    leaves, row, length = _rows(xs, length)
    body, first = loop_body("scan", f, init, _carry_tree, after=(row,))
    if isinstance(unroll, bool):
        unroll = max(length, 1) if unroll else 1
    if unroll < 1:
        raise ValueError(f"scan: unroll must be a positive integer or a bool, got {unroll}.")
    how = {"length": length, "reverse": reverse, "unroll": unroll}
    results = _bind(body.jaxpr, body.consts, first, leaves, **how)
    pair: tuple[Any, Any] = body.out_tree.unflatten(results)
    return pair


def _rows(xs: Any, length: int | None) -> tuple[list[Any], Any, int]:
    """Returns the arrays, the type of a row of each, and the number of rows."""
    leaves, tree = tree_flatten(xs)
    types, sizes = [aval_of(leaf) for leaf in leaves], {}
    for aval, path in zip(types, paths(tree), strict=True):
        name = "xs" + "".join(path)
        if not aval.shape:
            raise ValueError(f"scan: {name} is a scalar: there is no axis to scan over.")
        sizes[name] = aval.shape[0]
    lengths = {*sizes.values()} | ({length} if length is not None else set())
    if not lengths:
        raise ValueError("scan: there is nothing to scan over: give xs or length.")
    if len(lengths) > 1:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        stated = "" if length is None else f", and length is {length}"
        raise ValueError(f"scan: the first axes must be equally long, but {listed}{stated}.")
    row = tree.unflatten(aval.update(shape=aval.shape[1:]) for aval in types)
    return leaves, row, int(lengths.pop())


def _carry_tree(tree: TreeDef) -> TreeDef:
    if tree.kind not in (tuple, list) or len(tree.children) != 2:
        raise TypeError(f"scan: the body must return a pair (carry, y), got {tree}.")
    return tree.children[0]


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """Applies `f` to each row of arrays, one after another; `vmap` does so at once."""
    leaves, row, length = _rows(xs, None)
    body = traced(f, (row,), {})
    how = {"length": length, "reverse": False, "unroll": 1}
    return body.out_tree.unflatten(_bind(body.jaxpr, body.consts, [], leaves, **how))


def _bind(
    body: ClosedJaxpr, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], **how: Any
) -> Any:
    """Binds `scan_p`: body, its constants, initial carry, rows; `how`: length, reverse, unroll."""
    sizes = {"num_consts": len(consts), "num_carry": len(carry)}
    return scan_p.bind(*consts, *carry, *xs, jaxpr=body, **sizes, **how)


def _parts(params: dict[str, Any]) -> tuple[ClosedJaxpr, list[int], dict[str, Any]]:
    """Returns the body, the numbers of constants and carried values, and the other parameters."""
    how = dict(params)
    body, *sizes = (how.pop(key) for key in ("jaxpr", "num_consts", "num_carry"))
    return body, sizes, how


@scan_p.rule("abstract")
def _(*avals: ShapedArray, jaxpr: ClosedJaxpr, length: int, num_carry: int, **_: Any) -> Any:
    carry, ys = cut(jaxpr.out_avals, num_carry)
    return [*carry, *(aval.update(shape=(length, *aval.shape)) for aval in ys)]


@scan_p.rule("lower")
def _(ctx: Any, *operands: Any, length: int, reverse: bool, unroll: int, **params: Any) -> Any:
    """Emits a while loop with a counter that slices rows out and writes rows in."""
    body, (num_consts, num_carry), _ = _parts(params)
    consts, carry, xs = cut(operands, num_consts, num_carry)
    i32 = ShapedArray((), np.dtype(np.int32))
    zero, step, last = (ctx.constant(n, i32) for n in (0, 1, length - 1))
    ys = [ctx.zeros(aval) for aval in ctx.avals_out[num_carry:]]

    def read(x: Any, at: Any) -> Any:
        shape = x.type.shape[1:]
        row = hlo.dynamic_slice(x, [at, *[zero] * len(shape)], i64s([1, *shape]))
        return hlo.reshape(ir.RankedTensorType.get(shape, x.type.element_type), row)

    def written(y: Any, row: Any, at: Any) -> Any:
        shape = row.type.shape
        row = hlo.reshape(ir.RankedTensorType.get([1, *shape], row.type.element_type), row)
        return hlo.dynamic_update_slice(y, row, [at, *[zero] * len(shape)])

    def iteration(i: Any, *state: Any) -> list[Any]:
        carry, ys = cut(state, num_carry)
        at = hlo.subtract(last, i) if reverse else i
        rows = [read(x, at) for x in xs]
        carry, new = cut(ctx.inline(body, *consts, *carry, *rows, scope="while/body"), num_carry)
        ys = [written(y, row, at) for y, row in zip(ys, new, strict=True)]
        return [hlo.add(i, step), *carry, *ys]

    def iterations(*state: Any, count: int = unroll) -> Sequence[Any]:
        for _ in range(count):
            state = tuple(iteration(*state))
        return state

    def more(i: Any, *_: Any) -> list[Any]:
        return [ctx.compare("LT", i32, i, ctx.constant(length - length % unroll, i32))]

    state = [zero, *carry, *ys]
    if length > unroll:
        state, length = while_op(state, more, iterations), length % unroll
    return list(iterations(*state, count=length)[1:])


# ---- derivatives --------------------------------------------------------------------------------


@scan_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    body, sizes, how = _parts(params)
    both, parts, flags, carry = loop_jvp(body, cut(primals, *sizes), cut(tangents, *sizes))
    results = _bind(both, parts[0], parts[1], parts[2], **how)
    values, moved, ys, moved_ys = cut(results, len(carry), sum(carry), len(flags) - len(carry))
    values += ys
    return values, with_zeros([aval_of(x) for x in values], flags, [*moved, *moved_ys])


@memoized
def _halves(closed: ClosedJaxpr, *unknown: Flags) -> tuple[Any, ...]:
    """Splits the body in known and unknown, and the known half in what is loop-invariant or not.

    Returns:
        What is computed once, of the new constants and the known ones: the residuals that do not
        change. The first half, which stacks the other residuals, but for known rows. For each of
        those its place among the known rows, or None. The second half: of residuals that do not
        change, what it has itself, and the others as rows. The new constants, which results wait,
        and which carries.
    """
    now, new, later, flags, carry = looped(closed, partial_jaxpr, *unknown)
    results, residuals = cut(now.jaxpr.outvars, flags.count(False))
    sizes = len(new) + unknown[0].count(False), carry.count(False)
    consts, _, rows = cut(now.jaxpr.invars, *sizes)
    steady, eqns = {*consts}, []
    for eqn in now.eqns:
        if all(not isinstance(x, Var) or x in steady for x in eqn.invars):
            steady.update(eqn.outvars)
            eqns.append(eqn)
    moves = [isinstance(r, Var) and r not in steady for r in residuals]
    fixed, moving = split(moves, residuals)
    once = pruned(ClosedJaxpr(Jaxpr([], consts, fixed, eqns), []), consts, fixed)
    places = [rows.index(r) if r in rows else None for r in moving]
    stacked = [r for r in moving if r not in rows]
    first = pruned(now, now.jaxpr.invars, [*results, *stacked])
    params, own = cut(later.jaxpr.invars, len(moves))
    still, moving = split(moves, params)
    later = reordered(later, [*still, *own, *moving])
    return once, first, places, later, new, flags, carry


@scan_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    body, sizes, how = _parts(params)
    parts = cut(args, *sizes)
    unknown = [tuple(interpreter.unknown(x) for x in group) for group in parts]
    once, first, places, later, new, flags, unknown[1] = _halves(body, *unknown)
    halves = [split(*pair) for pair in zip(unknown, parts, strict=True)]
    (consts, init, xs), (own_consts, own_init, own_xs) = zip(*halves, strict=True)
    with interpreting(interpreter.parent):
        still = as_function(once)(*new, *consts)
        results = _bind(first, [*new, *consts], init, xs, **how) if first.out_avals else []
    done, stacked = cut(results, flags.count(False))
    more = iter(stacked)
    rows = [next(more) if place is None else xs[place] for place in places]
    consts = [*still, *own_consts]
    how |= {"jaxpr": later, "num_consts": len(consts), "num_carry": len(own_init)}
    operands = [*consts, *own_init, *own_xs, *rows]
    return record_rest(interpreter, scan_p, flags, done, operands, how)


@memoized
def _transposed_of(closed: ClosedJaxpr, consts: Flags, xs: Flags, ys: Flags) -> Any:
    """Returns the transposed body, which carries the cotangents of constants and of the carry.

    Args:
        closed: The body, linear in its carry.
        consts: In which constants it is linear.
        xs: In which rows.
        ys: Which stacked results have a cotangent.
    """
    num_carry = len(closed.out_avals) - len(ys)
    linear = [*consts, *[True] * num_carry, *xs]
    const_avals, carry_avals, row_avals = cut(closed.in_avals, len(consts), num_carry)
    y_avals = closed.out_avals[num_carry:]
    nonlinear, sums = split(consts, const_avals)
    types = [nonlinear, sums, carry_avals, split(ys, y_avals)[1], split(xs, row_avals)[0]]

    def iteration(*args: Any) -> list[Any]:
        nonlinear, totals, cts, rows, known_xs, _ = cut(args, *(len(group) for group in types))
        operands = merge(
            linear, nonlinear + known_xs, [Linear(a) for a in split(linear, closed.in_avals)[1]]
        )
        grads = backward_pass(closed.jaxpr, [], operands, cts + with_zeros(y_avals, ys, rows), True)
        added, rest = cut([instantiate(ct) for ct in grads], len(totals))
        pairs = zip(totals, added, strict=True)
        return [*(add_any_p.bind(*pair) for pair in pairs), *rest]

    return hoisted(trace(iteration, [aval for group in types for aval in group]))


@scan_p.rule("transpose")
def _(cts: Any, *args: Any, **params: Any) -> list[Any]:
    body, sizes, how = _parts(params)
    linear = tuple(type(x) is Linear for x in args)
    in_consts, in_init, in_xs = (tuple(group) for group in cut(linear, *sizes))
    (consts, _, xs), (carry, ys) = cut(args, *sizes), cut(cts, len(in_init))
    has = nonzero(ys)
    back, new = _transposed_of(body, in_consts, in_xs, has)
    nonlinear, moving = split(in_consts, consts)
    start = [instantiate(ct) for ct in (*(Zero(x.aval) for x in moving), *carry)]
    rows = [*split(has, ys)[1], *split(in_xs, xs)[0]]
    how["reverse"] = not how["reverse"]
    cts_in = _bind(back, [*new, *nonlinear], start, rows, **how)
    ct_consts, ct_init, ct_xs = cut(cts_in, len(moving), len(carry))
    return merge(linear, repeat(None), [*ct_consts, *split(in_init, ct_init)[1], *ct_xs])


@scan_p.rule("batch")
def _(size: int, args: Any, dims: Any, **params: Any) -> Any:
    body, sizes, how = _parts(params)
    (consts, init, xs), places = cut(args, *sizes), cut(dims, *sizes)
    has = [tuple(dim is not None for dim in group) for group in places]
    whole, new, flags, carry = looped(body, batch_jaxpr, *has, size)
    consts = [*new, *in_front(size, consts, places[0])]
    pairs = zip(xs, places[2], strict=True)
    xs = [x if dim is None else moveaxis(x, dim, 1) for x, dim in pairs]
    results = _bind(whole, consts, in_front(size, init, places[1], carry), xs, **how)
    return results, [int(n >= len(carry)) if has else None for n, has in enumerate(flags)]


# ---- fori_loop ----------------------------------------------------------------------------------


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init: Any) -> Any:
    """Computes `for i in range(lower, upper): value = body_fun(i, value)`.

    A scan if both bounds are known while tracing, so that reverse mode works; else a while loop.

    Args:
        lower: The first i.
        upper: One past the last.
        body_fun: `(i, value) -> value`, with the same containers and types.
        init: The first value: a pytree of arrays.
    """
    types = [aval_of(bound) for bound in (lower, upper)]
    for name, aval in zip(("lower", "upper"), types, strict=True):
        if aval.shape or aval.dtype.kind not in "iu":
            raise TypeError(
                f"fori_loop: `{name}` must be an integer scalar, got {aval.str_short()}."
            )
    lower, upper = (converted(bound, promote(*types)[0]) for bound in (lower, upper))
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        state = while_loop(_below, _counting(body_fun), (lower, upper, init))
        return state[2]
    length = max(int(upper) - int(lower), 0)
    return scan(_counting(body_fun, True), (lower, init), length=length)[0][1]


def _below(state: tuple[Any, Any, Any]) -> Any:
    return lt(state[0], state[1])


@lru_cache(maxsize=1024)  # one function each time is traced once
def _counting(body_fun: Callable[[Any, Any], Any], static: bool = False) -> Callable[..., Any]:
    """Returns the body of a fori_loop with a counter; `static`: for scan, with known bounds."""

    def iteration(state: tuple[Any, ...], *_: Any) -> Any:
        i, *bound, value = state
        state = (add_p.bind(i, like(i, 1)), *bound, body_fun(i, value))
        return (state, None) if static else state

    return iteration
