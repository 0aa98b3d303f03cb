"""Functions of elements: arguments brought together, then one primitive.

A primitive is strict: its arguments have one dtype and shapes that fit. NumPy is not, so dtypes are
promoted and ranks made equal by new axes in front; a scalar stays one, and becomes a literal. What
needs several primitives is JAX's.

The meaning is NumPy's (numpy.org/doc), the dtypes are those of JAX's `jax.numpy`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import broadcast_to
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.types import canonical, is_inexact
from jaxlens.core.primitives import elementwise as ew
from jaxlens.core.primitives import functions as fn
from jaxlens.core.primitives.shapes import convert_element_type, expand_dims
from jaxlens.core.transforms.promotion import broadcast_shapes, promote
from jaxlens.core.transforms.values import as_number


def typed(x: Any, dtype: np.dtype, weak: bool) -> Any:
    """Converts `x` to a dtype; a Python or NumPy scalar stays a scalar, so becomes a literal."""
    x = as_number(x)
    if isinstance(x, bool | int | float | complex | np.generic):
        return basics.number(x, dtype, weak and dtype.kind != "b")
    return convert_element_type(x, dtype, weak)


def alike(*xs: Any, inexact: bool = False) -> list[Any]:
    """Promotes arguments to one dtype."""
    avals = [aval_of(x) for x in xs]
    dtype, weak = promote(*avals)
    if inexact and not is_inexact(dtype):
        dtype = canonical(np.float64)
    return [
        x if aval.dtype == dtype and aval.weak_type is weak else typed(x, dtype, weak)
        for x, aval in zip(xs, avals, strict=True)
    ]


def together(*xs: Any, inexact: bool = False) -> list[Any]:
    """Promotes arguments to one dtype and one rank; scalars stay scalars."""
    arrays = alike(*xs, inexact=inexact)
    shapes = [aval_of(x).shape for x in arrays]
    ranks = list(map(len, shapes))
    rank = max(ranks)
    if not set(ranks) - {0, rank}:
        return arrays
    broadcast_shapes(*shapes)  # so that an error names the shapes that the user gave
    return [
        expand_dims(x, range(rank - own)) if 0 < own < rank else x
        for x, own in zip(arrays, ranks, strict=True)
    ]


def _unary(primitive: Primitive, inexact: bool = False) -> Callable[[Any], Any]:
    """Returns NumPy's function for a unary primitive; `inexact` turns integers into floats."""

    def function(x: Any) -> Any:
        return primitive.bind(*together(x, inexact=inexact))

    return _named(function, primitive)


def _binary(
    primitive: Primitive, inexact: bool = False, of_bool: Primitive | None = None
) -> Callable[[Any, Any], Any]:
    """Returns NumPy's function for a binary primitive; `inexact` turns integers into floats."""

    def function(x: Any, y: Any) -> Any:
        arrays = together(x, y, inexact=inexact)
        if of_bool is not None and aval_of(arrays[0]).dtype == np.bool_:
            return of_bool.bind(*arrays)
        return primitive.bind(*arrays)

    return _named(function, primitive)


def _named(function: Callable[..., Any], primitive: Primitive) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = f"`{primitive.name}` of each element, after promotion."
    return function


_float = partial(_unary, inexact=True)

add, multiply = _binary(ew.add_p, of_bool=ew.or_p), _binary(ew.mul_p, of_bool=ew.and_p)
subtract, divide = _binary(ew.sub_p), _binary(ew.div_p, inexact=True)
equal, not_equal = _binary(ew.eq_p), _binary(ew.ne_p)
less, less_equal = _binary(ew.lt_p), _binary(ew.le_p)
greater, greater_equal = _binary(ew.gt_p), _binary(ew.ge_p)
bitwise_and, bitwise_or, bitwise_xor = map(_binary, (ew.and_p, ew.or_p, ew.xor_p))
negative, bitwise_not = map(_unary, (ew.neg_p, ew.not_p))
exp, log, log1p, sqrt = map(_float, (fn.exp_p, fn.log_p, fn.log1p_p, fn.sqrt_p))
sin, cos, tanh = map(_float, (fn.sin_p, fn.cos_p, fn.tanh_p))


def where(condition: Any, x: Any, y: Any) -> Any:
    """Selects `x` where the condition holds, `y` elsewhere."""
    x, y = together(x, y)
    shape = broadcast_shapes(*(aval_of(operand).shape for operand in (condition, x, y)))
    chosen = condition if aval_of(condition).dtype == np.bool_ else not_equal(condition, 0)
    if aval_of(chosen).shape:
        chosen = broadcast_to(chosen, shape)
    return basics.select_n(chosen, broadcast_to(y, shape), broadcast_to(x, shape))


def astype(x: Any, dtype: Any) -> Any:
    """Converts elements to another dtype."""
    return convert_element_type(x, dtype)
