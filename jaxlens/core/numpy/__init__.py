"""NumPy's functions on traced values: the library that users write their programs with.

    import jaxlens.core.numpy as cnp

Functions of elements are in `ufuncs.py`, making and reshaping arrays in `arrays.py`, everything
over axes in `reductions.py`. Here their names come together, and values get their operators and
methods: `x + y` is `add(x, y)`, `x.sum()` is `sum(x)`.
"""

from difflib import get_close_matches
from typing import Any

import numpy as np

from jaxlens.core.avals import bfloat16 as bfloat16
from jaxlens.core.numpy import arrays, reductions, ufuncs
from jaxlens.core.primitives import indexing
from jaxlens.core.tracers import Value

bool_, int8, int16, int32, int64 = map(np.dtype, ("bool", "int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = map(np.dtype, ("float16", "float32", "float64"))
complex64, complex128 = map(np.dtype, ("complex64", "complex128"))
pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None
ndarray = Value

_FUNCTIONS = {
    name: function
    for module in (ufuncs, arrays, reductions)
    for name, function in vars(module).items()
    if getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")
}
globals().update(_FUNCTIONS)


def __getattr__(name: str) -> Any:
    near = get_close_matches(name, _FUNCTIONS, 1)
    hint = f": did you mean {near[0]}?" if near else "."
    raise AttributeError(f"jaxlens.core.numpy has no {name!r}{hint}")


def _reversed(function: Any) -> Any:
    return lambda x, y: function(y, x)


_OPERATORS = {
    "add": ufuncs.add, "sub": ufuncs.subtract, "mul": ufuncs.multiply,
    "truediv": ufuncs.divide, "floordiv": ufuncs.floor_divide, "mod": ufuncs.remainder,
    "pow": ufuncs.power, "matmul": reductions.matmul, "and": ufuncs.bitwise_and,
    "or": ufuncs.bitwise_or, "xor": ufuncs.bitwise_xor, "lshift": ufuncs.left_shift,
    "rshift": ufuncs.right_shift,
}  # fmt: skip
_COMPARISONS = {
    "eq": ufuncs.equal, "ne": ufuncs.not_equal, "lt": ufuncs.less, "le": ufuncs.less_equal,
    "gt": ufuncs.greater, "ge": ufuncs.greater_equal,
}  # fmt: skip
_UNARY = {"neg": ufuncs.negative, "abs": ufuncs.abs, "invert": ufuncs.bitwise_not}
_NUMBERS = (Value, int, float, complex)
_METHODS = (
    "all any argmax argmin argsort astype clip conj cumprod cumsum dot max mean min prod ravel "
    "repeat reshape round sort squeeze std sum swapaxes take transpose var"
)


def _give_methods() -> None:
    """Makes values behave like NumPy's arrays."""
    for name, function in _OPERATORS.items():
        setattr(Value, f"__{name}__", _operator(function))
        setattr(Value, f"__r{name}__", _operator(_reversed(function)))
    for name, function in _COMPARISONS.items():
        setattr(Value, f"__{name}__", _operator(function))
    for name, unary in _UNARY.items():
        setattr(Value, f"__{name}__", _method(unary))
    for name in _METHODS.split():
        setattr(Value, name, _FUNCTIONS[name])
    attributes = {
        "T": arrays.transpose, "real": ufuncs.real, "imag": ufuncs.imag, "at": indexing.At,
    }  # fmt: skip
    for name, attribute in attributes.items():
        setattr(Value, name, property(attribute))
    methods = {
        "__getitem__": indexing.index, "__setitem__": _unchangeable, "flatten": arrays.ravel,
    }  # fmt: skip
    for name, method in methods.items():
        setattr(Value, name, method)


def _method(function: Any) -> Any:
    return lambda x: function(x)


def _operator(function: Any) -> Any:
    """An operator that leaves operands that are no arrays to answer themselves."""

    def operate(x: Any, y: Any) -> Any:
        return function(x, y) if isinstance(y, _NUMBERS) or hasattr(y, "dtype") else NotImplemented

    return operate


def _unchangeable(x: Value, index: Any, value: Any) -> None:
    raise TypeError(
        f"arrays do not change: {x.aval.str_short()} has no item assignment. For x[i] = y write "
        f"x = x.at[i].set(y)."
    )


_give_methods()
