"""Random numbers without a state: from a key, the same on every device.

A traced function must give the same for the same arguments, so there is no generator that moves on
behind its back: each draw takes a key, and new keys are split off old ones. A key is two 32-bit
words; bits are the cipher Threefry of a counter under that key, rotations and additions only, which
every backend computes alike.

After "Parallel random numbers: as easy as 1, 2, 3" (Salmon et al., SC 2011) and "Splittable
pseudorandom number generators using cryptographic hashing" (Claessen and Palka, Haskell 2013).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxlens.core import numpy as cnp
from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.kernel.types import ShapedArray, canonical
from jaxlens.core.primitives import elementwise as ew
from jaxlens.core.primitives import functions as fn
from jaxlens.core.primitives import shapes

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_U32 = np.dtype("uint32")
Shape = Sequence[int]


def key(seed: int) -> Any:
    """Returns the key for a seed: u32[2]."""
    return cnp.array(np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32))


PRNGKey = key


def threefry(key: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Twenty rounds of Threefry-2x32 on pairs of words.

    Args:
        key: u32[2].
        low: u32 of any shape.
        high: The other words, of the same shape.

    Returns:
        The two words of each pair, enciphered.
    """
    if aval_of(key) != ShapedArray((2,), _U32):
        raise TypeError(
            f"random: expected a key, u32[2] from random.key(seed) or random.split, got "
            f"{aval_of(key).str_short()}."
        )
    words = [key[0], key[1]]
    words.append(words[0] ^ words[1] ^ _PARITY)
    x, y = low + words[0], high + words[1]
    for turn in range(5):
        for distance in _ROTATIONS[turn % 2]:
            x = x + y
            y = x ^ _rotated(y, distance)
        x = x + words[(turn + 1) % 3]
        y = y + words[(turn + 2) % 3] + np.uint32(turn + 1)
    return x, y


def _rotated(x: Any, distance: int) -> Any:
    left = ew.shift_left_p.bind(x, np.uint32(distance))
    return left | ew.shift_right_logical_p.bind(x, np.uint32(32 - distance))


def _counted(shape: Shape) -> tuple[Any, Any]:
    """Returns the index of each element as a high word (always 0 here) and a low word."""
    size = int(np.prod(shape, dtype=object))
    low = basics.reshape(shapes.iota(_U32, (size,), 0), tuple(shape))
    return cnp.zeros(shape, _U32), low


def bits(key: Any, shape: Shape = ()) -> Any:
    """Returns random bits: u32 of a shape."""
    first, second = threefry(key, *_counted(shape))
    return first ^ second


def split(key: Any, num: int = 2) -> Any:
    """Splits a key into `num` new keys, u32[num, 2]; do not use the old one again."""
    return cnp.stack(threefry(key, *_counted((num,))), axis=1)


def fold_in(key: Any, data: Any) -> Any:
    """Derives a new key from a key and an integer."""
    zero, word = np.uint32(0), cnp.astype(data, _U32)
    return cnp.stack(threefry(key, zero, word))


def uniform(
    key: Any, shape: Shape = (), dtype: Any = np.float32, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Samples the uniform distribution on [minval, maxval), with 23 random bits."""
    mantissa = ew.shift_right_logical_p.bind(bits(key, shape), np.uint32(9))
    one_bits = np.uint32(0x3F800000)  # the bits of 1.0: between 1 and 2 the mantissa is the number
    floats = ew.bitcast_convert_type(mantissa | one_bits, np.dtype("float32")) - np.float32(1)
    wide = floats * (maxval - minval) + minval
    return cnp.astype(cnp.maximum(cnp.astype(minval, np.float32), wide), dtype)


def normal(key: Any, shape: Shape = (), dtype: Any = np.float32) -> Any:
    """Samples the standard normal distribution."""
    low = np.nextafter(np.float32(-1), np.float32(0))
    even = uniform(key, shape, np.float32, low, np.float32(1))
    return cnp.astype(fn.erf_inv_p.bind(even) * np.float32(np.sqrt(2)), dtype)


def bernoulli(key: Any, p: Any = 0.5, shape: Shape = ()) -> Any:
    """Samples booleans that are true with probability `p`."""
    return uniform(key, shape) < p


def randint(key: Any, shape: Shape, minval: int, maxval: int, dtype: Any = np.int32) -> Any:
    """Samples integers in [minval, maxval), nearly uniform if the span is small beside 2**32."""
    span = np.uint32(maxval - minval)
    return cnp.astype(bits(key, shape) % span, canonical(dtype)) + minval


def categorical(key: Any, logits: Any, axis: int = -1) -> Any:
    """Samples indices along an axis by unnormalised log probabilities."""
    return cnp.argmax(logits + gumbel(key, aval_of(logits).shape), axis)


def gumbel(key: Any, shape: Shape = ()) -> Any:
    """Samples the standard Gumbel distribution."""
    tiny = np.finfo(np.float32).tiny
    return -cnp.log(-cnp.log(uniform(key, shape, np.float32, tiny, 1.0)))


def permutation(key: Any, n: int) -> Any:
    """Returns a random permutation of 0 to n - 1."""
    return cnp.argsort(bits(key, (n,)))
