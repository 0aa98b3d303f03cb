"""Arithmetic: primitives that do one thing to each element.

They share all their rules: one shape in and out, and one batching rule, which lines the examples up
and applies the same primitive. A scalar may stand beside an array, and an axis of length 1 beside a
longer one: the lowering repeats them, the transpose sums. What tells two of them apart is a line or
two: the StableHLO op, the dtypes, and the derivative by each argument, written with the primitives
themselves, so that it can be differentiated again. In a derivative `t` is the tangent, `z` the
result, `x` and `y` the arguments. With these primitives those in `functions.py` are written.

The derivatives are those of "Evaluating Derivatives" (Griewank and Walther, 2008), chapter 3 and
table 2.3; those of complex numbers are without conjugation, as JAX has them.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import Linear, Zero
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.types import ShapedArray, is_inexact, kind
from jaxlens.core.transforms import rules
from jaxlens.core.transforms.rules import spread

# Kinds of dtype (NumPy's letters) that an op takes.
_KINDS = {"b": "bool", "i": "integer", "u": "unsigned", "f": "floating", "c": "complex"}
_NUMBER, _ORDERED, _ANY, _BITS = "iufc", "biuf", "biufc", "biu"


def accept(name: str, dtype: np.dtype, takes: str) -> None:
    """Raises unless a primitive takes a dtype; `takes` are kinds, as `kind` names them."""
    if kind(dtype) not in takes:
        raise TypeError(
            f"{name} does not accept dtype {dtype.name}. It accepts "
            f"{', '.join(_KINDS[letter] for letter in takes)}: convert the argument with astype."
        )


def elementwise(
    name: str,
    lower: Callable[..., Any],
    takes: str,
    *derivatives: Callable[..., Any],
    gives: Callable[[np.dtype], np.dtype] = lambda dtype: dtype,
    transpose: Callable[..., Any] | None = None,
) -> Primitive:
    """Returns a primitive that maps each element.

    Args:
        name: Its name in jaxprs.
        lower: The builder of its StableHLO op.
        takes: Kinds of dtype that it takes, as `kind` names them.
        *derivatives: By each argument, `(tangent, result, *args) -> its part of the result's
            tangent`. None at all: it is linear if `transpose` is given, else its derivative is zero
            (the result is an integer, or constant piece by piece).
        gives: The dtype of the result, from that of the arguments.
        transpose: The transpose rule, if it is linear in some argument.
    """

    @cache
    def abstract(*avals: ShapedArray, **_: Any) -> ShapedArray:
        first = avals[0]
        accept(name, first.dtype, takes)
        if any(aval.dtype != first.dtype for aval in avals):
            raise TypeError(
                f"{name} requires arguments to have the same dtypes, got "
                f"{', '.join(a.str_short() for a in avals)}: bring them to one with astype."
            )
        shape = first.shape if len(avals) == 1 else _common_shape(name, avals)
        return ShapedArray(shape, gives(first.dtype), all(aval.weak_type for aval in avals))

    def lowered(ctx: Any, *operands: Any, **params: Any) -> Any:
        return lower(*same_shape(ctx, *operands), **params)

    primitive = Primitive(name, abstract=abstract, lower=lowered)
    rules.jvp_by_argument(primitive, *derivatives)
    rules.elementwise_batch(primitive, repeats=True)
    if transpose is not None:
        primitive.transpose = transpose
        if not derivatives:  # a linear map is its own derivative
            primitive.jvp = basics.linear(primitive)
    return primitive


def same_shape(ctx: Any, *operands: Any) -> list[Any]:
    """Emits the operands with scalars and axes of length 1 repeated to the shape of the result."""
    shape = ctx.out.shape
    return [
        x
        if aval.shape == shape
        else hlo.broadcast_in_dim(
            ctx.type(aval.update(shape=shape)), x, basics.i64s(range(aval.ndim))
        )
        for x, aval in zip(operands, ctx.avals_in, strict=True)
    ]


def _common_shape(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """Returns the shape that scalars and axes of length 1 are broadcast to."""
    arrays = [a.shape for a in avals if a.shape]
    with suppress(ValueError):
        if len(set(map(len, arrays))) <= 1:
            return np.broadcast_shapes(*arrays)
    shapes = ", ".join(str(aval.shape) for aval in avals)
    raise TypeError(f"{name} got incompatible shapes for broadcasting: {shapes}.")


def summed(ct: Any, linear: Linear) -> Any:
    """Sums a cotangent over the axes along which its argument was broadcast."""
    shape, axes = aval_of(ct).shape, tuple(range(linear.aval.ndim))
    if shape == linear.aval.shape:
        return ct
    back = basics.broadcast_in_dim_p.transpose(ct, linear, shape=shape, broadcast_dimensions=axes)
    return back[0]


def by_each(*parts: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns the transpose rule of a sum: a function of the cotangent per argument."""

    def transpose(ct: Any, *args: Any) -> list[Any]:
        pairs = zip(parts, args, strict=True)
        return [summed(part(ct), x) if type(x) is Linear else None for part, x in pairs]

    return transpose


