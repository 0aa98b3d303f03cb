"""Functions of numbers: roots, exponentials, trigonometry, gamma, complex parts, abs and max.

Each is a line or two, as in `elementwise.py`: its op, and its derivative written with primitives,
so that it can be differentiated again. `t` is the tangent, `z` the result, `x` and `y` the
arguments. Where a function has a corner JAX's choice is made: the slope of abs at 0 is 1, equal
arguments of max get 1/2 each. CHLO is the dialect of ops that XLA expands into StableHLO's.

The derivatives are those of "Evaluating Derivatives" (Griewank and Walther, 2008), table 2.3, and
of the NIST Handbook of Mathematical Functions (dlmf.nist.gov), chapters 4, 5 and 7.
"""

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray, is_inexact
from jaxlens.core.elementwise import (
    add,
    and_p,
    div,
    eq,
    full_like,
    ge,
    gt,
    integer_pow,
    like,
    lt,
    mul,
    neg,
    square,
    sub,
    where,
)
from jaxlens.core.elementwise_rules import elementwise, kind, spread, summed
from jaxlens.core.shapes import convert_element_type
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Linear, Primitive, Zero

_FLOAT, _INEXACT, _REAL, _NUMBER, _ORDERED, _ANY = "f", "fc", "iuf", "iufc", "biuf", "biufc"

sqrt_p = elementwise("sqrt", hlo.sqrt, _INEXACT, lambda t, z, x: mul(t, div(like(x, 0.5), z)))
rsqrt_p: Primitive = elementwise(
    "rsqrt", hlo.rsqrt, _INEXACT, lambda t, z, x: mul(t, mul(like(x, -0.5), div(z, x)))
)
cbrt_p = elementwise(
    "cbrt", hlo.cbrt, _FLOAT, lambda t, z, x: mul(t, mul(like(x, 1 / 3), integer_pow(z, -2)))
)


def _pow_by_base(t: Any, z: Any, x: Any, y: Any) -> Any:
    if is_inexact(aval_of(y).dtype):
        return mul(t, mul(y, pow_p.bind(x, sub(y, full_like(y, 1)))))
    y = spread(convert_element_type(y, aval_of(x).dtype), aval_of(z))
    never, zeros = eq(y, like(y, 0)), full_like(y, 0)  # x**0 is 1 even at 0, its slope 0
    safe = where(eq(y, like(y, 0)), full_like(y, 1), y)
    slope = mul(safe, pow_p.bind(x, sub(y, full_like(y, 1))))
    return mul(t, where(never, zeros, slope))


def _pow_by_exponent(t: Any, z: Any, x: Any, y: Any) -> Any:
    safe = where(eq(x, like(x, 0)), full_like(x, 1), x)  # log(0) * 0 would be NaN
    return mul(t, mul(log_p.bind(safe), z))


pow_p = elementwise("pow", hlo.power, _INEXACT, _pow_by_base, _pow_by_exponent)
_pow_abstract = pow_p.abstract


@pow_p.rule("abstract")
def _(x: ShapedArray, y: ShapedArray) -> Any:  # the exponent may be an integer
    return _pow_abstract(x, y.update(dtype=x.dtype) if kind(y.dtype) in "iu" else y)


@pow_p.rule("lower")
def _(ctx: Any, x: Any, y: Any) -> Any:
    x, y = ctx.same_shape(x, y)
    exponent = ctx.out.update(dtype=ctx.avals_in[1].dtype)
    return hlo.power(x, ctx.convert(y, exponent, ctx.out))


# ---- exponentials -------------------------------------------------------------------------------


def _one_plus(x: Any) -> Any:
    return add(like(x, 1), x)


def _one_minus(x: Any) -> Any:
    return sub(like(x, 1), x)


exp_p: Primitive = elementwise("exp", hlo.exponential, _INEXACT, lambda t, z, x: mul(t, z))
exp2_p = elementwise(
    "exp2", hlo.exponential, _INEXACT, lambda t, z, x: mul(log_p.bind(like(x, 2)), mul(t, z))
)
expm1_p = elementwise(
    "expm1", hlo.exponential_minus_one, _INEXACT, lambda t, z, x: mul(t, add(z, like(x, 1)))
)
log_p: Primitive = elementwise("log", hlo.log, _INEXACT, lambda t, z, x: div(t, x))
log1p_p = elementwise(
    "log1p", hlo.log_plus_one, _INEXACT, lambda t, z, x: div(t, add(x, like(x, 1)))
)
logistic_p = elementwise(
    "logistic", hlo.logistic, _INEXACT, lambda t, z, x: mul(t, mul(z, _one_minus(z)))
)


@exp2_p.rule("lower")
def _(ctx: Any, x: Any) -> Any:
    return hlo.exponential(
        hlo.multiply(x, ctx.constant(np.full(ctx.out.shape, np.log(2)), ctx.out))
    )


# ---- trigonometry -------------------------------------------------------------------------------

