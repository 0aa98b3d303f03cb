"""Choices that stay in the program: `cond` and `switch`.

Python's `if` runs while a function is traced, and leaves the branch that it took. Where the choice
depends on numbers, the program needs all branches: they become jaxprs in the parameters of one
equation. So the rules here make branches of branches, and these must agree: a result has a tangent
if it has one in any of them, zeros in the others.

After "Structured control flow primitives" (docs.jax.dev, control-flow.html).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, tangent_aval
from jaxlens.core.batching import Dim, batch_flat, batch_jaxpr, to_front
from jaxlens.core.forward import instantiate, jvp_jaxpr
from jaxlens.core.jaxprs import ClosedJaxpr, Jaxpr, Var, hoisted, kept, merge, split
from jaxlens.core.primitives.elementwise import eq_p, ne_p, select_n_p
from jaxlens.core.primitives.functions import clamp_p, stop_gradient_p
from jaxlens.core.primitives.shapes import broadcast_in_dim, convert_element_type
from jaxlens.core.reverse import Partial, partial_jaxpr, transpose_jaxpr
from jaxlens.core.staging import Staging, as_function, aval_of, trace, traced
from jaxlens.core.tracers import Linear, Primitive, Zero, interpreting, mapped_axis
from jaxlens.core.trees import tree_flatten

cond_p = Primitive("cond", multiple_results=True)
Flags = Sequence[bool]
Branches = tuple[ClosedJaxpr, ...]

# ---- cond: one of several branches --------------------------------------------------------------


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """`true_fun(*operands)` if `pred`, else `false_fun(*operands)`, decided when the program runs.

    Args:
        pred: A scalar; a number counts as true if it is not zero.
        true_fun: A function of the operands.
        false_fun: Another, whose results have the same containers and types.
        *operands: Pytrees of arrays.
    """
    aval = aval_of(pred)
    if aval.shape:
        raise TypeError(
            f"Pred must be a scalar, got {aval.str_short()}: choose element by element with "
            f"cnp.where, or reduce it with .any() or .all()."
        )
    if aval.dtype != np.bool_:
        pred = ne_p.bind(pred, np.zeros((), aval.dtype)[()])
    index = convert_element_type(pred, np.int32)
    return _chosen("cond", index, {"false_fun": false_fun, "true_fun": true_fun}, operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, decided when the program runs; an index outside is clamped.

    Args:
        index: An integer scalar.
        branches: Functions of the operands, whose results have the same containers and types.
        *operands: Pytrees of arrays.
    """
    aval = aval_of(index)
    if aval.shape or aval.dtype.kind not in "iu":
        raise TypeError(f"switch: the index must be an integer scalar, got {aval.str_short()}.")
    if not branches:
        raise ValueError("switch: `branches` is empty: give at least one function.")
    if len(branches) == 1:
        return branches[0](*operands)
    index = convert_element_type(index, np.int32)
    index = clamp_p.bind(np.int32(0), index, np.int32(len(branches) - 1))
    return _chosen("switch", index, {f"branch {i}": f for i, f in enumerate(branches)}, operands)


