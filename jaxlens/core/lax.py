"""The primitives' functions under one roof, by the names that `jax.lax` has.

A strict layer below `numpy`: no promotion, shapes must fit.
"""

from importlib import import_module
from typing import Any

from jaxlens.core.kernel.interpreter import Primitive

_FILES = {
    "kernel": "basics",
    "primitives": "gathering contractions convolution cumulative sorting dynamic_slices pieces "
    "shapes functions elementwise",
    "control": "branches loops scans folds",
    "parallel": "collectives",
}
_NAMES = [f"{folder}.{name}" for folder, names in _FILES.items() for name in names.split()]
_PLACES = [
    vars(import_module(f"jaxlens.core.{name}"))
    for name in (*_NAMES, "transforms.custom", "transforms.remat")
]


def __getattr__(name: str) -> Any:
    for place in _PLACES:
        member = place.get(name)
        if callable(member) and getattr(member, "__module__", "").startswith("jaxlens.core"):
            return member
        primitive = place.get(f"{name}_p")
        if isinstance(primitive, Primitive):
            return primitive.bind
    raise AttributeError(f"jaxlens.core.lax has no {name!r}")