sin_p = elementwise("sin", hlo.sine, _INEXACT, lambda t, z, x: mul(t, cos_p.bind(x)))
cos_p: Primitive = elementwise(
    "cos", hlo.cosine, _INEXACT, lambda t, z, x: neg(mul(t, sin_p.bind(x)))
)
tan_p = elementwise("tan", hlo.tan, _INEXACT, lambda t, z, x: mul(t, _one_plus(square(z))))
asin_p = elementwise(
    "asin", chlo.asin, _INEXACT, lambda t, z, x: mul(t, rsqrt_p.bind(_one_minus(square(x))))
)
acos_p = elementwise(
    "acos", chlo.acos, _INEXACT, lambda t, z, x: mul(t, neg(rsqrt_p.bind(_one_minus(square(x)))))
)
atan_p = elementwise("atan", chlo.atan, _INEXACT, lambda t, z, x: div(t, _one_plus(square(x))))
atan2_p = elementwise(
    "atan2", hlo.atan2, _INEXACT,
    lambda t, z, x, y: mul(t, div(y, add(square(x), square(y)))),
    lambda t, z, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
)  # fmt: skip
sinh_p = elementwise("sinh", chlo.sinh, _INEXACT, lambda t, z, x: mul(t, cosh_p.bind(x)))
cosh_p: Primitive = elementwise("cosh", chlo.cosh, _INEXACT, lambda t, z, x: mul(t, sinh_p.bind(x)))
tanh_p = elementwise(
    "tanh", hlo.tanh, _INEXACT, lambda t, z, x: mul(add(t, mul(t, z)), _one_minus(z))
)
asinh_p = elementwise(
    "asinh", chlo.asinh, _INEXACT, lambda t, z, x: mul(t, rsqrt_p.bind(add(square(x), like(x, 1))))
)
acosh_p = elementwise(
    "acosh", chlo.acosh, _INEXACT, lambda t, z, x: mul(t, rsqrt_p.bind(sub(square(x), like(x, 1))))
)
atanh_p = elementwise(
    "atanh", chlo.atanh, _INEXACT,
    lambda t, z, x: mul(integer_pow(_one_plus(x), -1), div(t, _one_minus(x))),
)  # fmt: skip

# ---- the error function and gamma ---------------------------------------------------------------


def _bell(scale: float, sign: Callable[[Any], Any], at: int) -> Callable[..., Any]:
    """scale * t * exp_p.bind(sign(x ** 2)), where x is the result (at 0) or the argument (at 1)."""

    def derivative(t: Any, *values: Any) -> Any:
        x = values[at]
        return mul(like(x, scale), mul(t, exp_p.bind(sign(square(x)))))

    return derivative


erf_p = elementwise("erf", chlo.erf, _FLOAT, _bell(2 / sqrt(pi), neg, 1))
erfc_p = elementwise("erfc", chlo.erfc, _FLOAT, _bell(-2 / sqrt(pi), neg, 1))
erf_inv_p = elementwise("erf_inv", chlo.erf_inv, _FLOAT, _bell(sqrt(pi) / 2, lambda x: x, 0))
lgamma_p = elementwise("lgamma", chlo.lgamma, _FLOAT, lambda t, z, x: mul(t, digamma_p.bind(x)))
digamma_p: Primitive = elementwise(
    "digamma", chlo.digamma, _FLOAT, lambda t, z, x: mul(t, polygamma_p.bind(like(x, 1), x))
)
polygamma_p: Primitive = elementwise(  # the m-th derivative of digamma; none by m
    "polygamma", chlo.polygamma, _FLOAT, None,
    lambda t, z, m, x: mul(t, polygamma_p.bind(add(m, like(m, 1)), x)),
)  # fmt: skip

# ---- complex numbers ----------------------------------------------------------------------------

_COMPLEX: dict[np.dtype, np.dtype] = {
    np.dtype("f4"): np.dtype("c8"),
    np.dtype("f8"): np.dtype("c16"),
}
_PART = {whole: part for part, whole in _COMPLEX.items()}


def _part(dtype: np.dtype) -> np.dtype:
    return _PART.get(dtype, dtype)


def _complex(dtype: np.dtype) -> np.dtype:
    if dtype not in _COMPLEX and dtype not in _PART:
        raise TypeError(f"a complex number's parts are float32 or float64, got {dtype.name}.")
    return _COMPLEX.get(dtype, dtype)


def _complex_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [
        summed(real(ct), x) if type(x) is Linear else None,
        summed(imag(neg(ct)), y) if type(y) is Linear else None,
    ]


real_p: Primitive = elementwise(
    "real", hlo.real, "c", lambda t, *_: real_p.bind(t), gives=_part,
    transpose=lambda ct, x: [complex_p.bind(ct, like(ct, 0))],
)  # fmt: skip
imag_p: Primitive = elementwise(
    "imag", hlo.imag, "c", lambda t, *_: imag_p.bind(t), gives=_part,
    transpose=lambda ct, x: [complex_p.bind(like(ct, 0), neg(ct))],
)  # fmt: skip
complex_p: Primitive = elementwise(
    "complex", hlo.complex, _FLOAT, gives=_complex, transpose=_complex_transpose
)
conj_p = elementwise(
    "conj", hlo.complex, _INEXACT, lambda t, *_, input_dtype: conj(t), gives=_complex
)
real, imag = real_p.bind, imag_p.bind