def _chosen(
    what: str, index: Any, fs: dict[str, Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    found = [traced(f, operands, {}) for f in fs.values()]
    (first_name, first), *others = zip(fs, found, strict=True)
    for name, other in others:
        if other.out_tree != first.out_tree:
            raise TypeError(
                f"{what}: the branches must return the same containers, but {first_name} returns "
                f"{first.out_tree} and {name} returns {other.out_tree}."
            )
        types = zip(
            first.out_tree.paths(), first.jaxpr.out_avals, other.jaxpr.out_avals, strict=True
        )
        for path, a, b in types:
            if not same_type(a, b):
                raise TypeError(
                    f"{what}: the branches must return equal types, but result{''.join(path)} is "
                    f"{a.str_short()} from {first_name} and {b.str_short()} from {name}: convert "
                    f"one with astype, or broadcast it."
                )
    branches, consts = _together([(t.jaxpr, t.consts) for t in found])
    leaves = tree_flatten(operands)[0]
    return first.out_tree.unflatten(cond_p.bind(index, *consts, *leaves, branches=branches))


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    return (a.shape, a.dtype) == (b.shape, b.dtype)


def _together(found: Sequence[tuple[ClosedJaxpr, list[Any]]]) -> tuple[Branches, list[Any]]:
    """Branches with equal parameters: in front the constants of all, of which each uses its own."""
    every = {id(const): const for _, consts in found for const in consts}
    order = list(every)
    places = tuple(tuple(order.index(id(const)) for const in consts) for _, consts in found)
    types = tuple(map(aval_of, every.values()))
    branches = tuple(closed for closed, _ in found)
    return _with_common(branches, places, types) if every else branches, list(every.values())


@kept
def _with_common(
    branches: Branches, places: tuple[tuple[int, ...], ...], types: tuple[ShapedArray, ...]
) -> Branches:
    made = []
    for branch, own in zip(branches, places, strict=True):
        inner = branch.jaxpr
        params = list(map(Var, types))
        for place, var in zip(own, inner.invars, strict=False):
            params[place] = var
        params += inner.invars[len(own) :]
        made.append(ClosedJaxpr(Jaxpr([], params, inner.outvars, inner.eqns), []))
    return tuple(made)


def _agreed(transform: Callable[..., Any], branches: Branches) -> tuple[list[Any], list[bool]]:
    """All branches transformed; what a transform flags in one of them, it is forced to in all."""
    found = [transform(branch, None) for branch in branches]
    flags = [any(column) for column in zip(*(each[-1] for each in found), strict=True)]
    if any(each[-1] != flags for each in found):
        found = [transform(branch, flags) for branch in branches]
    return found, flags


@kept
def transformed(branches: Branches, transform: Callable[..., Any], *args: Any) -> Any:
    """A transform of all branches: they, the constants that it added, and what it flagged."""
    found, flags = _agreed(lambda branch, force: transform(branch, *args, force), branches)
    return *_together([hoisted(closed) for closed, _ in found]), flags


@cond_p.rule("abstract")
def _(index: ShapedArray, *avals: ShapedArray, branches: Branches) -> list[ShapedArray]:
    columns = zip(*(branch.out_avals for branch in branches), strict=True)
    return [column[0].update(weak_type=all(a.weak_type for a in column)) for column in columns]


@cond_p.rule("lower")
def _(ctx: Any, index: Any, *operands: Any, branches: Branches) -> list[Any]:
    case = hlo.CaseOp(list(map(ctx.type, ctx.avals_out)), index, len(branches))
    for n, (region, branch) in enumerate(zip(case.regions, branches, strict=True)):
        with ir.InsertionPoint(region.blocks.append()):
            hlo.return_(ctx.inline(branch, *operands, scope=f"cond/branch_{n}_fun"))
    return list(case.results)


def nonzero(tangents: Sequence[Any]) -> tuple[bool, ...]:
    """Which tangents or cotangents are not known to be zero."""
    return tuple(type(tangent) is not Zero for tangent in tangents)


def with_zeros(avals: Sequence[ShapedArray], flags: Flags, given: Sequence[Any]) -> list[Any]:
    """A tangent for each type: given where flagged, else known to be zero."""
    return merge(flags, [Zero(tangent_aval(a)) for a in split(flags, avals)[0]], given)


@cond_p.rule("jvp")
def _(primals: Any, tangents: Any, *, branches: Branches) -> Any:
    index, *operands = primals
    has = nonzero(tangents[1:])
    both, consts, flags = transformed(branches, jvp_jaxpr, has)
    moving = split(has, tangents[1:])[1]
    results = cond_p.bind(index, *consts, *operands, *moving, branches=both)
    avals = branches[0].out_avals
    return results[: len(avals)], with_zeros(avals, flags, results[len(avals) :])


@cond_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, branches: Branches) -> Any:
    if dims[0] is not None:
        return _batched_choice(size, args, dims, branches)
    batched = tuple(dim is not None for dim in dims[1:])
    whole, consts, flags = transformed(branches, batch_jaxpr, size, batched)
    operands = fronts(size, args[1:], dims[1:])
    results = cond_p.bind(args[0], *consts, *operands, branches=whole)
    return results, [0 if has else None for has in flags]


def fronts(size: int, args: Sequence[Any], dims: Sequence[Dim]) -> list[Any]:
    """The arguments, those that hold all examples along their first axis."""
    pairs = zip(args, dims, strict=True)
    return [x if dim is None else to_front(size, x, dim) for x, dim in pairs]


def _batched_choice(size: int, args: Any, dims: Any, branches: Branches) -> Any:
    """Where examples choose differently, all branches run, and each example takes its own.

    A branch that an example did not choose must not spoil its gradient (0 * inf is nan): what it
    works on has no derivative there.
    """
    index, *operands = (to_front(size, x, dim) for x, dim in zip(args, dims, strict=True))
    outs = []
    for number, branch in enumerate(branches):
        mine = eq_p.bind(index, np.int32(number))
        own = [_selected(mine, stop_gradient_p.bind(x), x) for x in operands]
        results, out = batch_flat(as_function(branch), size, own, [0] * len(own), mapped_axis())
        outs.append([to_front(size, x, dim) for x, dim in zip(results, out, strict=True)])
    chosen = [_selected(index, *cases) for cases in zip(*outs, strict=True)]
    return chosen, [0] * len(chosen)


def _selected(which: Any, *cases: Any) -> Any:
    """For each example the case that it says."""
    shape = aval_of(cases[0]).shape
    return select_n_p.bind(broadcast_in_dim(which, shape, range(aval_of(which).ndim)), *cases)


@kept
def _partial_of(
    branches: Branches, unknown: tuple[bool, ...]
) -> tuple[Branches, list[Any], Branches, list[bool]]:
    """The branches split in two; residuals of equal type of two branches share a place."""
    found, flags = _agreed(lambda branch, force: partial_jaxpr(branch, unknown, force), branches)
    count = flags.count(False)
    slots: list[ShapedArray] = []
    now, later = [], []
    places = [_placed(known.out_avals[count:], slots) for known, *_ in found]
    for (known, rest, _), own in zip(found, places, strict=True):
        now.append(trace(_filled(known, count, own, slots), known.in_avals))
        params = list(map(Var, slots))
        for place, var in zip(own, rest.jaxpr.invars, strict=False):
            params[place] = var
        params += rest.jaxpr.invars[len(own) :]
        later.append(ClosedJaxpr(Jaxpr([], params, rest.jaxpr.outvars, rest.eqns), []))
    return *_together(list(map(hoisted, now))), tuple(later), flags


def _placed(types: Sequence[ShapedArray], slots: list[ShapedArray]) -> list[int]:
    """For each type a slot of that type that no other one has; new slots where there is none."""
    free, places = list(range(len(slots))), []
    for aval in types:
        place = next((i for i in free if slots[i] is aval), None)
        if place is None:
            place = len(slots)
            slots.append(aval)
        else:
            free.remove(place)
        places.append(place)
    return places


def _filled(
    known: ClosedJaxpr, count: int, own: list[int], slots: list[ShapedArray]
) -> Callable[..., list[Any]]:
    """The known half of a branch, which gives zeros for residuals that only others have."""

    def filled(*args: Any) -> list[Any]:
        results = as_function(known)(*args)
        mine = dict(zip(own, results[count:], strict=True))
        zeros = (
            instantiate(Zero(aval)) if i not in mine else mine[i] for i, aval in enumerate(slots)
        )
        return [*results[:count], *zeros]

    return filled


@cond_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    index, *operands = args
    if interpreter.unknown(index):
        found: list[Any] = Staging.process(interpreter, cond_p, args, params)
        return found
    unknown = tuple(map(interpreter.unknown, operands))
    now, consts, later, flags = _partial_of(params["branches"], unknown)
    known, waiting = split(unknown, operands)
    with interpreting(interpreter.parent):
        has_results = any(branch.jaxpr.outvars for branch in now)
        results = cond_p.bind(index, *consts, *known, branches=now) if has_results else []
    count = flags.count(False)
    operands = [index, *results[count:], *waiting]
    own = {"branches": later}
    rest = Staging.process(interpreter, cond_p, operands, own) if any(flags) else []
    return merge(flags, results[:count], rest)


@cond_p.rule("transpose")
def _(cts: Any, index: Any, *operands: Any, branches: Branches) -> list[Any]:
    linear = tuple(type(x) is Linear for x in operands)
    has = nonzero(cts)
    back, consts, flags = transformed(branches, transpose_jaxpr, linear, has)
    known, moving = split(linear, operands)[0], split(has, cts)[1]
    found = cond_p.bind(index, *consts, *known, *moving, branches=back)
    given = merge(flags, [None] * flags.count(False), found)
    return [None, *merge(linear, [None] * len(known), given)]
