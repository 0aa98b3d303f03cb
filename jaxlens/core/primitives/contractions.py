"""Many numbers to few: reductions over axes, and products of arrays summed over axes.

A reduction combines all elements along axes by an operation that may be regrouped as XLA likes:
`reduce_sum` is in the kernel, `reduce_or` is what loops over a batch need, all others are guests.
`dot_general` is every product of matrices, vectors and batches of them: it multiplies along axes
that both have (batch), sums over axes that both have (contracting), and keeps the rest of each.
Its derivatives and its batching are dot_general again, with the axes in other roles.

The axes of the result, batch first, then those of each side, are those of the op of the same name
in the StableHLO specification.
"""

from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import Axes, Linear
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives import shapes
from jaxlens.core.transforms.promotion import promote
from jaxlens.core.transforms.rules import jvp_by_argument


class DotDimensions(tuple[tuple[Axes, Axes], ...]):
    """Contracting axes and batch axes of both sides; formatted as in JAX's jaxprs.

    As in JAX, only the printed jaxpr has lists: `str` of the parameter is that of a tuple.
    """

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return format(str(tuple(tuple(map(list, pair)) for pair in self)), spec)


# ---- reductions ---------------------------------------------------------------------------------

reduce_or_p = basics.reduction("reduce_or", hlo.or_, False)

# ---- dot_general --------------------------------------------------------------------------------

dot_general_p = Primitive("dot_general")
jvp_by_argument(
    dot_general_p,
    lambda t, z, x, y, **params: dot_general_p.bind(t, y, **params),
    lambda t, z, x, y, **params: dot_general_p.bind(x, t, **params),
)


def dot_general(
    x: Any, y: Any, dimension_numbers: Any, *, preferred_element_type: Any = None
) -> Any:
    """Computes the product of two arrays, summed over contracting axes.

    Args:
        x: An array.
        y: Another.
        dimension_numbers: `((x's contracting axes, y's), (x's batch axes, y's))`.
        preferred_element_type: The dtype to add up in and to return.
    """
    numbers: Any = (tuple(map(tuple, pair)) for pair in dimension_numbers)
    params: dict[str, Any] = {"dimension_numbers": DotDimensions(numbers)}
    if preferred_element_type is not None:
        params["preferred_element_type"] = np.dtype(preferred_element_type)
    return dot_general_p.bind(x, y, **params)


@dot_general_p.rule("abstract")
def _(x: ShapedArray, y: ShapedArray, **params: Any) -> ShapedArray:
    (x_sum, y_sum), (x_batch, y_batch) = params["dimension_numbers"]
    for role, x_axes, y_axes in (("contracting", x_sum, y_sum), ("batch", x_batch, y_batch)):
        sizes = [[a.shape[i] for i in axes] for a, axes in ((x, x_axes), (y, y_axes))]
        if sizes[0] != sizes[1]:
            raise TypeError(
                f"dot_general: the {role} axes {x_axes} of {x.str_short()} and {y_axes} of "
                f"{y.str_short()} must have the same lengths, got {sizes[0]} and {sizes[1]}."
            )
    shape = [x.shape[axis] for axis in (*x_batch, *basics.other_axes(x.ndim, x_sum, x_batch))]
    shape += [y.shape[axis] for axis in basics.other_axes(y.ndim, y_sum, y_batch)]
    dtype, weak = promote(x, y)
    return ShapedArray(tuple(shape), params.get("preferred_element_type", dtype), weak)


@dot_general_p.rule("lower")
def _(ctx: Any, *both: Any, dimension_numbers: DotDimensions, **_: Any) -> Any:
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    dtype = promote(*ctx.avals_in)[0]
    pairs = zip(both, ctx.avals_in, strict=True)
    x, y = (shapes.convert(ctx, operand, aval, aval.update(dtype=dtype)) for operand, aval in pairs)
    numbers = hlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=x_batch,
        rhs_batching_dimensions=y_batch,
        lhs_contracting_dimensions=x_sum,
        rhs_contracting_dimensions=y_sum,
    )
    return hlo.dot_general(ctx.type(ctx.out), x, y, numbers)


@dot_general_p.rule("transpose")
def _(ct: Any, x: Any, y: Any, *, dimension_numbers: DotDimensions, **params: Any) -> list[Any]:
    """Contracts `ct` with the other operand over the axes that only that operand has."""
    left = type(x) is Linear
    (own_sum, sums), (own_batch, batch) = (pair[:: 1 if left else -1] for pair in dimension_numbers)
    aval, other = (x.aval, y) if left else (y.aval, x)
    own_kept = basics.other_axes(aval.ndim, own_sum, own_batch)
    summed_axes = tuple(basics.other_axes(aval_of(other).ndim, sums, batch))
    first = len(batch) + (len(own_kept) if left else 0)
    summed = tuple(range(first, first + len(summed_axes)))
    dims = DotDimensions(((summed, summed_axes), (tuple(range(len(batch))), batch)))
    product = dot_general_p.bind(ct, other, dimension_numbers=dims, **params)
    # Its axes: batch, what this side kept, and what was summed over, in the order of the other's.
    axes = [*own_batch, *own_kept, *(own_sum[i] for i in np.argsort(sums))]
    ct = shapes.convert_element_type(basics.transpose(product, basics.inverse(axes)), aval.dtype)
    return [ct, None] if left else [None, ct]


@dot_general_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, dimension_numbers: DotDimensions, **params: Any) -> Any:
    (x_dim, y_dim), (x, y) = dims, map(aval_of, args)
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    if x_dim is not None:
        x_sum, x_batch = basics.bump(x_sum, x_dim), basics.bump(x_batch, x_dim)
    if y_dim is not None:
        y_sum, y_batch = basics.bump(y_sum, y_dim), basics.bump(y_batch, y_dim)
    if x_dim is not None and y_dim is not None:
        x_batch, y_batch, place = (x_dim, *x_batch), (y_dim, *y_batch), 0
    elif x_dim is not None:
        place = len(x_batch) + basics.other_axes(x.ndim, x_sum, x_batch).index(x_dim)
    else:
        place = x.ndim - len(x_sum) + basics.other_axes(y.ndim, y_sum, y_batch).index(y_dim)
    numbers = DotDimensions(((x_sum, y_sum), (x_batch, y_batch)))
    return dot_general_p.bind(*args, dimension_numbers=numbers, **params), place
