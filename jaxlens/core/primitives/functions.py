"""Functions of numbers: roots, exponentials, waves, the larger of two.

Each is a line or two, as in `elementwise.py`: its op, and its derivative written with primitives,
so that it can be differentiated again. `t` is the tangent, `z` the result, `x` and `y` the
arguments. Where a function has a corner JAX's choice is made: equal arguments of max get 1/2 each.
Only what `core.numpy` writes itself is here; all others are guests from JAX.

The derivatives are those of "Evaluating Derivatives" (Griewank and Walther, 2008), table 2.3.
"""

from collections.abc import Callable
from typing import Any

from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.basics import select_n, zeros
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.primitives.elementwise import (
    add,
    and_p,
    div,
    elementwise,
    gt,
    like,
    lt,
    mul,
    neg,
    sub,
)
from jaxlens.core.transforms.rules import spread

_ORDERED, _ANY = "biuf", "biufc"


def _smooth(name: str, op: Any, *derivatives: Callable[..., Any]) -> Primitive:
    """Returns a primitive of real or complex numbers."""
    return elementwise(name, op, "fc", *derivatives)


sqrt_p = _smooth("sqrt", hlo.sqrt, lambda t, z, x: mul(t, div(like(x, 0.5), z)))
exp_p = _smooth("exp", hlo.exponential, lambda t, z, x: mul(t, z))
log_p = _smooth("log", hlo.log, lambda t, z, x: div(t, x))
log1p_p = _smooth("log1p", hlo.log_plus_one, lambda t, z, x: div(t, add(x, like(x, 1))))
sin_p = _smooth("sin", hlo.sine, lambda t, z, x: mul(t, cos_p.bind(x)))
cos_p: Primitive = _smooth("cos", hlo.cosine, lambda t, z, x: neg(mul(t, sin_p.bind(x))))
tanh_p = _smooth("tanh", hlo.tanh, lambda t, z, x: mul(add(t, mul(t, z)), sub(like(z, 1), z)))

# ---- piece by piece -----------------------------------------------------------------------------


def _between(low: Any, x: Any, high: Any) -> Any:
    return and_p.bind(gt(x, low), lt(x, high))


def _masked(which: Any, t: Any, z: Any) -> Any:
    """Returns the tangent where `which` holds, zero elsewhere."""
    return select_n(which, zeros(aval_of(z)), spread(t, aval_of(z)))


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
