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
from ml_dtypes import finfo

from jaxlens.core import numpy as cnp
from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.kernel.types import ShapedArray, canonical, x64
from jaxlens.core.primitives import elementwise as ew
from jaxlens.core.primitives import functions as fn
from jaxlens.core.primitives import shapes

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_U32 = np.dtype("uint32")
Shape = Sequence[int]


def key(seed: int) -> Any:
    """Returns the key for a seed: u32[2], the first 0 where arrays have 32 bits."""
    words = [seed >> 32 & 0xFFFFFFFF if x64() else 0, seed & 0xFFFFFFFF]
    return cnp.array(np.array(words, np.uint32))


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


def bits(key: Any, shape: Shape = (), dtype: Any = np.uint32) -> Any:
    """Returns random bits: unsigned integers of 8, 16, 32 or 64 bits."""
    first, second = threefry(key, *_counted(shape))
    if canonical(dtype) != np.uint64:
        return cnp.astype(first ^ second, dtype)
    return cnp.astype(first, dtype) << 32 | cnp.astype(second, dtype)


def split(key: Any, num: int = 2) -> Any:
    """Splits a key into `num` new keys, u32[num, 2]; do not use the old one again."""
    return cnp.stack(threefry(key, *_counted((num,))), axis=1)


def fold_in(key: Any, data: Any) -> Any:
    """Derives a new key from a key and an integer."""
    zero, word = np.uint32(0), cnp.astype(data, _U32)
    return cnp.stack(threefry(key, zero, word))


def uniform(
    key: Any, shape: Shape = (), dtype: Any = float, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Samples the uniform distribution on [minval, maxval), with a random mantissa."""
    dtype = canonical(dtype)
    kind, mantissa = np.dtype(f"u{dtype.itemsize}"), finfo(dtype).nmant  # type: ignore[no-untyped-call]
    drawn = np.dtype("u1") if mantissa < 8 else kind
    number = cnp.astype(bits(key, shape, drawn), kind)
    number = ew.shift_right_logical_p.bind(number, kind.type(8 * drawn.itemsize - mantissa))
    one = np.ones((), dtype).view(kind)[()]  # its bits: from 1 to 2 the mantissa is the number
    floats = ew.bitcast_convert_type(number | one, dtype) - np.ones((), dtype)[()]
    low, high = cnp.astype(minval, dtype), cnp.astype(maxval, dtype)
    return cnp.maximum(low, floats * (high - low) + low)


def normal(key: Any, shape: Shape = (), dtype: Any = float) -> Any:
    """Samples the standard normal distribution."""
    dtype = canonical(dtype)
    low, high = np.nextafter(np.array(-1, dtype), np.array(0, dtype)), np.array(1, dtype)
    even = uniform(key, shape, dtype, low[()], high[()])
    return fn.erf_inv_p.bind(even) * np.sqrt(2).astype(dtype)


def bernoulli(key: Any, p: Any = 0.5, shape: Shape = ()) -> Any:
    """Samples booleans that are true with probability `p`."""
    return uniform(key, shape) < p


def __getattr__(name: str) -> Any:
    raise cnp.missing("random", name)
