"""Loops over the rows of arrays: `scan`, `map`.

`scan` carries a value from row to row and stacks what each turn gives. Since the number of turns is
known, reverse mode can keep what each turn of the forward loop computed, stacked like any other
result, and go through it from the last row to the first. What does not change from turn to turn is
kept once. An RNN is a scan over time, and its gradient is a scan backwards over time.

After "Structured control flow primitives" (docs.jax.dev, control-flow.html).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.batching import batch_jaxpr, to_front
from jaxlens.core.control.branches import nonzero, with_zeros
from jaxlens.core.control.loops import Flags, cut, fixpoint, loop_body, only, reordered
from jaxlens.core.forward import instantiate, jvp_jaxpr
from jaxlens.core.jaxprs import ClosedJaxpr, Jaxpr, Var, hoisted, kept, merge, split
from jaxlens.core.primitives.elementwise import add_any_p
from jaxlens.core.primitives.shapes import i64s, moveaxis
from jaxlens.core.reverse import Partial, backward_pass, partial_jaxpr
from jaxlens.core.staging import Staging, aval_of, eval_jaxpr, trace, traced
from jaxlens.core.tracers import Linear, Primitive, Zero, interpreting
from jaxlens.core.trees import TreeDef, tree_flatten

scan_p = Primitive("scan", multiple_results=True)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """A loop over the first axis of arrays that carries a value and stacks results.

    Args:
        f: `(carry, x) -> (carry, y)`; the carry keeps its containers and types.
        init: The first carry.
        xs: A pytree of arrays, of which `f` gets a row a turn.
        length: The number of turns, where `xs` does not say.
        reverse: Whether to go from the last row to the first.
        unroll: How many turns stand in the program one after another; True for all of them.

    Returns:
        The last carry, and the `y` of all turns, row by row as in `xs`.
    """
    leaves, tree = tree_flatten(xs)
    length = _length(leaves, ["".join(path) for path in tree.paths()], length)
    rows = tree.unflatten(_row(aval_of(leaf)) for leaf in leaves)
    body, first = loop_body("scan", f, init, _carry_tree, after=(rows,))
    if isinstance(unroll, bool):
        unroll = max(length, 1) if unroll else 1
    if unroll < 1:
        raise ValueError(f"scan: unroll must be a positive integer or a bool, got {unroll}.")
    results = scan_p.bind(
        *body.consts, *first, *leaves, jaxpr=body.jaxpr, length=length,
        num_consts=len(body.consts), num_carry=len(first), reverse=reverse, unroll=unroll,
    )  # fmt: skip
    found: tuple[Any, Any] = body.out_tree.unflatten(results)
    return found


def _length(leaves: Sequence[Any], names: Sequence[str], given: int | None) -> int:
    sizes = {}
    for leaf, name in zip(leaves, names, strict=True):
        aval = aval_of(leaf)
        if not aval.shape:
            raise ValueError(f"scan: xs{name} is a scalar: there is no axis to scan over.")
        sizes[name] = aval.shape[0]
    found = {*sizes.values()} | ({given} if given is not None else set())
    if not found:
        raise ValueError("scan: there is nothing to scan over: give xs or length.")
    if len(found) > 1:
        listed = ", ".join(f"xs{name} has {size}" for name, size in sizes.items())
        asked = "" if given is None else f", and length is {given}"
        raise ValueError(f"scan: the first axes must be equally long, but {listed}{asked}.")
    return int(found.pop())


def _carry_tree(tree: TreeDef) -> TreeDef:
    if tree.kind not in (tuple, list) or len(tree.children) != 2:
        raise TypeError(f"scan: the body must return a pair (carry, y), got {tree}.")
    return tree.children[0]


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """`f` of each row of arrays, one after another; `vmap` does them at once."""
    leaves, tree = tree_flatten(xs)
    length = _length(leaves, ["".join(path) for path in tree.paths()], None)
    rows = (tree.unflatten(_row(aval_of(leaf)) for leaf in leaves),)
    body = traced(f, rows, {})
    results = scan_p.bind(
        *body.consts, *leaves, jaxpr=body.jaxpr, length=length,
        num_consts=len(body.consts), num_carry=0, reverse=False, unroll=1,
    )  # fmt: skip
    return body.out_tree.unflatten(results)


def _row(aval: ShapedArray) -> ShapedArray:
    return aval.update(shape=aval.shape[1:])


def _rows(aval: ShapedArray, length: int) -> ShapedArray:
    return aval.update(shape=(length, *aval.shape))


@scan_p.rule("abstract")
def _(*avals: ShapedArray, jaxpr: ClosedJaxpr, length: int, num_carry: int, **_: Any) -> Any:
    carry, ys = cut(jaxpr.out_avals, num_carry)
    return [*carry, *(_rows(aval, length) for aval in ys)]


# ---- lowering: a while loop that counts, cuts rows out and puts rows in ------------------------


@scan_p.rule("lower")
def _(
    ctx: Any, *operands: Any, jaxpr: ClosedJaxpr, length: int, num_consts: int, num_carry: int,
    reverse: bool, unroll: int,
) -> list[Any]:  # fmt: skip
    consts, carry, xs = cut(operands, num_consts, num_carry)
    i32 = ShapedArray((), np.dtype(np.int32))
    zero, one, last = (ctx.constant(n, i32) for n in (0, 1, length - 1))
    ys = [
        hlo.broadcast_in_dim(ctx.type(aval), ctx.constant(0, aval.update(shape=())), i64s(()))
        for aval in ctx.avals_out[num_carry:]
    ]

    def turn(i: Any, carry: list[Any], ys: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        at = hlo.subtract(last, i) if reverse else i
        rows = [_cut_row(x, at, zero) for x in xs]
        results = ctx.inline(jaxpr, *consts, *carry, *rows, scope="while/body")
        carry, new = cut(results, num_carry)
        ys = [_put_row(y, row, at, zero) for y, row in zip(ys, new, strict=True)]
        return hlo.add(i, one), carry, ys

    whole, i = length - length % unroll, zero
    if whole > unroll:
        types = [value.type for value in (i, *carry, *ys)]
        loop = hlo.WhileOp(types, [i, *carry, *ys])
        with ir.InsertionPoint(loop.cond.blocks.append(*types)) as here:
            more = ctx.compare("LT", here.block.arguments[0], ctx.constant(whole, i32), "SIGNED")
            hlo.return_([more])
        with ir.InsertionPoint(loop.body.blocks.append(*types)) as here:
            (inner,), own, rows = cut(here.block.arguments, 1, num_carry)
            for _ in range(unroll):
                inner, own, rows = turn(inner, own, rows)
            hlo.return_([inner, *own, *rows])
        (i,), carry, ys = cut(loop.results, 1, num_carry)
        length -= whole
    for _ in range(length):
        i, carry, ys = turn(i, carry, ys)
    return [*carry, *ys]


def _cut_row(x: Any, at: Any, zero: Any) -> Any:
    shape, element = x.type.shape, x.type.element_type
    starts = [at, *[zero] * (len(shape) - 1)]
    row = hlo.dynamic_slice(x, starts, i64s([1, *shape[1:]]))
    return hlo.reshape(ir.RankedTensorType.get(shape[1:], element), row)


def _put_row(y: Any, row: Any, at: Any, zero: Any) -> Any:
    shape, element = row.type.shape, row.type.element_type
    row = hlo.reshape(ir.RankedTensorType.get([1, *shape], element), row)
    return hlo.dynamic_update_slice(y, row, [at, *[zero] * len(shape)])


# ---- derivatives --------------------------------------------------------------------------------


@kept
def _jvp_of(
    closed: ClosedJaxpr, consts: Flags, carry: Flags, xs: Flags
) -> tuple[ClosedJaxpr, list[Any], Flags, list[bool]]:
    """The body with tangents, the constants it got, which carries have one, and which results."""
    ys = [False] * (len(closed.out_avals) - len(carry))
    (both, flags), carry = fixpoint(
        lambda carry: jvp_jaxpr(closed, [*consts, *carry, *xs], [*carry, *ys]), carry
    )
    inner, new = hoisted(both)
    sizes = len(new), len(consts), len(carry), len(xs), sum(consts), sum(carry)
    own, const, value, row, *moving = cut(inner.jaxpr.invars, *sizes)
    params = [*own, *const, *moving[0], *value, *moving[1], *row, *moving[2]]
    values, rows, moved, moved_rows = cut(inner.jaxpr.outvars, len(carry), len(ys), sum(carry))
    results = [*values, *moved, *rows, *moved_rows]
    return ClosedJaxpr(Jaxpr([], params, results, inner.eqns), []), new, carry, flags


@scan_p.rule("jvp")
def _(
    primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int,
    **params: Any,
) -> Any:  # fmt: skip
    consts, init, xs = cut(primals, num_consts, num_carry)
    moving = cut(tangents, num_consts, num_carry)
    has = [nonzero(each) for each in moving]
    both, new, carry, flags = _jvp_of(jaxpr, *has)
    has[1] = carry
    const_t, init_t, xs_t = (split(*pair)[1] for pair in zip(has, moving, strict=True))
    results = scan_p.bind(
        *new, *consts, *const_t, *init, *(instantiate(t) for t in init_t), *xs, *xs_t, jaxpr=both,
        num_consts=len(new) + len(consts) + len(const_t), num_carry=num_carry + len(init_t),
        **params,
    )  # fmt: skip
    values, moved, ys, moved_ys = cut(
        results, num_carry, len(init_t), len(jaxpr.out_avals) - num_carry
    )
    found = [*values, *ys]
    return found, with_zeros([aval_of(x) for x in found], flags, [*moved, *moved_ys])


@kept
def _partial_of(closed: ClosedJaxpr, consts: Flags, carry: Flags, xs: Flags) -> tuple[Any, ...]:
    """The body split in two, and how what the second half needs gets there.

    Returns:
        The known half, with the residuals that change from turn to turn as more rows to stack.
        A jaxpr of the known constants to the residuals that do not change: computed before the
        loop, kept once. The constants of both. For each other residual the known row that it is,
        None for one that is stacked. The other half: of residuals that do not change, what it has
        itself, and the others. Which results wait, and which carries.
    """
    ys = [False] * (len(closed.out_avals) - len(carry))
    (known, later, flags), carry = fixpoint(
        lambda carry: partial_jaxpr(closed, [*consts, *carry, *xs], [*carry, *ys]), carry
    )
    now, new = hoisted(known)
    count = flags.count(False)
    results, residuals = cut(now.jaxpr.outvars, count)
    sizes = len(new) + consts.count(False), carry.count(False)
    const_vars, _, row_vars = cut(now.jaxpr.invars, *sizes)
    steady = {*const_vars}
    for eqn in now.eqns:
        if all(not isinstance(atom, Var) or atom in steady for atom in eqn.invars):
            steady.update(eqn.outvars)
    fixed = [not isinstance(r, Var) or r in steady for r in residuals]
    moving, still = split(fixed, residuals)
    before = only(ClosedJaxpr(Jaxpr([], const_vars, [], now.eqns), []), still)
    places = [row_vars.index(r) if r in row_vars else None for r in moving]
    stacked = [r for r in moving if r not in row_vars]
    params, own = cut(later.jaxpr.invars, len(residuals))
    moving_params, still_params = split(fixed, params)
    after = reordered(later, [*still_params, *own, *moving_params])
    return only(now, [*results, *stacked]), before, new, places, after, flags, carry


@scan_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    sizes = params["num_consts"], params["num_carry"]
    unknown = [tuple(each) for each in cut([interpreter.unknown(x) for x in args], *sizes)]
    now, before, new, places, later, flags, carry = _partial_of(params["jaxpr"], *unknown)
    unknown[1] = carry
    parts = zip(unknown, cut(args, *sizes), strict=True)
    (consts, later_consts), (init, later_init), (xs, later_xs) = (split(*part) for part in parts)
    consts = [*new, *consts]
    with interpreting(interpreter.parent):
        fixed = eval_jaxpr(before.jaxpr, [], *consts)
        own = {"jaxpr": now, "num_consts": len(consts), "num_carry": len(init)}
        known = [*consts, *init, *xs]
        results = scan_p.bind(*known, **params | own) if now.jaxpr.outvars else []
    count = flags.count(False)
    stacked = iter(results[count:])
    rows = [next(stacked) if i is None else xs[i] for i in places]
    num_consts = len(fixed) + len(later_consts)
    own = {"jaxpr": later, "num_consts": num_consts, "num_carry": len(later_init)}
    operands = [*fixed, *later_consts, *later_init, *later_xs, *rows]
    rest = Staging.process(interpreter, scan_p, operands, params | own) if any(flags) else []
    return merge(flags, results[:count], rest)


@kept
def _transposed_of(
    closed: ClosedJaxpr, consts: Flags, xs: Flags, ys: Flags
) -> tuple[ClosedJaxpr, list[Any]]:
    """The body backwards: carries the cotangents of constants, which add up, and of the carry.

    Args:
        closed: The body, linear in its carry.
        consts: In which constants it is linear.
        xs: In which rows.
        ys: Which stacked results have a cotangent.
    """
    num_carry = len(closed.out_avals) - len(ys)
    linear = [*consts, *[True] * num_carry, *xs]
    const_avals, carry_avals, x_avals = cut(closed.in_avals, len(consts), num_carry)
    y_avals = closed.out_avals[num_carry:]
    types = [
        split(consts, const_avals)[0], split(consts, const_avals)[1], carry_avals,
        split(ys, y_avals)[1], split(xs, x_avals)[0],
    ]  # fmt: skip

    def back(*args: Any) -> list[Any]:
        known, sums, carry, rows, known_xs, _ = cut(args, *(len(each) for each in types))
        operands = merge(
            linear,
            [*known, *known_xs],
            (Linear(aval) for aval in split(linear, closed.in_avals)[1]),
        )
        cts = [*carry, *with_zeros(y_avals, ys, rows)]
        found = backward_pass(closed.jaxpr, [], operands, cts)
        added, *rest = cut(found, len(sums))
        pairs = zip(sums, added, strict=True)
        sums = [ct if type(new) is Zero else add_any_p.bind(ct, new) for ct, new in pairs]
        return [*sums, *(instantiate(ct) for each in rest for ct in each)]

    return hoisted(trace(back, [aval for each in types for aval in each]))


@scan_p.rule("transpose")
def _(
    cts: Any, *args: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, reverse: bool,
    **params: Any,
) -> list[Any]:  # fmt: skip
    linear = [type(x) is Linear for x in args]
    in_consts, in_init, in_xs = (tuple(each) for each in cut(linear, num_consts, num_carry))
    consts, _, xs = cut(args, num_consts, num_carry)
    carry, ys = cut(cts, num_carry)
    back, new = _transposed_of(jaxpr, in_consts, in_xs, nonzero(ys))
    known, moving = split(in_consts, consts)
    start = [instantiate(Zero(x.aval)) for x in moving] + [instantiate(ct) for ct in carry]
    rows = [*split(nonzero(ys), ys)[1], *split(in_xs, xs)[0]]
    found = scan_p.bind(
        *new, *known, *start, *rows, jaxpr=back, num_consts=len(new) + len(known),
        num_carry=len(start), reverse=not reverse, **params,
    )  # fmt: skip
    ct_consts, ct_init, ct_xs = cut(found, len(moving), num_carry)
    ct_init = [ct if is_linear else None for ct, is_linear in zip(ct_init, in_init, strict=True)]
    none = [None] * len(args)
    return [
        *merge(in_consts, none, ct_consts), *ct_init, *merge(in_xs, none, ct_xs)
    ]  # fmt: skip


@kept
def _batch_of(
    closed: ClosedJaxpr, size: int, consts: Flags, carry: Flags, xs: Flags
) -> tuple[ClosedJaxpr, list[Any], Flags, list[bool]]:
    """The body for all examples, the constants it got, which carries differ, and which results."""
    ys = [False] * (len(closed.out_avals) - len(carry))
    (whole, flags), carry = fixpoint(
        lambda carry: batch_jaxpr(closed, size, [*consts, *carry, *xs], [*carry, *ys]), carry
    )
    return *hoisted(whole), carry, flags


@scan_p.rule("batch")
def _(
    size: int, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int,
    **params: Any,
) -> Any:  # fmt: skip
    has = [tuple(dim is not None for dim in each) for each in cut(dims, num_consts, num_carry)]
    whole, new, carry, flags = _batch_of(jaxpr, size, *has)
    consts, init, xs = cut(list(zip(args, dims, strict=True)), num_consts, num_carry)
    first = [
        to_front(size, *pair) if must else pair[0] for pair, must in zip(init, carry, strict=True)
    ]
    results = scan_p.bind(
        *new, *(x if dim is None else moveaxis(x, dim, 0) for x, dim in consts), *first,
        *(x if dim is None else moveaxis(x, dim, 1) for x, dim in xs),
        jaxpr=whole, num_consts=len(new) + num_consts, num_carry=num_carry, **params,
    )  # fmt: skip
    places = [0] * num_carry + [1] * (len(results) - num_carry)
    return results, [place if has else None for place, has in zip(places, flags, strict=True)]
