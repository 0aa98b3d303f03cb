"""Random numbers without a state: from a key, the same on every device.

A traced function must give the same for the same arguments, so there is no generator that moves on
behind its back: each draw takes a key, and new keys are split off old ones (`threefry.py`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from ml_dtypes import finfo

from jaxlens.core import numpy as cnp
from jaxlens.core.kernel.types import canonical, x64
from jaxlens.core.primitives import elementwise as ew
from jaxlens.core.primitives import functions as fn
from jaxlens.core.primitives.threefry import bits
from jaxlens.core.primitives.threefry import fold_in as fold_in
from jaxlens.core.primitives.threefry import split as split

Shape = Sequence[int]


def key(seed: int) -> Any:
    """Returns the key for a seed: u32[2], the first 0 where arrays have 32 bits."""
    words = [seed >> 32 & 0xFFFFFFFF if x64() else 0, seed & 0xFFFFFFFF]
    return cnp.array(np.array(words, np.uint32))


PRNGKey = key


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
