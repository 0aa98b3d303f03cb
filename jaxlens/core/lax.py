"""Functions under the names that `jax.lax` has: the core's, and JAX's where it has none.

A strict layer below `numpy`: no promotion, shapes must fit. The core's are what the files of its
primitives, loops and collectives define.
"""

import sys
from typing import Any

from jaxlens.core.interop.from_jax import library

_PARTS = ("kernel.basics", "primitives.", "control.", "folds", "parallel.")
_FILES = tuple(f"jaxlens.core.{part}" for part in _PARTS)


def __getattr__(name: str) -> Any:
    files = [] if name.startswith("_") else [f for f in list(sys.modules) if f.startswith(_FILES)]
    for module in map(sys.modules.__getitem__, files):
        member = vars(module).get(name)
        if callable(member) and getattr(member, "__module__", "").startswith("jaxlens.core"):
            return member
    return library("lax", name)
