"""The primitives' functions under one roof, by the names that `jax.lax` has.

A strict layer below `numpy`: no promotion, shapes must fit.
"""

from importlib import import_module
from typing import Any

from jaxlens.core.kernel.interpreter import Primitive

_FILES = (
    "kernel.basics primitives.gathering primitives.contractions primitives.convolution "
    "primitives.cumulative primitives.sorting primitives.dynamic_slices primitives.pieces "
    "primitives.shapes primitives.functions primitives.elementwise control.branches control.loops "
    "control.scans control.folds parallel.collectives transforms.custom transforms.remat"
)
_MODULES = [vars(import_module(f"jaxlens.core.{name}")) for name in _FILES.split()]


def __getattr__(name: str) -> Any:
    for module in _MODULES:
        member = module.get(name)
        if callable(member) and getattr(member, "__module__", "").startswith("jaxlens.core"):
            return member
        primitive = module.get(f"{name}_p")
        if isinstance(primitive, Primitive):
            return primitive.bind
    raise AttributeError(f"jaxlens.core.lax has no {name!r}")