def terms(primitive: Primitive, sign: Callable[[Any], Any]) -> None:
    """Gives x + y or x - y its derivatives in both modes; `sign` is that of y."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        result = primitive.bind(*primals)
        moving = [type(tangent) is not Zero for tangent in tangents]
        if all(moving):
            return result, primitive.bind(*tangents)
        tangent = tangents[0] if moving[0] else sign(tangents[1])
        return result, spread(tangent, aval_of(result))

    primitive.jvp, primitive.transpose = jvp, by_each(lambda ct: ct, sign)


# ---- numbers beside arrays ----------------------------------------------------------------------


def like(x: Any, value: float) -> Any:
    """Returns a number of the dtype of `x`, which becomes a literal of the equation."""
    aval = aval_of(x)
    return basics.number(value, aval.dtype, aval.weak_type)


# ---- arithmetic ---------------------------------------------------------------------------------


def _mul_transpose(ct: Any, x: Any, y: Any) -> Any:
    if type(x) is Linear:
        return [summed(mul(ct, y), x), None]
    return [None, summed(mul(x, ct), y)]


neg_p: Primitive = elementwise("neg", hlo.negate, _NUMBER, transpose=lambda ct, x: [neg_p.bind(ct)])
add_p, sub_p = elementwise("add", hlo.add, _NUMBER), elementwise("sub", hlo.subtract, _NUMBER)
mul_p: Primitive = elementwise(
    "mul",
    hlo.multiply,
    _NUMBER,
    lambda t, z, x, y: mul_p.bind(t, y),
    lambda t, z, x, y: mul_p.bind(x, t),
    transpose=_mul_transpose,
)
neg, add, sub, mul = neg_p.bind, add_p.bind, sub_p.bind, mul_p.bind
div_p: Primitive = elementwise(
    "div",
    hlo.divide,
    _NUMBER,
    lambda t, z, x, y: div_p.bind(t, y),
    lambda t, z, x, y: mul(mul(neg(t), x), integer_pow(y, -2)),
    transpose=lambda ct, x, y: [summed(div_p.bind(ct, y), x), None],
)
div = div_p.bind
terms(add_p, lambda t: t)
terms(sub_p, neg)

# ---- whole powers -------------------------------------------------------------------------------


def _power_slope(t: Any, z: Any, x: Any, y: int) -> Any:
    if y in (0, 1):
        return t if y else basics.zeros(aval_of(z))
    return mul(t, mul(like(x, y), x if y == 2 else integer_pow(x, y - 1)))


integer_pow_p = elementwise("integer_pow", hlo.power, _NUMBER, _power_slope)


@integer_pow_p.rule("lower")
def _(ctx: Any, x: Any, *, y: int) -> Any:
    ones = ctx.constant(np.ones(ctx.out.shape), ctx.out)
    power, left = ones, abs(y)
    while left:  # x, x**2, x**4 ...: those where the binary digits of y are 1
        if left & 1:
            power = x if power is ones else hlo.multiply(power, x)
        left >>= 1
        x = hlo.multiply(x, x) if left else x
    return power if y >= 0 else hlo.divide(ones, power)


def integer_pow(x: Any, y: int) -> Any:
    """Raises `x` to the power of a Python integer."""
    if y < 0 and not is_inexact(aval_of(x).dtype):
        raise TypeError(
            f"integer_pow: integers cannot be raised to negative powers, got "
            f"{aval_of(x).str_short()} to the power of {y}: convert it to a float."
        )
    return integer_pow_p.bind(x, y=y)


# ---- comparisons and bits -----------------------------------------------------------------------


def _comparison(name: str, takes: str) -> Primitive:
    def lower(ctx: Any, x: Any, y: Any) -> Any:
        return ctx.compare(name.upper(), ctx.avals_in[0], *same_shape(ctx, x, y))

    primitive = elementwise(name, hlo.compare, takes, gives=lambda _: np.dtype(bool))
    primitive.lower = lower
    return primitive


eq_p, ne_p = _comparison("eq", _ANY), _comparison("ne", _ANY)
lt_p, le_p = _comparison("lt", _ORDERED), _comparison("le", _ORDERED)
gt_p, ge_p = _comparison("gt", _ORDERED), _comparison("ge", _ORDERED)
eq, lt, gt, ge = eq_p.bind, lt_p.bind, gt_p.bind, ge_p.bind

and_p, or_p = elementwise("and", hlo.and_, _BITS), elementwise("or", hlo.or_, _BITS)
xor_p, not_p = elementwise("xor", hlo.xor, _BITS), elementwise("not", hlo.not_, _BITS)
