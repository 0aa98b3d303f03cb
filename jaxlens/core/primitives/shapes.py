"""Shapes and dtypes: expand_dims, convert_element_type.

These primitives continue `kernel/basics.py`: they compute nothing new, are linear, and their
transpose undoes them. Each is one block: its type, its StableHLO, its derivatives, its batching.

The meaning of each is that of the op of the same name in the StableHLO specification.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.basics import Zero
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.types import ShapedArray, canonical, is_inexact, tangent_aval

# ---- expand_dims: new axes of length 1 ----------------------------------------------------------


def expand_dims(x: Any, axes: Sequence[int]) -> Any:
    """Inserts axes of length 1 at these positions of the result."""
    old = aval_of(x).shape
    old_axes, shape = basics.other_axes(len(old) + len(axes), axes), [1] * (len(old) + len(axes))
    for axis, n in zip(old_axes, old, strict=True):
        shape[axis] = n
    return basics.broadcast_in_dim(x, shape, old_axes)


# ---- convert_element_type -----------------------------------------------------------------------


def convert(ctx: Any, x: ir.Value, old: ShapedArray, new: ShapedArray) -> ir.Value:
    """Emits a conversion: True is what is not zero, a complex number loses its imaginary part."""
    if old.dtype == new.dtype:
        return x
    if new.dtype == np.bool_:
        zero = ctx.constant(np.zeros(old.shape, old.dtype), old)
        return ctx.compare("NE", old, x, zero)
    if old.dtype.kind == "c" and new.dtype.kind != "c":
        x = hlo.real(x)
    return hlo.convert(ctx.type(new), x)


convert_element_type_p = Primitive(
    "convert_element_type",
    abstract=lambda x, *, new_dtype, weak_type: ShapedArray(x.shape, new_dtype, weak_type),
    lower=lambda ctx, x, **_: convert(ctx, x, ctx.avals_in[0], ctx.out),
    transpose=lambda ct, x, **_: [convert_element_type(ct, x.aval.dtype, x.aval.weak_type)],
    batch=lambda size, args, dims, **params: (convert_element_type(*args, **params), dims[0]),
)


@convert_element_type_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    result = convert_element_type_p.bind(*primals, **params)
    if not is_inexact(params["new_dtype"]):
        return result, Zero(tangent_aval(aval_of(result)))
    return result, convert_element_type(tangents[0], **params)


def convert_element_type(x: Any, new_dtype: Any, weak_type: bool = False) -> Any:
    """Converts elements to another dtype."""
    aval, dtype = aval_of(x), canonical(new_dtype)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)
