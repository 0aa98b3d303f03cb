"""Primitives of JAX that the core has by another name, in parts, or with other parameters."""

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import prod
from typing import Any

from jaxlens.core.interop.types import U32
from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.primitives import (
    contractions,
    pieces,
    shapes,
    threefry,
)
from jaxlens.core.transforms.batching import vmap


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

# ---- primitives that have other parameters ------------------------------------------------


def _dot_general(x: Any, y: Any, *, dimension_numbers: Any, preferred_element_type: Any) -> Any:
    dtype = preferred_element_type or aval_of(x).dtype
    return contractions.dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _reshape(x: Any, *, new_sizes: tuple[int, ...], dimensions: Sequence[int] | None) -> Any:
    return basics.reshape(x if dimensions is None else basics.transpose(x, dimensions), new_sizes)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "dot_general": _dot_general,
    "psum": lambda x, *, axes: basics.reduce_sum(x, axes),  # JAX's vmap has made them axes of x
    "reshape": _reshape,
}
