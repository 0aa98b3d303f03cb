"""Primitives of JAX that the core has by another name, in parts, or with other parameters."""

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import log, prod
from typing import Any

import numpy as np

from jaxlens.core.interop.types import U32
from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.primitives import (
    contractions,
    elementwise,
    functions,
    gathering,
    pieces,
    shapes,
    threefry,
)
from jaxlens.core.transforms.batching import vmap

SCATTERS = "scatter scatter-add scatter-sub scatter-mul scatter-min scatter-max".split()


class MissingPrimitiveError(NotImplementedError):
    """The core cannot apply an equation of JAX: it has no such primitive, or not this of it."""


@cache
def primitives() -> dict[str, Primitive]:
    """Returns the primitives of the core by name, without those of files that were deleted."""
    modules = [m for n, m in list(sys.modules.items()) if n.startswith("jaxlens.core.")]
    values = (value for module in modules for value in vars(module).values())
    return {value.name: value for value in values if isinstance(value, Primitive)}


# ---- random numbers: a key is u32[2] ------------------------------------------------------------


def _seed(seeds: Any) -> Any:
    low = shapes.convert_element_type(seeds, U32)
    wide = aval_of(seeds).dtype.itemsize == 8
    high = shapes.convert_element_type(seeds >> 32, U32) if wide else low ^ low
    return pieces.stack([high, low], aval_of(low).ndim)


def _of_each(f: Callable[..., Any], keys: Any, *args: Any) -> Any:
    """Applies a function of a key to an array of keys."""
    for _ in aval_of(keys).shape[1:]:
        f = vmap(f)
    return f(keys, *args)


def _split(keys: Any, *, shape: tuple[int, ...]) -> Any:
    return _of_each(lambda key: threefry.split(key, prod(shape)).reshape(*shape, 2), keys)


def _bits(keys: Any, *, bit_width: int, shape: tuple[int, ...]) -> Any:
    return _of_each(partial(threefry.bits, shape=shape, dtype=f"uint{bit_width}"), keys)


RANDOM: dict[str, Callable[..., Any]] = {
    "random_seed": _seed,
    "random_wrap": lambda words: words,
    "random_unwrap": lambda words: words,
    "random_clone": lambda words: words,
    "random_split": _split,
    "random_bits": _bits,
    "random_fold_in": lambda keys, data: _of_each(threefry.fold_in, keys, data),
}

# ---- primitives that the core writes with others ------------------------------------------------


def _over_examples(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the rule of a collective, whose axes JAX's vmap has made axes of the array."""
    return lambda x, *, axes: reduce(x, axes)


def _tile(x: Any, *, reps: Sequence[int]) -> Any:
    for axis, count in enumerate(reps):
        x = pieces.concatenate([x] * count, axis)
    return x


def _ordered(x: Any) -> Any:
    """Returns integers in the total order of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if elementwise.kind(aval_of(x).dtype) in "biu":
        return x
    bits = elementwise.bitcast_convert_type(x, f"int{8 * aval_of(x).dtype.itemsize}")
    return elementwise.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    if out_dtype is not None:
        x, y = (shapes.convert_element_type(operand, out_dtype) for operand in (x, y))
    return elementwise.mul(x, y)


def _pow(x: Any, y: Any) -> Any:
    return functions.pow_p.bind(x, shapes.convert_element_type(y, aval_of(x).dtype))


def _dot_general(x: Any, y: Any, *, dimension_numbers: Any, preferred_element_type: Any) -> Any:
    dtype = preferred_element_type or aval_of(x).dtype
    return contractions.dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _conv(x: Any, kernel: Any, **params: Any) -> Any:
    dtype, groups = params.pop("preferred_element_type"), params.pop("batch_group_count")
    if groups != 1 or dtype not in (None, aval_of(x).dtype):
        raise MissingPrimitiveError(
            "jaxlens.core has no conv_general_dilated with batch_group_count or "
            "preferred_element_type."
        )
    return primitives()["conv_general_dilated"].bind(x, kernel, **params)


def _reshape(x: Any, *, new_sizes: tuple[int, ...], dimensions: Sequence[int] | None) -> Any:
    return basics.reshape(x if dimensions is None else basics.transpose(x, dimensions), new_sizes)


def _gather(x: Any, indices: Any, *, dimension_numbers: Any, mode: Any, **params: Any) -> Any:
    params["dimension_numbers"] = gathering.GatherDimensionNumbers(*dimension_numbers)
    params["mode"] = gathering.GatherScatterMode[mode.name]
    return gathering.gather_p.bind(x, indices, **params)


def _scatter(name: str) -> Callable[..., Any]:
    """Binds a scatter of the core, whose name says how it combines old and new."""

    def scatter(
        *args: Any, dimension_numbers: Any, mode: Any, update_jaxpr: Any, **params: Any
    ) -> Any:
        if name == "scatter" and update_jaxpr is not None and update_jaxpr.eqns:
            raise MissingPrimitiveError("jaxlens.core has no scatter that applies a function.")
        params["dimension_numbers"] = gathering.ScatterDimensionNumbers(*dimension_numbers)
        params["mode"] = gathering.GatherScatterMode[mode.name]
        return primitives()[name].bind(*args, **params)

    return scatter


OPERATIONS: dict[str, Callable[..., Any]] = {
    "conv_general_dilated": _conv,
    "copy": lambda x: x,
    "copy_p": lambda x: x,
    "dot_general": _dot_general,
    "empty": lambda *, shape, dtype: basics.full(shape, 0, dtype),
    "exp2": lambda x: functions.exp_p.bind(x * log(2)),
    "gather": _gather,
    "le_to": lambda x, y: _ordered(x) <= _ordered(y),
    "lt_to": lambda x, y: _ordered(x) < _ordered(y),
    "mul": _mul,
    "optimization_barrier": lambda *args: args,
    "pmax": _over_examples(contractions.reduce_max),
    "pmin": _over_examples(contractions.reduce_min),
    "pow": _pow,
    "psum": _over_examples(basics.reduce_sum),
    "reshape": _reshape,
    "stack": lambda *args, axis: pieces.stack(args, axis),
    "tile": _tile,
    "unstack": lambda x, *, axis: pieces.unstack(x, axis),
    **{name: _scatter(name) for name in SCATTERS},
}
