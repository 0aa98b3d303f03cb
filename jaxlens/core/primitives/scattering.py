"""Writing many slices at once: scatter, and adding, multiplying or comparing in place.

A scatter puts slices into an array, one for each row of an array of integers, which says where. It
undoes a gather: the transpose of reading is adding at the same places, and the transpose of adding
is reading there. Where two slices overlap, sums do not depend on the order; "set" keeps one of
them, and its derivative has to find out which.

The meaning is that of the op in the StableHLO specification.
"""

from functools import cache, partial
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.jaxprs import ClosedJaxpr
from jaxlens.core.primitives.elementwise import (
    add_any_p,
    add_p,
    div_p,
    eq_p,
    mul_p,
    neg_p,
    select_n_p,
    sub_p,
)
from jaxlens.core.primitives.functions import clamp_p, max_p, min_p
from jaxlens.core.primitives.gathering import (
    GatherDimensionNumbers,
    GatherScatterMode,
    Numbers,
    ScatterDimensionNumbers,
    gather,
    gather_p,
    last_place,
    later,
    rowwise,
)
from jaxlens.core.primitives.shapes import broadcast_leading, dense, full, iota, moveaxis, reshape
from jaxlens.core.staging import aval_of, trace
from jaxlens.core.tracers import Linear, Primitive, Zero


@cache
def _combining(primitive: Primitive, dtype: np.dtype) -> ClosedJaxpr:
    """How an element and its update become the new element, as a jaxpr."""
    scalar = ShapedArray((), dtype)
    return trace(lambda old, new: [primitive.bind(old, new)], [scalar, scalar])


def scatter(
    kind: str,
    x: Any,
    indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    mode: GatherScatterMode = GatherScatterMode.FILL_OR_DROP,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    """The array with slices of it replaced by updates, or combined with them.

    Args:
        kind: "set", "add", "sub", "mul", "min" or "max".
        x: The array.
        indices: A row of numbers for each slice, along the last axis.
        updates: The slices.
        dimension_numbers: Which axis is which.
        mode: What happens outside the array.
        indices_are_sorted: A promise that XLA may use.
        unique_indices: A promise that no two slices overlap; without it "set" keeps any of them,
            and "mul" has no derivative.
    """
    primitive, by = _SCATTERS[kind]
    return primitive.bind(
        x, indices, updates, dimension_numbers=dimension_numbers,
        indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode,
        update_jaxpr=None if by is None else _combining(by, aval_of(x).dtype),
    )  # fmt: skip


def _scatter_abstract(
    x: ShapedArray, indices: ShapedArray, updates: ShapedArray, *, dimension_numbers: Any, **_: Any
) -> ShapedArray:
    numbers: ScatterDimensionNumbers = dimension_numbers
    if indices.dtype.kind not in "iu" or updates.dtype != x.dtype:
        raise TypeError(
            f"scatter: indices must be integers and updates of the array's dtype {x.dtype.name}, "
            f"got {indices.str_short()} and {updates.str_short()}."
        )
    window = numbers.update_window_dims
    rows = tuple(n for axis, n in enumerate(updates.shape) if axis not in window)
    sizes = _window(numbers, x.ndim, updates.shape)
    if rows != indices.shape[:-1] or any(s > n for s, n in zip(sizes, x.shape, strict=True)):
        raise TypeError(
            f"scatter: updates {updates.str_short()} do not fit the array {x.str_short()} and the "
            f"indices {indices.str_short()}."
        )
    return x


def _window(numbers: ScatterDimensionNumbers, ndim: int, updates: Numbers) -> Numbers:
    """The sizes of the slice that one update replaces."""
    dropped = numbers.inserted_window_dims + numbers.operand_batching_dims
    window = iter(numbers.update_window_dims)
    return tuple(1 if axis in dropped else updates[next(window)] for axis in range(ndim))


def _scatter_lower(
    ctx: Any, x: Any, indices: Any, updates: Any, *, dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool, unique_indices: bool, mode: Any, update_jaxpr: ClosedJaxpr | None,
) -> Any:  # fmt: skip
    numbers, (old, rows, new) = dimension_numbers, ctx.avals_in
    if mode is GatherScatterMode.CLIP:
        sizes = _window(numbers, old.ndim, new.shape)
        last = last_place(old, numbers.scatter_dims_to_operand_dims, sizes, rows.dtype)
        first = rows.dtype.type(0)
        whole = trace(lambda i: [clamp_p.bind(first, i, rowwise(last, i))], [rows])
        indices = ctx.inline(whole, indices)[0]
    attribute = hlo.ScatterDimensionNumbers.get(
        list(numbers.update_window_dims), list(numbers.inserted_window_dims),
        list(numbers.operand_batching_dims), list(numbers.scatter_indices_batching_dims),
        list(numbers.scatter_dims_to_operand_dims), rows.ndim - 1,
    )  # fmt: skip
    op = hlo.ScatterOp(
        [ctx.type(ctx.out)], [x], indices, [updates], attribute,
        indices_are_sorted=ir.BoolAttr.get(indices_are_sorted),
        unique_indices=ir.BoolAttr.get(unique_indices),
    )  # fmt: skip
    scalar = ctx.type(ShapedArray((), old.dtype))
    block = op.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        both = block.arguments
        hlo.return_(ctx.inline(update_jaxpr, *both) if update_jaxpr else [both[1]])
    return op.results[0]


def _scatter_batch(
    primitive: Primitive, size: int, args: Any, dims: Any, *, dimension_numbers: Any, **params: Any
) -> Any:
    x, updates = (
        broadcast_leading(a, size) if d is None else moveaxis(a, d, 0)
        for a, d in ((args[0], dims[0]), (args[2], dims[2]))
    )
    window, inserted, to, own, batched = dimension_numbers
    window, own = later(window), later(own)
    if dims[1] is None:
        indices, window = args[1], (0, *window)
    else:
        indices = moveaxis(args[1], dims[1], 0)
        own, batched = (0, *own), (0, *later(batched))
    numbers = ScatterDimensionNumbers(window, later(inserted), later(to), own, batched)
    return primitive.bind(x, indices, updates, dimension_numbers=numbers, **params), 0


def _scatter(name: str, by: Primitive | None) -> tuple[Primitive, Primitive | None]:
    primitive = Primitive(name, abstract=_scatter_abstract, lower=_scatter_lower)
    primitive.batch = partial(_scatter_batch, primitive)
    return primitive, by


_SCATTERS = {
    "set": _scatter("scatter", None),
    "add": _scatter("scatter-add", add_p),
    "sub": _scatter("scatter-sub", sub_p),
    "mul": _scatter("scatter-mul", mul_p),
    "min": _scatter("scatter-min", min_p),
    "max": _scatter("scatter-max", max_p),
}

# ---- derivatives --------------------------------------------------------------------------------


@gather_p.rule("transpose")
def _(
    ct: Any, x: Linear, indices: Any, *, dimension_numbers: GatherDimensionNumbers, mode: Any,
    indices_are_sorted: bool, unique_indices: bool, **_: Any,
) -> list[Any]:  # fmt: skip
    zeros = full(x.aval.shape, 0, x.aval.dtype)
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    flags = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices}
    return [scatter("add", zeros, indices, ct, numbers, mode=mode, **flags), None]


