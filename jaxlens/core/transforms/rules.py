"""Rules that a primitive needs not write itself.

A primitive of numbers that maps each element differs from another in its derivatives and its op:
`jvp_by_argument` and `elementwise_batch` give it the rest. `lower_fun` writes the op as a Python
function of other primitives.

    jvp_by_argument(mul_p, lambda t, z, x, y: t * y, lambda t, z, x, y: x * t)
    elementwise_batch(mul_p)

In JAX: `defjvp` in jax/_src/interpreters/ad.py, `lower_fun` in mlir.py.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from jaxlens.core.kernel.basics import Dim, Zero, add_any_p, broadcast_in_dim, moveaxis
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.run import Context
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import ShapedArray, tangent_aval
from jaxlens.core.transforms.trees import tree_leaves


def jvp_by_argument(primitive: Primitive, *derivatives: Callable[..., Any]) -> None:
    """Gives a primitive with one result the jvp rule that adds up a part for each argument.

    Args:
        primitive: The primitive.
        *derivatives: Per argument, `(tangent, result, *args, **params) -> part` of the result's
            tangent: `lambda t, z, x, y: t * y` for the x of z = x * y. It is not called where the
            tangent is zero. A part of length 1 along an axis is repeated. None at all: the result
            does not move, as with a comparison.
    """

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        if derivatives and len(derivatives) != len(primals):
            raise TypeError(
                f"`{primitive.name}` has {len(primals)} arguments and {len(derivatives)} "
                f"derivatives: give jvp_by_argument one for each."
            )
        result = primitive.bind(*primals, **params)
        aval = tangent_aval(aval_of(result))
        parts = [
            spread(derivative(tangent, result, *primals, **params), aval)
            for tangent, derivative in zip(tangents, derivatives, strict=bool(derivatives))
            if type(tangent) is not Zero
        ]
        return result, reduce(add_any_p.bind, parts) if parts else Zero(aval)

    primitive.jvp = jvp


def spread(tangent: Any, aval: ShapedArray) -> Any:
    """Broadcasts the tangent of an argument to the type of the result."""
    return broadcast_in_dim(tangent, aval.shape, range(aval_of(tangent).ndim))


def elementwise_batch(primitive: Primitive, repeats: bool = False) -> None:
    """Gives a primitive that maps each element its batch rule: itself, with the examples in line.

    Args:
        primitive: The primitive.
        repeats: Whether it takes a scalar, or an axis of length 1, beside a longer one; else all
            arguments get one shape.
    """

    def batch(size: int, args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> Any:
        ranks = [aval_of(x).ndim - (dim is not None) for x, dim in zip(args, dims, strict=True)]
        rank, place = max(ranks), next(dim for dim in dims if dim is not None)
        if all(d == place if r == rank else d is None for r, d in zip(ranks, dims, strict=True)):
            return primitive.bind(*args, **params), place
        lined = [_line_up(rank, x, dim) for x, dim in zip(args, dims, strict=True)]
        if not repeats:
            shape = np.broadcast_shapes(*(aval_of(x).shape for x in lined))
            lined = [broadcast_in_dim(x, shape, range(aval_of(x).ndim)) for x in lined]
        return primitive.bind(*lined, **params), 0

    primitive.batch = batch


def _line_up(rank: int, x: Any, dim: Dim) -> Any:
    """Moves the examples to the first axis, of length 1 if shared; a shared scalar stays."""
    shape = aval_of(x).shape
    if dim is None:
        return broadcast_in_dim(x, (1, *shape), range(1, len(shape) + 1)) if shape else x
    front = moveaxis(x, dim, 0)
    missing = rank + 1 - len(shape)
    shape = aval_of(front).shape
    return broadcast_in_dim(front, shape + (1,) * missing, range(len(shape)))


def lower_fun(f: Callable[..., Any]) -> Callable[..., list[ir.Value]]:
    """Returns the lower rule that writes a primitive as a Python function of the core's operations.

    Args:
        f: A function of arrays and the primitive's parameters to an array, or a list of them.
    """

    def lower(ctx: Context, *operands: ir.Value, **params: Any) -> list[ir.Value]:
        return ctx.inline(trace(lambda *xs: tree_leaves(f(*xs, **params)), ctx.avals_in), *operands)

    return lower
