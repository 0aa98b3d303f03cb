"""Functions of numbers: roots, exponentials, trigonometry, complex parts, abs, max and rounding.

Each is a line or two, as in `elementwise.py`: its op, and its derivative written with primitives,
so that it can be differentiated again. `t` is the tangent, `z` the result, `x` and `y` the
arguments. Where a function has a corner JAX's choice is made: the slope of abs at 0 is 1, equal
arguments of max get 1/2 each. CHLO is the dialect of ops that XLA expands into StableHLO's.

The derivatives are those of "Evaluating Derivatives" (Griewank and Walther, 2008), table 2.3, and
of the NIST Handbook of Mathematical Functions (dlmf.nist.gov), chapters 4 and 7.
"""

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.primitives.elementwise import (
    add,
    and_p,
    by_each,
    div,
    elementwise,
    eq,
    full_like,
    ge,
    gt,
    kind,
    like,
    lt,
    mul,
    neg,
    square,
    sub,
    where,
)
from jaxlens.core.primitives.shapes import convert_element_type
from jaxlens.core.transforms.rules import spread

_FLOAT, _REAL, _NUMBER, _ORDERED, _ANY = "f", "iuf", "iufc", "biuf", "biufc"


def _smooth(name: str, op: Any, *derivatives: Callable[..., Any]) -> Primitive:
    """Returns a primitive of real or complex numbers."""
    return elementwise(name, op, "fc", *derivatives)


def _not_zero(x: Any) -> Any:
    """Replaces 0 by 1, where 0 times infinity would be NaN."""
    return where(eq(x, like(x, 0)), full_like(x, 1), x)


def _one_plus(x: Any) -> Any:
    return add(like(x, 1), x)


def _one_minus(x: Any) -> Any:
    return sub(like(x, 1), x)


# ---- roots and powers ---------------------------------------------------------------------------

sqrt_p = _smooth("sqrt", hlo.sqrt, lambda t, z, x: mul(t, div(like(x, 0.5), z)))
rsqrt_p = _smooth("rsqrt", hlo.rsqrt, lambda t, z, x: mul(t, mul(like(x, -0.5), div(z, x))))
pow_p: Primitive = _smooth(
    "pow",
    hlo.power,
    lambda t, z, x, y: mul(t, mul(y, pow_p.bind(x, sub(y, full_like(y, 1))))),
    lambda t, z, x, y: mul(t, mul(log_p.bind(_not_zero(x)), z)),
)

cbrt_p = elementwise("cbrt", hlo.cbrt, _FLOAT, lambda t, z, x: div(mul(t, z), mul(like(x, 3), x)))

# ---- exponentials -------------------------------------------------------------------------------

exp_p = _smooth("exp", hlo.exponential, lambda t, z, x: mul(t, z))
expm1_p = _smooth("expm1", hlo.exponential_minus_one, lambda t, z, x: mul(t, add(z, like(x, 1))))
log_p: Primitive = _smooth("log", hlo.log, lambda t, z, x: div(t, x))
log1p_p = _smooth("log1p", hlo.log_plus_one, lambda t, z, x: div(t, add(x, like(x, 1))))
logistic_p = _smooth("logistic", hlo.logistic, lambda t, z, x: mul(t, mul(z, _one_minus(z))))

# ---- trigonometry, and the error function -------------------------------------------------------


def _arc(x: Any) -> Any:
    return rsqrt_p.bind(_one_minus(square(x)))


sin_p = _smooth("sin", hlo.sine, lambda t, z, x: mul(t, cos_p.bind(x)))
cos_p: Primitive = _smooth("cos", hlo.cosine, lambda t, z, x: neg(mul(t, sin_p.bind(x))))
tan_p = _smooth("tan", hlo.tan, lambda t, z, x: mul(t, _one_plus(square(z))))
asin_p = _smooth("asin", chlo.asin, lambda t, z, x: mul(t, _arc(x)))
acos_p = _smooth("acos", chlo.acos, lambda t, z, x: mul(t, neg(_arc(x))))
atan_p = _smooth("atan", chlo.atan, lambda t, z, x: div(t, _one_plus(square(x))))
atan2_p = _smooth(
    "atan2",
    hlo.atan2,
    lambda t, z, x, y: mul(t, div(y, add(square(x), square(y)))),
    lambda t, z, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
)
sinh_p = _smooth("sinh", chlo.sinh, lambda t, z, x: mul(t, cosh_p.bind(x)))
cosh_p: Primitive = _smooth("cosh", chlo.cosh, lambda t, z, x: mul(t, sinh_p.bind(x)))
asinh_p = _smooth("asinh", chlo.asinh, lambda t, z, x: mul(t, rsqrt_p.bind(_one_plus(square(x)))))
acosh_p = _smooth(
    "acosh",
    chlo.acosh,
    lambda t, z, x: mul(t, rsqrt_p.bind(mul(sub(x, like(x, 1)), _one_plus(x)))),
)
atanh_p = _smooth("atanh", chlo.atanh, lambda t, z, x: div(t, _one_minus(square(x))))
tanh_p = _smooth("tanh", hlo.tanh, lambda t, z, x: mul(add(t, mul(t, z)), _one_minus(z)))


def _bell(scale: float, exponent: Any, t: Any) -> Any:
    return mul(like(t, scale), mul(t, exp_p.bind(exponent)))


erf_p = elementwise("erf", chlo.erf, _FLOAT, lambda t, z, x: _bell(2 / sqrt(pi), neg(square(x)), t))
erfc_p = elementwise(
    "erfc", chlo.erfc, _FLOAT, lambda t, z, x: neg(_bell(2 / sqrt(pi), neg(square(x)), t))
)
erf_inv_p = elementwise(
    "erf_inv", chlo.erf_inv, _FLOAT, lambda t, z, x: _bell(sqrt(pi) / 2, square(z), t)
)

