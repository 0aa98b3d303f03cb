"""Combining many elements by any associative function: `reduce`, `associative_scan`.

Where (a . b) . c is a . (b . c), the order of the work is free, and a tree takes a logarithm of the
steps that a loop takes. `reduce` leaves the order to XLA: the function becomes the body of its op.
`associative_scan` gives all the partial results: combine neighbours, solve the half as long
problem, and combine once more for the places between.

After "Prefix Sums and Their Applications" (Blelloch, 1990) and StableHLO's `reduce`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.batching import batch_flat, to_front
from jaxlens.core.calls import cut, same_type
from jaxlens.core.forward import jvp_flat
from jaxlens.core.jaxprs import ClosedJaxpr
from jaxlens.core.primitives.contractions import (
    highest,
    lowest,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
)
from jaxlens.core.primitives.elementwise import add_p, like, or_p
from jaxlens.core.primitives.pieces import concatenate, pad, rev, slice_in_axis
from jaxlens.core.primitives.shapes import (
    broadcast_in_dim,
    i64s,
    others,
    reduce_sum,
    reshape,
    transpose,
)
from jaxlens.core.staging import as_function, aval_of, traced
from jaxlens.core.tracers import Primitive, Value
from jaxlens.core.trees import flatten_like, tree_flatten

reduce_p = Primitive("reduce", multiple_results=True)
Numbers = tuple[int, ...]

# ---- reduce -------------------------------------------------------------------------------------


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
) -> Any:
    """Combines all elements along axes, in any order.

    Args:
        operands: A pytree of arrays of one shape.
        init_values: A tree like it of scalars: what combining with changes nothing.
        computation: An associative function of two such trees of scalars.
        dimensions: The axes, which disappear.
    """
    leaves, tree = tree_flatten(operands)
    inits = flatten_like(tree, init_values, "reduce: init_values")
    shapes = {aval_of(leaf).shape for leaf in leaves}
    if len(shapes) != 1:
        raise TypeError(f"reduce: the operands must have one shape, got {sorted(shapes)}.")
    ndim = len(*shapes)
    axes = tuple(sorted(int(axis) + ndim * (axis < 0) for axis in dimensions))
    if len(set(axes)) != len(axes) or not all(0 <= axis < ndim for axis in axes):
        raise ValueError(f"reduce: dimensions must be different axes of {ndim}, got {dimensions}.")
    scalars = tree.unflatten(aval_of(leaf).update(shape=(), weak_type=False) for leaf in leaves)
    body = traced(computation, (scalars, scalars), {})
    for leaf, init, out in zip(leaves, inits, body.jaxpr.out_avals, strict=True):
        wanted = aval_of(leaf).update(shape=())
        if not same_type(wanted, aval_of(init)) or not same_type(wanted, out):
            raise TypeError(
                f"reduce: init_values and computation must give {wanted.str_short()} for an "
                f"operand of {aval_of(leaf).str_short()}, got {aval_of(init).str_short()} and "
                f"{out.str_short()}."
            )
    if body.consts:
        raise NotImplementedError(
            "reduce: the computation takes an array from outside, which StableHLO's reduce does "
            "not allow: let it depend on its two arguments only."
        )
    found = _known(body.jaxpr, leaves, inits, axes)
    if found is None:
        found = reduce_p.bind(*leaves, *inits, jaxpr=body.jaxpr, dimensions=axes)
    return body.out_tree.unflatten(found)


_KNOWN: dict[str, tuple[Callable[[np.dtype], Any], Callable[..., Any]]] = {
    "add": (lambda _: 0, reduce_sum),
    "max": (lowest, reduce_max),
    "min": (highest, reduce_min),
    "and": (lambda dtype: ~np.zeros((), dtype), reduce_and),
    "or": (lambda _: 0, reduce_or),
}


def _known(
    closed: ClosedJaxpr, leaves: Sequence[Any], inits: Sequence[Any], axes: Numbers
) -> list[Any] | None:
    """A reduction that has a primitive, with derivatives, of its own."""
    if len(leaves) != 1 or len(closed.eqns) != 1 or isinstance(inits[0], Value):
        return None
    eqn = closed.eqns[0]
    start, function = _KNOWN.get(eqn.primitive.name, (None, None))
    of_both = list(eqn.invars) == list(closed.jaxpr.invars) and closed.jaxpr.outvars == eqn.outvars
    if function is None or start is None or not of_both:
        return None
    return [function(leaves[0], axes)] if inits[0] == start(aval_of(leaves[0]).dtype) else None


@reduce_p.rule("abstract")
def _(*avals: ShapedArray, jaxpr: ClosedJaxpr, dimensions: Numbers) -> list[ShapedArray]:
    operands = avals[: len(avals) // 2]
    kept = others(operands[0].ndim, dimensions)
    return [aval.update(shape=tuple(aval.shape[axis] for axis in kept)) for aval in operands]


@reduce_p.rule("lower")
def _(ctx: Any, *operands: Any, jaxpr: ClosedJaxpr, dimensions: Numbers) -> list[Any]:
    arrays, inits = cut(operands, len(operands) // 2)
    op = hlo.ReduceOp(list(map(ctx.type, ctx.avals_out)), arrays, inits, i64s(dimensions))
    with ir.InsertionPoint(op.body.blocks.append(*(x.type for x in inits * 2))) as here:
        hlo.return_(ctx.inline(jaxpr, *here.block.arguments))
    return list(op.results)


def _tree(*args: Any, jaxpr: ClosedJaxpr, dimensions: Numbers) -> list[Any]:
    """The same combination by halves, of primitives that have derivatives."""
    arrays, inits = cut(args, len(args) // 2)
    shape = aval_of(arrays[0]).shape
    kept = others(len(shape), dimensions)
    rest = tuple(shape[axis] for axis in kept)
    size = int(np.prod(rest, dtype=int))
    count = int(np.prod([shape[axis] for axis in dimensions], dtype=int))
    rows = [reshape(transpose(x, [*dimensions, *kept]), (count, size)) for x in arrays]
    rows = [
        concatenate([reshape(_filled(x, size), (1, size)), row], 0)
        for x, row in zip(inits, rows, strict=True)
    ]
    count += 1
    while count > 1:
        half = count // 2
        first = [slice_in_axis(x, 0, 0, half) for x in rows]
        second = [slice_in_axis(x, 0, half, 2 * half) for x in rows]
        pairs = [reshape(x, (half * size,)) for x in (*first, *second)]
        found, dims = batch_flat(as_function(jaxpr), half * size, pairs, [0] * len(pairs))
        found = [to_front(half * size, x, dim) for x, dim in zip(found, dims, strict=True)]
        found = [reshape(x, (half, size)) for x in found]
        last = [slice_in_axis(x, 0, 2 * half, count) for x in rows]
        rows = [
            concatenate(pair, 0) if count % 2 else pair[0] for pair in zip(found, last, strict=True)
        ]
        count -= half
    return [reshape(x, rest) for x in rows]


def _filled(scalar: Any, size: int) -> Any:
    return broadcast_in_dim(scalar, (size,), ())


@reduce_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    return jvp_flat(lambda *args: _tree(*args, **params), primals, tangents)


@reduce_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, dimensions: Numbers) -> Any:
    half = len(args) // 2
    if any(dim is not None for dim in dims[half:]):
        return batch_flat(
            lambda *xs: _tree(*xs, jaxpr=jaxpr, dimensions=dimensions), size, args, dims
        )
    fronts = [to_front(size, x, dim) for x, dim in zip(args[:half], dims[:half], strict=True)]
    moved = tuple(axis + 1 for axis in dimensions)
    results = reduce_p.bind(*fronts, *args[half:], jaxpr=jaxpr, dimensions=moved)
    return results, [0] * half


# ---- associative_scan ---------------------------------------------------------------------------


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """The combinations of the first element, the first two, the first three, and so on.

    Args:
        fn: An associative function of two trees like `elems`, applied to many pairs at once.
        elems: A pytree of arrays with equally long axes `axis`.
        reverse: Whether to begin at the end.
        axis: Along which axis.
    """
    leaves, tree = tree_flatten(elems)
    axes = [axis % max(aval_of(leaf).ndim, 1) for leaf in leaves]
    sizes = {aval_of(leaf).shape[place] for leaf, place in zip(leaves, axes, strict=True)}
    if len(sizes) != 1:
        raise ValueError(
            f"associative_scan: axis {axis} must be equally long in all arrays, got lengths "
            f"{sorted(sizes)}."
        )

    def combine(first: list[Any], second: list[Any]) -> list[Any]:
        found, got = tree_flatten(fn(tree.unflatten(first), tree.unflatten(second)))
        if got != tree:
            raise TypeError(f"associative_scan: fn must return the containers {tree}, got {got}.")
        return found

    flip = [rev(x, [place]) for x, place in zip(leaves, axes, strict=True)] if reverse else leaves
    found = _prefixes(combine, flip, axes)
    if reverse:
        found = [rev(x, [place]) for x, place in zip(found, axes, strict=True)]
    return tree.unflatten(found)


def _prefixes(combine: Callable[..., list[Any]], xs: list[Any], axes: list[int]) -> list[Any]:
    n = aval_of(xs[0]).shape[axes[0]]
    if n < 2:
        return xs

    def part(arrays: list[Any], *place: int) -> list[Any]:
        return [slice_in_axis(x, axis, *place) for x, axis in zip(arrays, axes, strict=True)]

    odd = _prefixes(combine, combine(part(xs, 0, n - 1, 2), part(xs, 1, n, 2)), axes)
    even = combine(odd if n % 2 else part(odd, 0, n // 2 - 1), part(xs, 2, n, 2))
    triples = zip(xs, even, axes, strict=True)
    even = [concatenate([slice_in_axis(x, axis, 0, 1), y], axis) for x, y, axis in triples]
    return [_woven(*each, n) for each in zip(even, odd, axes, strict=True)]


def _woven(even: Any, odd: Any, axis: int, n: int) -> Any:
    """Elements in turns from one and from the other."""

    def spaced(x: Any, before: int, after: int) -> Any:
        config = [(0, 0, 0)] * aval_of(x).ndim
        config[axis] = (before, after, 1)
        return pad(x, like(x, 0), config)

    both = spaced(even, 0, 1 - n % 2), spaced(odd, 1, n % 2)
    return (or_p if aval_of(even).dtype == np.bool_ else add_p).bind(*both)