def _read(
    x: Any, indices: Any, updates: Numbers, numbers: ScatterDimensionNumbers, **mode: Any
) -> Any:
    """What stands where a scatter writes updates of this shape."""
    sizes = _window(numbers, aval_of(x).ndim, updates)
    return gather(x, indices, GatherDimensionNumbers(*numbers), sizes, **mode)


def _linear_jvp(primitive: Primitive, primals: Any, tangents: Any, **params: Any) -> Any:
    result = primitive.bind(*primals, **params)
    old, new = dense(tangents[0]), dense(tangents[2])
    return result, primitive.bind(old, primals[1], new, **params)


def _linear_transpose(
    kind: str, ct: Any, x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any,
    **params: Any,
) -> list[Any]:  # fmt: skip
    """Of "set" where no two slices overlap, "add" and "sub"."""
    old, new = ct if type(x) is Linear else None, None
    shape = (updates.aval if type(updates) is Linear else aval_of(updates)).shape
    if type(x) is Linear and kind == "set":
        zeros = full(shape, 0, ct.dtype)
        params |= {"dimension_numbers": dimension_numbers, "mode": mode}
        old = _SCATTERS["set"][0].bind(ct, indices, zeros, **params)
    if type(updates) is Linear:
        new = _read(ct, indices, shape, dimension_numbers, mode=mode, fill_value=0)
        new = neg_p.bind(new) if kind == "sub" else new
    return [old, None, new]


for _kind in ("set", "add", "sub"):
    _primitive = _SCATTERS[_kind][0]
    _primitive.jvp = partial(_linear_jvp, _primitive)
    _primitive.transpose = partial(_linear_transpose, _kind)

