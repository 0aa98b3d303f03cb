"""Which values are data: what makes a name an input and not a part of the program."""

import sys
from typing import Any

import jax
import numpy as np

from jaxlens.stages.arguments import pytrees


def is_array(value: Any) -> bool:
    """Whether it is one array or NumPy scalar."""
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return True
    core = sys.modules.get("jaxlens.core")  # imported by whoever made the array
    return core is not None and isinstance(value, core.Array)


def holds_arrays(value: Any) -> bool:
    """Whether it is an array, or a pytree with an array among its leaves."""
    return is_array(value) or any(is_array(leaf) for _, leaf in pytrees.leaves(value))
