"""Types and values between JAX and the core.

For the core a key of random numbers is a container of its words, u32[2]: so it goes through the
core's transformations, and JAX traces a key where there was one.
"""

from functools import cache, partial
from typing import Any

import jax
import numpy as np

from jaxlens.core.aot.device import KeyArray
from jaxlens.core.kernel.interpreter import NUMBERS, aval_of
from jaxlens.core.kernel.types import ShapedArray, canonical
from jaxlens.core.transforms.trees import register_pytree_node

U32 = np.dtype("uint32")


@cache
def _key_dtype() -> Any:
    return jax.eval_shape(partial(jax.random.key, impl="threefry2x32"), 0).dtype


class RandomKey:
    """A key of random numbers, or an array of keys, in the core.

    Attributes:
        words: Its words, u32[..., 2].
    """

    def __init__(self, words: Any) -> None:
        self.words = words

    shape = property(lambda self: aval_of(self.words).shape[:-1])
    dtype = property(lambda self: _key_dtype())

    def to_jax(self) -> Any:
        """Returns the key of JAX, if the words are an array of JAX."""
        return jax.random.wrap_key_data(self.words)

    def __repr__(self) -> str:
        return f"RandomKey({self.words})"


register_pytree_node(RandomKey, lambda key: ((key.words,), None), lambda _, xs: RandomKey(*xs))
if KeyArray is not None:
    register_pytree_node(
        KeyArray, lambda key: ((jax.random.key_data(key),), None), lambda _, xs: RandomKey(*xs)
    )


def is_array(leaf: Any, numbers: bool = True) -> bool:
    """Whether JAX traces a leaf of the arguments, `numbers` of Python too; else it is compared."""
    typed = hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, type)
    return typed or (numbers and isinstance(leaf, NUMBERS))


def compared(leaf: Any) -> Any:
    """Returns what is compared of a leaf that is not traced: 1, 1.0 and True are three."""
    return (type(leaf), repr(leaf)) if isinstance(leaf, NUMBERS) else leaf


def jax_type(value: Any) -> Any:
    """Returns JAX's type of an array, a number, or a type."""
    struct: Any = jax.ShapeDtypeStruct
    if is_key(value):
        return struct(value.shape, value.dtype)
    aval = aval_of(value)
    return struct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def is_key(value: Any) -> bool:
    """Whether a value or type is JAX's key of random numbers, rather than its words.

    Raises:
        TypeError: It is a key of other random numbers than the core's.
    """
    dtypes: Any = jax.dtypes
    dtype = getattr(value, "dtype", None)
    if dtype is None or not dtypes.issubdtype(dtype, dtypes.prng_key):
        return False
    if dtype != _key_dtype():
        raise TypeError(f"jaxlens.core has the random numbers of {_key_dtype()}, not of {dtype}.")
    return True


def words(value: Any) -> Any:
    """Returns the words of a key; any other value as it is."""
    if isinstance(value, RandomKey):
        return value.words
    return jax.random.key_data(value) if is_key(value) else value


def type_of(aval: Any) -> ShapedArray:
    """Returns the core's type for JAX's: a key is two words."""
    if is_key(aval):
        return ShapedArray((*aval.shape, 2), U32)
    return ShapedArray(aval.shape, canonical(aval.dtype), aval.weak_type)
