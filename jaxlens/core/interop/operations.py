"""Primitives of JAX that the core has in other parts, or with other parameters."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.primitives import contractions


class MissingPrimitiveError(NotImplementedError):
    """The core cannot apply an equation of JAX: it has no such primitive, or not this of it."""


@cache
def primitives() -> dict[str, Primitive]:
    """Returns the primitives of the core by name, without those of files that were deleted."""
    modules = [m for n, m in list(sys.modules.items()) if n.startswith("jaxlens.core.")]
    values = (value for module in modules for value in vars(module).values())
    return {value.name: value for value in values if isinstance(value, Primitive)}


def _dot_general(x: Any, y: Any, *, dimension_numbers: Any, preferred_element_type: Any) -> Any:
    dtype = preferred_element_type or aval_of(x).dtype
    return contractions.dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _reshape(x: Any, *, new_sizes: tuple[int, ...], dimensions: Sequence[int] | None) -> Any:
    return basics.reshape(x if dimensions is None else basics.transpose(x, dimensions), new_sizes)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "dot_general": _dot_general,
    "psum": lambda x, *, axes: basics.reduce_sum(x, axes),  # JAX's vmap has made them axes of x
    "reshape": _reshape,
}
