"""Abstract values: what is known about an array before it exists.

Tracing runs a Python function on stand-ins that have a shape and a dtype but no numbers. What can
be decided from these two alone is decided then, once; what needs the numbers is left to the
compiled program.

    ShapedArray((2, 3), np.dtype("float32"))                  # prints as f32[2,3]

A third property, `weak_type`, marks values that began as Python scalars: `2 * x` must not turn a
bf16 `x` into f32 because of the 2. `transforms/promotion.py` has the rules.

In JAX: `ShapedArray` in jax/_src/core.py, `canonicalize_dtype` in jax/_src/dtypes.py.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from operator import index
from typing import Any

import ml_dtypes
import numpy as np

bfloat16 = np.dtype(ml_dtypes.bfloat16)
float0 = np.dtype([("float0", np.void, 0)])  # the tangent dtype of integers: it holds no numbers

# The 32-bit dtype in place of each 64-bit one, in NumPy's codes: i8 is int64, i4 is int32.
_NARROW = {np.dtype(f"{kind}8"): np.dtype(f"{kind}4") for kind in "iuf"}
_NARROW[np.dtype("c16")] = np.dtype("c8")
_SUPPORTED = {bfloat16, float0, *_NARROW, *_NARROW.values()}
_SUPPORTED |= set(map(np.dtype, ("bool", "i1", "i2", "u1", "u2", "f2")))
_x64: ContextVar[bool] = ContextVar("x64", default=False)
x64 = _x64.get  # whether arrays may have 64-bit elements now


@contextmanager
def setting(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Sets a context variable within a `with`."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def enable_x64(on: bool = True) -> AbstractContextManager[None]:
    """Allows 64-bit elements within the `with`; elsewhere they become 32-bit."""
    return setting(_x64, on)


def is_key(dtype: Any) -> bool:
    """Whether elements are JAX's keys of random numbers, whose dtype is none of NumPy's."""
    return type(dtype).__name__ == "KeyTy"


def canonical(dtype: Any) -> np.dtype:
    """Returns the dtype that an array of this dtype is given: 32-bit unless x64 is enabled.

    Raises:
        TypeError: Arrays cannot have such elements.
    """
    own: np.dtype = _canonical(dtype, x64())
    return own


@cache
def _canonical(dtype: Any, wide: bool) -> Any:
    if is_key(dtype):
        return dtype
    native: np.dtype = np.dtype(dtype).newbyteorder("=")
    if native not in _SUPPORTED:
        raise TypeError(f"Arrays have elements that are numbers or bool, got dtype {native}.")
    return native if wide else _NARROW.get(native, native)


@dataclass(frozen=True, slots=True)
class ShapedArray:
    """The type of an array.

    Attributes:
        shape: Lengths of the axes.
        dtype: NumPy's dtype of an element.
        weak_type: Whether it comes from Python scalars only and gives way in promotion.
        strong: The same type with `weak_type=False`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    weak_type: bool = False

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: prod(self.shape))
    strong = property(lambda self: ShapedArray(self.shape, self.dtype))

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(map(index, self.shape)))
        if not is_key(self.dtype):
            object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if min(self.shape, default=0) < 0:
            raise TypeError(f"A shape must have no negative lengths, got {self.shape}.")

    def update(self, **changes: Any) -> "ShapedArray":
        """Returns the same type with some attributes replaced."""
        return replace(self, **changes)

    def str_short(self, short_dtypes: bool = True) -> str:
        """Formats as in jaxprs: `f32[2,3]`."""
        name = short_name(self.dtype) if short_dtypes else self.dtype.name
        return f"{name}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()}{', weak_type=True' if self.weak_type else ''})"


def short_name(dtype: np.dtype) -> str:
    """Returns the name of a dtype in jaxprs: f32, bf16, i8, u32, c64, bool."""
    if dtype == float0:
        return "float0"
    name: str = dtype.name.replace("complex", "c").replace("uint", "u").replace("bfloat", "bf")
    return name if name == "bool" else name.replace("float", "f").replace("int", "i")


def tangent_aval(aval: ShapedArray) -> ShapedArray:
    """Returns the type of a value's tangent: its own type if it is inexact, else `float0`."""
    return aval if is_inexact(aval.dtype) else ShapedArray(aval.shape, float0)


@cache
def kind(dtype: np.dtype) -> str:
    """Returns NumPy's letter for a dtype: f also for bfloat16; a letter of its own for keys."""
    return "key" if is_key(dtype) else "f" if dtype == bfloat16 else dtype.kind


def is_inexact(dtype: np.dtype) -> bool:
    """Whether elements are floating or complex, so have derivatives."""
    return kind(dtype) in ("f", "c")