# ---- the logarithm of gamma, and its derivatives -------------------------------------------------

lgamma_p = elementwise("lgamma", chlo.lgamma, _FLOAT, lambda t, z, x: mul(t, digamma_p.bind(x)))
digamma_p: Primitive = elementwise(
    "digamma", chlo.digamma, _FLOAT, lambda t, z, x: mul(t, polygamma_p.bind(full_like(x, 1), x))
)
polygamma_p: Primitive = elementwise(
    "polygamma",
    chlo.polygamma,
    _FLOAT,
    lambda t, z, m, x: full_like(z, np.nan),  # the order is a whole number
    lambda t, z, m, x: mul(t, polygamma_p.bind(_one_plus(m), x)),
)

# ---- complex numbers ----------------------------------------------------------------------------


def _part(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _whole(dtype: np.dtype) -> np.dtype:
    if dtype.name not in ("float32", "float64"):
        raise TypeError(f"a complex number's parts are float32 or float64, got {dtype.name}.")
    return np.dtype(f"c{2 * dtype.itemsize}")


real_p = elementwise(
    "real", hlo.real, "c", gives=_part, transpose=lambda ct, x: [complex_p.bind(ct, like(ct, 0))]
)
imag_p = elementwise(
    "imag",
    hlo.imag,
    "c",
    gives=_part,
    transpose=lambda ct, x: [complex_p.bind(like(ct, 0), neg(ct))],
)
real, imag = real_p.bind, imag_p.bind
_to_parts = by_each(real, lambda ct: imag(neg(ct)))
complex_p: Primitive = elementwise(
    "complex", hlo.complex, _FLOAT, gives=_whole, transpose=_to_parts
)
conj_p: Primitive = elementwise(
    "conj",
    lambda x, **_: hlo.complex(hlo.real(x), hlo.negate(hlo.imag(x))),
    "c",
    transpose=lambda ct, x, *, input_dtype: [conj(ct)],
)


def conj(x: Any) -> Any:
    """Returns the complex conjugate of complex numbers."""
    return conj_p.bind(x, input_dtype=aval_of(x).dtype)


# ---- piece by piece -----------------------------------------------------------------------------


def _absolute(t: Any, z: Any, x: Any) -> Any:
    if kind(aval_of(x).dtype) != "c":
        return where(ge(x, like(x, 0)), t, neg(t))
    direction, length = conj(x), convert_element_type(z, aval_of(x).dtype)
    return real(mul(t, div(direction, _not_zero(length))))


def _share(x: Any, y: Any, best: Any) -> Any:
    """Returns 1 where `x` alone is the best, 0 where it is not, 1/2 where both are."""
    has = where(eq(x, best), full_like(best, 1), full_like(best, 0))
    return div(has, where(eq(y, best), full_like(best, 2), full_like(best, 1)))


def _between(low: Any, x: Any, high: Any) -> Any:
    return and_p.bind(gt(x, low), lt(x, high))


def _masked(which: Any, t: Any, z: Any) -> Any:
    """Returns the tangent where `which` holds, zero elsewhere."""
    zeros = full_like(z, 0)
    return where(which, spread(t, aval_of(z)), zeros)


def _wholes(x: Any, y: Any) -> Any:
    return mul(sign_p.bind(div(x, y)), floor_p.bind(abs_p.bind(div(x, y))))


_BY_EACH = (
    lambda t, z, x, y: mul(t, _share(x, y, z)),
    lambda t, z, x, y: mul(t, _share(y, x, z)),
)
abs_p = elementwise("abs", hlo.abs, "ifc", _absolute, gives=_part)
sign_p = elementwise("sign", hlo.sign, _NUMBER)
floor_p, ceil_p = elementwise("floor", hlo.floor, _FLOAT), elementwise("ceil", hlo.ceil, _FLOAT)
round_p = elementwise(
    "round",
    lambda x, rounding_method: [hlo.round_nearest_afz, hlo.round_nearest_even][rounding_method](x),
    _FLOAT,
)
nextafter_p = elementwise("nextafter", chlo.next_after, _FLOAT)
is_finite_p = elementwise("is_finite", hlo.is_finite, _FLOAT, gives=lambda _: np.dtype(bool))
max_p = elementwise("max", hlo.maximum, _ORDERED, *_BY_EACH)
min_p = elementwise("min", hlo.minimum, _ORDERED, *_BY_EACH)
rem_p = elementwise(
    "rem",
    hlo.remainder,
    _REAL,
    lambda t, z, x, y: t,
    lambda t, z, x, y: mul(neg(t), _wholes(x, y)),
)
clamp_p = elementwise(
    "clamp",
    hlo.clamp,
    _ORDERED,
    lambda t, z, low, x, high: _masked(_between(x, low, high), t, z),
    lambda t, z, low, x, high: _masked(_between(low, x, high), t, z),
    lambda t, z, low, x, high: _masked(lt(high, x), t, z),
)
stop_gradient_p = elementwise("stop_gradient", lambda x: x, _ANY)  # to derivatives a constant
stop_gradient_p.transpose = lambda ct, x: [None]
stop_gradient = stop_gradient_p.bind


@sign_p.rule("lower")
def _(ctx: Any, x: Any) -> Any:
    if ctx.out.dtype.kind == "u":
        return hlo.minimum(x, ctx.constant(np.ones(ctx.out.shape), ctx.out))
    return hlo.sign(x)
