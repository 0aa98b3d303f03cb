"""Threefry: random bits as a function of a key and a counter.

A key is two 32-bit words; bits are the cipher of a counter under that key, rotations and additions
only, which every backend computes alike.

After "Parallel random numbers: as easy as 1, 2, 3" (Salmon et al., SC 2011) and "Splittable
pseudorandom number generators using cryptographic hashing" (Claessen and Palka, Haskell 2013).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.kernel.types import ShapedArray, canonical
from jaxlens.core.primitives import elementwise as ew
from jaxlens.core.primitives import pieces, shapes

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_U32 = np.dtype("uint32")
Shape = Sequence[int]


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
    words = pieces.unstack(key)
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
    return basics.full(shape, 0, _U32), low


def bits(key: Any, shape: Shape = (), dtype: Any = np.uint32) -> Any:
    """Returns random bits: unsigned integers of 8, 16, 32 or 64 bits."""
    first, second = threefry(key, *_counted(shape))
    if canonical(dtype) != np.uint64:
        return shapes.convert_element_type(first ^ second, dtype)
    high, low = (shapes.convert_element_type(word, dtype) for word in (first, second))
    return high << 32 | low


def split(key: Any, num: int = 2) -> Any:
    """Splits a key into `num` new keys, u32[num, 2]; do not use the old one again."""
    return pieces.stack(threefry(key, *_counted((num,))), axis=1)


def fold_in(key: Any, data: Any) -> Any:
    """Derives a new key from a key and an integer."""
    zero, word = np.uint32(0), shapes.convert_element_type(data, _U32)
    return pieces.stack(threefry(key, zero, word))
