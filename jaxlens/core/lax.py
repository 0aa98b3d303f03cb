"""The primitives' functions under one roof, by the names that `jax.lax` has.

A strict layer below `numpy`: no promotion, shapes must fit. It has what the imported files define.
"""

import sys
from typing import Any

from jaxlens.core.kernel.interpreter import Primitive

_PARTS = ("kernel.basics", "primitives.", "control.", "parallel.")
_FILES = tuple(f"jaxlens.core.{part}" for part in _PARTS)


def __getattr__(name: str) -> Any:
    files = [] if name.startswith("_") else [f for f in list(sys.modules) if f.startswith(_FILES)]
    for module in map(sys.modules.__getitem__, files):
        member = vars(module).get(name)
        if callable(member) and getattr(member, "__module__", "").startswith("jaxlens.core"):
            return member
        primitive = vars(module).get(f"{name}_p")
        if isinstance(primitive, Primitive):
            return primitive.bind
    raise AttributeError(f"jaxlens.core.lax has no {name!r}")