@complex_p.rule("jvp")
def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    result, parts = complex_p.bind(*primals), zip(primals, tangents, strict=True)
    return result, complex_p.bind(*(full_like(x, 0) if type(t) is Zero else t for x, t in parts))


@conj_p.rule("lower")
def _(ctx: Any, x: Any, *, input_dtype: np.dtype) -> Any:
    if input_dtype in _COMPLEX:
        return hlo.complex(x, ctx.constant(np.zeros(ctx.out.shape), ctx.avals_in[0]))
    return hlo.complex(hlo.real(x), hlo.negate(hlo.imag(x)))


@conj_p.rule("transpose")
def _(ct: Any, x: Linear, *, input_dtype: np.dtype) -> list[Any]:
    return [real(ct) if input_dtype in _COMPLEX else conj(ct)]


def conj(x: Any) -> Any:
    """The complex conjugate, a complex number also where `x` is real."""
    return conj_p.bind(x, input_dtype=aval_of(x).dtype)


# ---- piece by piece -----------------------------------------------------------------------------


def _absolute(t: Any, z: Any, x: Any) -> Any:
    if kind(aval_of(x).dtype) != "c":
        return where(ge(x, like(x, 0)), t, neg(t))
    direction = conj(x)
    length = convert_element_type(z, aval_of(x).dtype)
    safe = where(eq(length, like(length, 0)), full_like(length, 1), length)
    return real_p.bind(mul(t, div(direction, safe)))


def _share(one: Any, other: Any, best: Any) -> Any:
    """1 where `one` is the best, 0 where it is not, 1/2 where it is so with the other."""
    has = where(eq(one, best), full_like(best, 1), full_like(best, 0))
    return div(has, where(eq(other, best), full_like(best, 2), full_like(best, 1)))


def _between(low: Any, x: Any, high: Any) -> Any:
    return and_p.bind(gt(x, low), lt(x, high))


def _kept(which: Any, t: Any, z: Any) -> Any:
    """The tangent where `which` holds."""
    zeros = full_like(z, 0)
    return where(which, spread(t, aval_of(z)), zeros)


abs_p: Primitive = elementwise("abs", hlo.abs, "ifc", _absolute, gives=_part)
sign_p: Primitive = elementwise("sign", hlo.sign, _NUMBER)
floor_p: Primitive = elementwise("floor", hlo.floor, _FLOAT)
ceil_p = elementwise("ceil", hlo.ceil, _FLOAT)
is_finite_p = elementwise("is_finite", hlo.is_finite, _FLOAT, gives=lambda _: np.dtype(bool))
nextafter_p = elementwise("nextafter", chlo.next_after, _FLOAT)
round_p = elementwise(
    "round",
    lambda x, rounding_method: (
        hlo.round_nearest_even if rounding_method else hlo.round_nearest_afz
    )(x),
    _FLOAT,
)
_BY_EACH = (
    lambda t, z, x, y: mul(t, _share(x, y, z)),
    lambda t, z, x, y: mul(t, _share(y, x, z)),
)
rem_p = elementwise(
    "rem", hlo.remainder, _REAL,
    lambda t, z, x, y: t,
    lambda t, z, x, y: mul(
        neg(t), mul(sign_p.bind(div(x, y)), floor_p.bind(abs_p.bind(div(x, y))))
    ),
)  # fmt: skip
max_p = elementwise("max", hlo.maximum, _ORDERED, *_BY_EACH)
min_p = elementwise("min", hlo.minimum, _ORDERED, *_BY_EACH)
clamp_p = elementwise(
    "clamp", hlo.clamp, _ORDERED,
    lambda t, z, low, x, high: _kept(_between(x, low, high), t, z),
    lambda t, z, low, x, high: _kept(_between(low, x, high), t, z),
    lambda t, z, low, x, high: _kept(lt(high, x), t, z),
)  # fmt: skip
stop_gradient_p = elementwise("stop_gradient", lambda x: x, _ANY)  # to derivatives a constant
stop_gradient_p.transpose = lambda ct, x: [None]
stop_gradient = stop_gradient_p.bind


@sign_p.rule("lower")
def _(ctx: Any, x: Any) -> Any:
    if ctx.out.dtype.kind == "u":
        return hlo.minimum(x, ctx.constant(np.ones(ctx.out.shape), ctx.out))
    return hlo.sign(x)


def round(x: Any, rounding_method: int = 1) -> Any:
    """To the nearest integer; halves go away from zero (0) or to the even one (1)."""
    return round_p.bind(x, rounding_method=rounding_method)


@nextafter_p.rule("jvp")
def _(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("`nextafter` has no jvp rule.")
