"""Types and values between JAX and the core: a key of random numbers is u32[2] in the core."""

from typing import Any

import jax
import numpy as np

from jaxlens.core.kernel.interpreter import NUMBERS, aval_of
from jaxlens.core.kernel.types import ShapedArray, canonical

U32 = np.dtype("uint32")


def is_array(leaf: Any) -> bool:
    """Whether JAX can trace a leaf of the arguments; another is compared."""
    typed = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    return typed or isinstance(leaf, NUMBERS)


def jax_type(value: Any) -> Any:
    """Returns JAX's type of an array, a number, or a type."""
    struct: Any = jax.ShapeDtypeStruct
    if is_key(value):
        return struct(value.shape, value.dtype)
    aval = aval_of(value)
    return struct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def is_key(value: Any) -> bool:
    """Whether a value or type is JAX's key of random numbers, rather than its words."""
    dtypes: Any = jax.dtypes
    dtype = getattr(value, "dtype", None)
    return dtype is not None and bool(dtypes.issubdtype(dtype, dtypes.prng_key))


def words(value: Any) -> Any:
    return jax.random.key_data(value) if is_key(value) else value


def type_of(aval: Any) -> ShapedArray:
    """Returns the core's type for JAX's: a key is two words."""
    if is_key(aval):
        return ShapedArray((*aval.shape, 2), U32)
    return ShapedArray(aval.shape, canonical(aval.dtype), aval.weak_type)
