"""Arithmetic: primitives that do one thing to each element.

Each is a line or two: its StableHLO op, the dtypes that it takes, and its derivative by each
argument, written with the primitives themselves, so that it can be differentiated again. In a
derivative `t` is the tangent, `z` the result, `x` and `y` the arguments. With these primitives
the derivatives of the others, in `functions.py`, are written.

The derivatives are those of "Evaluating Derivatives" (Griewank and Walther, 2008), table 2.3;
those of complex numbers are without conjugation, as JAX has them.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, canonical, is_inexact
from jaxlens.core.primitives.elementwise_rules import add_any_p as add_any_p
from jaxlens.core.primitives.elementwise_rules import elementwise, kind, summed, terms
from jaxlens.core.primitives.shapes import (
    broadcast_in_dim,
    examples_first,
    flat,
    fronts,
    full,
    moveaxis,
)
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive, Zero

# Kinds of dtype (NumPy's letters) that an op takes.
_NUMBER, _INT, _ORDERED, _ANY, _BITS = "iufc", "iu", "biuf", "biufc", "biu"


@cache
def _number(value: float, dtype: np.dtype) -> Any:
    return np.asarray(value).astype(dtype)[()]


def like(x: Any, value: float) -> Any:
    """A number of the dtype of `x`, which stands in the equation as it is."""
    return _number(value, aval_of(x).dtype)


def full_like(x: Any, value: float) -> Any:
    """An array of one number, of the shape and dtype of `x`."""
    aval = aval_of(x)
    return full(aval.shape, value, aval.dtype)


def where(which: Any, yes: Any, no: Any) -> Any:
    """`yes` where `which` holds, `no` elsewhere."""
    return select_n_p.bind(which, no, yes)


# ---- arithmetic ---------------------------------------------------------------------------------


def _mul_transpose(ct: Any, x: Any, y: Any) -> Any:
    if type(x) is Linear:
        return [summed(mul(ct, y), x), None]
    return [None, summed(mul(x, ct), y)]


neg_p: Primitive = elementwise(
    "neg", hlo.negate, _NUMBER,
    lambda t, z, x: neg_p.bind(t), transpose=lambda ct, x: [neg_p.bind(ct)],
)  # fmt: skip
add_p, sub_p = elementwise("add", hlo.add, _NUMBER), elementwise("sub", hlo.subtract, _NUMBER)
mul_p: Primitive = elementwise(
    "mul", hlo.multiply, _NUMBER,
    lambda t, z, x, y: mul_p.bind(t, y), lambda t, z, x, y: mul_p.bind(x, t),
    transpose=_mul_transpose,
)  # fmt: skip
neg, add, sub, mul = neg_p.bind, add_p.bind, sub_p.bind, mul_p.bind
div_p: Primitive = elementwise(
    "div", hlo.divide, _NUMBER,
    lambda t, z, x, y: div_p.bind(t, y), lambda t, z, x, y: mul(mul(neg(t), x), integer_pow(y, -2)),
    transpose=lambda ct, x, y: [summed(div_p.bind(ct, y), x), None],
)  # fmt: skip
div = div_p.bind
terms(add_p, lambda t: t)
terms(sub_p, neg)

# ---- whole powers -------------------------------------------------------------------------------

square_p = elementwise(
    "square", lambda x: hlo.multiply(x, x), _NUMBER, lambda t, z, x: mul(t, mul(like(x, 2), x))
)
square = square_p.bind


def _power_slope(t: Any, z: Any, x: Any, y: int) -> Any:
    if y in (0, 1):
        return t if y else full_like(z, 0)
    return mul(t, mul(like(x, y), x if y == 2 else integer_pow(x, y - 1)))


integer_pow_p = elementwise("integer_pow", hlo.power, _NUMBER, _power_slope)


@integer_pow_p.rule("lower")
def _(ctx: Any, x: Any, *, y: int) -> Any:
    one = ctx.constant(np.ones(ctx.out.shape), ctx.out)
    found, left = one, abs(y)
    while left:  # x, x**2, x**4 ...: those where the binary digits of y are 1
        if left & 1:
            found = x if found is one else hlo.multiply(found, x)
        left >>= 1
        x = hlo.multiply(x, x) if left else x
    return found if y >= 0 else hlo.divide(one, found)


def integer_pow(x: Any, y: int) -> Any:
    """`x` to the power of a Python integer."""
    if y < 0 and not is_inexact(aval_of(x).dtype):
        raise TypeError(
            f"integer_pow: integers cannot be raised to negative powers, got "
            f"{aval_of(x).str_short()} to the power of {y}: convert it to a float."
        )
    return integer_pow_p.bind(x, y=y)


# ---- comparisons and bits -----------------------------------------------------------------------


def _comparison(name: str, takes: str) -> Primitive:
    def lower(ctx: Any, x: Any, y: Any) -> Any:
        return ctx.compare(name.upper(), *ctx.same_shape(x, y), order(ctx.avals_in[0].dtype))

    primitive = elementwise(name, hlo.compare, takes, gives=lambda _: np.dtype(bool))
    primitive.lower = lower
    return primitive


def order(dtype: np.dtype) -> str:
    """How StableHLO compares elements of a dtype."""
    return {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED"}.get(kind(dtype), "UNSIGNED")


eq_p, ne_p = _comparison("eq", _ANY), _comparison("ne", _ANY)
lt_p, le_p = _comparison("lt", _ORDERED), _comparison("le", _ORDERED)
gt_p, ge_p = _comparison("gt", _ORDERED), _comparison("ge", _ORDERED)
eq, lt, gt, ge = eq_p.bind, lt_p.bind, gt_p.bind, ge_p.bind

and_p, or_p = elementwise("and", hlo.and_, _BITS), elementwise("or", hlo.or_, _BITS)
xor_p, not_p = elementwise("xor", hlo.xor, _BITS), elementwise("not", hlo.not_, _BITS)
shift_left_p = elementwise("shift_left", hlo.shift_left, _INT)
shift_right_logical_p = elementwise("shift_right_logical", hlo.shift_right_logical, _INT)
shift_right_arithmetic_p = elementwise("shift_right_arithmetic", hlo.shift_right_arithmetic, _INT)

bitcast_convert_type_p = Primitive(  # the same bits, read otherwise
    "bitcast_convert_type",
    lower=lambda ctx, x, *, new_dtype: hlo.bitcast_convert(ctx.type(ctx.out), x),
)
bitcast_convert_type_p.jvp = flat(bitcast_convert_type_p)
bitcast_convert_type_p.batch = examples_first(bitcast_convert_type_p, lambda size, **same: same)


@bitcast_convert_type_p.rule("abstract")
def _(x: ShapedArray, *, new_dtype: np.dtype) -> ShapedArray:
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old > new:
        return ShapedArray((*x.shape, old // new), new_dtype)
    if old < new and x.shape[-1:] != (new // old,):
        raise TypeError(
            f"bitcast_convert_type: {x.str_short()} has no last axis of length {new // old}, so "
            f"its bits make no {new_dtype.name}."
        )
    return ShapedArray(x.shape[: x.ndim - (old < new)], new_dtype)


def bitcast_convert_type(x: Any, dtype: Any) -> Any:
    """The bits of `x` as elements of another dtype."""
    return bitcast_convert_type_p.bind(x, new_dtype=canonical(dtype))


# ---- choices ------------------------------------------------------------------------------------

select_n_p = Primitive("select_n")  # cases[which]; False is 0
select_n = select_n_p.bind


@select_n_p.rule("abstract")
def _(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    chooses = which.dtype == np.int32 or (which.dtype == np.bool_ and len(cases) == 2)
    types = {(case.shape, case.dtype) for case in cases}
    if not chooses or len(types) != 1 or which.shape not in ((), cases[0].shape):
        raise TypeError(
            f"select_n: `which` must be bool with two cases or int32, the cases must have one "
            f"shape and dtype, and `which` that shape or none, got {which.str_short()} with cases "
            f"{', '.join(case.str_short() for case in cases)}."
        )
    return cases[0].update(weak_type=all(case.weak_type for case in cases))


@select_n_p.rule("lower")
def _(ctx: Any, which: Any, *cases: Any) -> Any:
    aval = ctx.avals_in[0]
    if aval.dtype == np.bool_:
        return hlo.select(which, cases[1], cases[0])
    found = cases[0]
    for number, case in enumerate(cases[1:], 1):
        later = ctx.compare("GE", which, ctx.constant(np.full(aval.shape, number), aval), "SIGNED")
        found = hlo.select(later, case, found)
    return found


@select_n_p.rule("jvp")
def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    result = select_n(*primals)
    zeros = full_like(result, 0)
    moving = [zeros if type(tangent) is Zero else tangent for tangent in tangents[1:]]
    return result, select_n(primals[0], *moving)


@select_n_p.rule("transpose")
def _(ct: Any, which: Any, *cases: Any) -> list[Any]:
    zeros = full_like(ct, 0)
    found: list[Any] = [None]
    for number, case in enumerate(cases):
        parts = [ct if other == number else zeros for other in range(len(cases))]
        found.append(select_n(which, *parts) if type(case) is Linear else None)
    return found


@select_n_p.rule("batch")
def _(size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    (which, *cases), (dim, *places) = args, dims
    whole = aval_of(which).ndim == aval_of(cases[0]).ndim
    shared = dim is None and not aval_of(which).shape
    if len(set(places)) == 1 and (shared or (whole and dim == places[0])):
        return select_n(*args), places[0]
    found = fronts(size, cases, places)
    if shared:
        return select_n(which, *found), 0
    shape = aval_of(found[0]).shape
    axes = range(aval_of(which).ndim) if dim is not None else range(1, len(shape))
    front = which if dim is None else moveaxis(which, dim, 0)
    return select_n(broadcast_in_dim(front, shape, axes), *found), 0
