"""Abstract values: what is known about an array before there is one.

Tracing runs a Python function on stand-ins that have a shape and a dtype and no numbers. Whatever
can be decided from these two alone is decided then, once; whatever needs the numbers is left to
the compiled program. A third bit, `weak_type`, marks what began as a Python scalar: `2 * x` must
not turn a bf16 `x` into f32 because of the 2.

After "JAX type promotion semantics" (docs.jax.dev, jep/9407).
"""

from contextvars import ContextVar
from functools import cache
from math import prod
from operator import index
from typing import Any

import ml_dtypes
import numpy as np

bfloat16 = np.dtype(ml_dtypes.bfloat16)
float0 = np.dtype([("float0", np.void, 0)])  # the tangent dtype of integers: no numbers at all

_NARROW = {np.dtype(f"{kind}8"): np.dtype(f"{kind}4") for kind in "iuf"}
_NARROW[np.dtype("c16")] = np.dtype("c8")
_KNOWN = {bfloat16, float0, *_NARROW, *_NARROW.values()}
_KNOWN |= set(map(np.dtype, ("bool", "i1", "i2", "u1", "u2", "f2")))
_x64: ContextVar[bool] = ContextVar("x64", default=False)
x64 = _x64.get  # whether arrays may have 64-bit elements now


class Setting:
    """While a context variable has a value: `with Setting(variable, value)`.

    Interpreters change what is current at every step; a generator would cost three times as much.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def enable_x64(on: bool = True) -> Setting:
    """Lets arrays have 64-bit elements inside the `with`; without it they become 32-bit."""
    return Setting(_x64, on)


def canonical(dtype: Any) -> np.dtype:
    """The dtype that an array asked for as `dtype` gets: 32 bits unless x64 is on.

    Raises:
        TypeError: Arrays cannot have such elements.
    """
    return _canonical(dtype, x64())


@cache
def _canonical(dtype: Any, wide: bool) -> np.dtype:
    found: np.dtype = np.dtype(dtype).newbyteorder("=")
    if found not in _KNOWN:
        raise TypeError(f"Arrays have elements that are numbers or bool, got dtype {found}.")
    return found if wide else _NARROW.get(found, found)


class ShapedArray:
    """The type of an array.

    There is one object per type ("hash consing"), so that comparing two is comparing addresses,
    and a tuple of them is a fast key for a cache.

    Attributes:
        shape: Lengths of the axes.
        dtype: NumPy's dtype of an element.
        weak_type: Whether it came from Python scalars only and gives way in promotion.
        strong: The same type, not weak.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    weak_type: bool
    ndim: int
    size: int
    strong: "ShapedArray"
    _all: dict[tuple[Any, ...], "ShapedArray"] = {}  # noqa: RUF012

    def __new__(
        cls, shape: tuple[int, ...], dtype: np.dtype, weak_type: bool = False
    ) -> "ShapedArray":
        found = cls._all.get((shape, dtype, weak_type))
        if found is None:
            shape, dtype, weak_type = tuple(map(index, shape)), np.dtype(dtype), bool(weak_type)
            if min(shape, default=0) < 0:
                raise TypeError(f"A shape must have no negative lengths, got {shape}.")
            new = object.__new__(cls)
            new.shape, new.dtype, new.weak_type = shape, dtype, weak_type
            new.ndim, new.size = len(shape), prod(shape)
            new.strong = cls(shape, dtype) if weak_type else new
            found = cls._all.setdefault((shape, dtype, weak_type), new)
        return found

    def update(self, **changes: Any) -> "ShapedArray":
        """The same type but for the attributes given."""
        own: Any = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type}
        return ShapedArray(**(own | changes))

    def str_short(self, short_dtypes: bool = True) -> str:
        """`f32[2,3]`."""
        name = short_name(self.dtype) if short_dtypes else self.dtype.name
        return f"{name}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()}{', weak_type=True' if self.weak_type else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapedArray, (self.shape, self.dtype, self.weak_type)


def named(name: str) -> np.dtype:
    """The dtype of a name, which NumPy does not know for bfloat16."""
    return bfloat16 if name == "bfloat16" else np.dtype(name)


def short_name(dtype: np.dtype) -> str:
    """The name of a dtype as jaxprs have it: f32, bf16, i8, u32, c64, bool."""
    if dtype == float0:
        return "float0"
    name = dtype.name.replace("complex", "c").replace("uint", "u").replace("bfloat", "bf")
    return name if name == "bool" else name.replace("float", "f").replace("int", "i")


def tangent_aval(aval: ShapedArray) -> ShapedArray:
    """The type of small changes of a value: its own if it can change a little, else float0."""
    if is_inexact(aval.dtype):
        return aval.strong
    return ShapedArray(aval.shape, float0)


@cache
def is_inexact(dtype: np.dtype) -> bool:
    """Whether it has derivatives: a float or a complex number."""
    return dtype == bfloat16 or dtype.kind in "fc"


# ---- promotion: the least type above both in a lattice -----------------------------------------

# What stands directly above each type. i*, f* and c* are Python's int, float and complex: weak.
_ABOVE = {
    "bool": ["i*"], "i*": ["uint8", "int8"],
    "uint8": ["int16", "uint16"], "uint16": ["int32", "uint32"],
    "uint32": ["int64", "uint64"], "uint64": ["f*"],
    "int8": ["int16"], "int16": ["int32"], "int32": ["int64"], "int64": ["f*"],
    "f*": ["c*", "bfloat16", "float16"], "bfloat16": ["float32"], "float16": ["float32"],
    "float32": ["float64", "complex64"], "float64": ["complex128"],
    "c*": ["complex64"], "complex64": ["complex128"], "complex128": [],
}  # fmt: skip
_SCALARS = {"i": "i*", "f": "f*", "c": "c*"}
_DEFAULT = {"i*": "int64", "f*": "float64", "c*": "complex128"}  # `canonical` makes them smaller


@cache
def _up(name: str) -> frozenset[str]:
    """A node of the lattice and all above it."""
    return frozenset({name}.union(*map(_up, _ABOVE[name])))


def _node(dtype: np.dtype, weak: bool) -> str:
    return _SCALARS.get(dtype.kind, dtype.name) if weak else dtype.name


@cache
def _promoted(types: tuple[tuple[np.dtype, bool], ...]) -> tuple[np.dtype, bool]:
    if len({dtype for dtype, _ in types}) == 1:  # f16 with weak f16 stays f16
        return types[0][0], all(weak for _, weak in types)
    common = frozenset.intersection(*(_up(_node(*each)) for each in types))
    name = next(name for name in common if _up(name) == common)
    return named(_DEFAULT.get(name, name)), name in _DEFAULT


def promote(*avals: ShapedArray) -> tuple[np.dtype, bool]:
    """The dtype that values of these types are brought to before they meet, and if it is weak."""
    dtype, weak = _promoted(tuple((a.dtype, a.weak_type) for a in avals))
    return canonical(dtype), weak


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of values of these shapes brought together as NumPy does.

    Raises:
        ValueError: An axis has two lengths, neither of them 1.
    """
    if len(set(shapes)) == 1:
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise ValueError(
            f"Incompatible shapes for broadcasting: {listed}. Axes are aligned from the last; "
            f"each pair must be equal or one of them 1."
        ) from None