scatter_p, _mul_p = _SCATTERS["set"][0], _SCATTERS["mul"][0]


@scatter_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    tangents = [dense(tangents[0]), None, dense(tangents[2])]
    if params["unique_indices"]:
        return _linear_jvp(scatter_p, primals, tangents, **params)
    # Write the number of each update, see which one stayed, and add those only.
    (x, indices, updates), numbers = primals, params["dimension_numbers"]
    shape = aval_of(updates).shape
    window = numbers.update_window_dims
    rows = [1 if axis in window else n for axis, n in enumerate(shape)]
    count = iota(np.uint32, (int(np.prod(rows)),))
    ids = add_p.bind(reshape(count, rows), full(shape, 1, np.uint32))
    written = scatter_p.bind(full(aval_of(x).shape, 0, np.uint32), indices, ids, **params)
    stayed = _read(written, indices, shape, numbers)

    def summed(old: Any, new: Any) -> Any:
        kept = _zero_unless(eq_p.bind(written, full(aval_of(x).shape, 0, np.uint32)), old)
        added = _zero_unless(eq_p.bind(ids, stayed), new)
        return kept, added

    now, moving = summed(x, updates), summed(tangents[0], tangents[2])
    flags = {name: params[name] for name in ("mode", "indices_are_sorted", "unique_indices")}
    values = (scatter("add", a, indices, b, numbers, **flags) for a, b in (now, moving))
    return tuple(values)


def _zero_unless(keep: Any, x: Any) -> Any:
    return select_n_p.bind(keep, full(aval_of(x).shape, 0, aval_of(x).dtype), x)


@_mul_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    x, indices, updates = primals
    result = _mul_p.bind(x, indices, updates, **params)
    parts = []
    if type(tangents[0]) is not Zero:
        parts.append(_mul_p.bind(tangents[0], indices, updates, **params))
    if type(tangents[2]) is not Zero:
        if not params["unique_indices"]:
            raise NotImplementedError(
                "scatter-mul has a derivative by its updates only with unique_indices=True: pass "
                "it to x.at[...].multiply if no two indices are equal."
            )
        zeros = full(aval_of(x).shape, 0, aval_of(x).dtype)
        flags = {name: value for name, value in params.items() if name != "update_jaxpr"}
        added = scatter("add", zeros, indices, tangents[2], flags.pop("dimension_numbers"), **flags)
        parts.append(mul_p.bind(x, added))
    return result, parts[0] if len(parts) == 1 else add_any_p.bind(*parts)


@_mul_p.rule("transpose")
def _(ct: Any, x: Linear, indices: Any, updates: Any, **params: Any) -> list[Any]:
    return [_mul_p.bind(ct, indices, updates, **params), None, None]


def _extremum_jvp(primitive: Primitive, primals: Any, tangents: Any, **params: Any) -> Any:
    """Of "min" and "max": the winners at a place share its tangent; the old value may be one."""
    (x, indices, updates), numbers = primals, params["dimension_numbers"]
    result = primitive.bind(*primals, **params)
    shape, dtype = aval_of(updates).shape, aval_of(x).dtype
    flags = {name: params[name] for name in ("mode", "indices_are_sorted", "unique_indices")}

    def read(array: Any) -> Any:
        return _read(array, indices, shape, numbers)

    def added(old: Any, new: Any) -> Any:
        return scatter("add", old, indices, new, numbers, **flags)

    old, now = read(x), read(result)
    is_new, is_old = eq_p.bind(updates, now), eq_p.bind(old, now)
    one, zeros = dtype.type(1), full(shape, 0, dtype)
    nothing = full(aval_of(x).shape, 0, dtype)
    winners = read(added(nothing, select_n_p.bind(is_new, zeros, full(shape, 1, dtype))))
    named = read(added(nothing, full(shape, 1, dtype)))
    share = div_p.bind(one, add_p.bind(winners, one))
    by_new = select_n_p.bind(is_old, div_p.bind(one, winners), share)
    by_new = select_n_p.bind(is_new, zeros, by_new)
    lost = add_p.bind(dtype.type(-1), select_n_p.bind(is_old, zeros, share))
    by_old = div_p.bind(lost, named)
    moving, new = dense(tangents[0]), dense(tangents[2])
    return result, added(
        moving, add_p.bind(mul_p.bind(read(moving), by_old), mul_p.bind(new, by_new))
    )


for _kind in ("min", "max"):
    _primitive = _SCATTERS[_kind][0]
    _primitive.jvp = partial(_extremum_jvp, _primitive)
