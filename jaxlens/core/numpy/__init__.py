"""NumPy's functions on traced values: the library that users write their programs with.

    import jaxlens.core.numpy as cnp

Functions of elements are in `ufuncs.py`, making and reshaping arrays in `arrays.py`, `x[...]` in
`indexing.py`. Here their names come together, and values get their operators and methods: `x + y`
is `add(x, y)`, `x.sum()` is `sum(x)`.

These are few, to show how a function becomes primitives. All others are JAX's, traced by JAX and
run by the core: `cnp.sort(x)` is `core.from_jax(jax.numpy.sort)(x)`.
"""

from collections.abc import Iterator
from functools import wraps
from typing import Any

import numpy as np

from jaxlens.core.interop.from_jax import from_jax, library
from jaxlens.core.kernel.interpreter import Value
from jaxlens.core.kernel.types import bfloat16 as bfloat16
from jaxlens.core.numpy import arrays, indexing, ufuncs
from jaxlens.core.transforms.values import as_value

bool_, int8, int16, int32, int64 = map(np.dtype, ("bool", "int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = map(np.dtype, ("float16", "float32", "float64"))
complex64, complex128 = map(np.dtype, ("complex64", "complex128"))
pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None
ndarray = Value

_FUNCTIONS = {
    name: function
    for module in (ufuncs, arrays)
    for name, function in vars(module).items()
    if getattr(function, "__module__", "") == module.__name__ and hasattr(np, name)
}


def _entry(function: Any) -> Any:
    """Returns the function as users call it: a number that it has not touched leaves as a value."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return as_value(function(*args, **kwargs))

    call.__module__ = __name__  # which has it by its name
    return call


globals().update({name: _entry(function) for name, function in _FUNCTIONS.items()})


def __dir__() -> list[str]:
    return [name for name in globals() if hasattr(np, name) or name == "bfloat16"]


def __getattr__(name: str) -> Any:
    return library("numpy", name)


# Python's name of each operator, and NumPy's of its function.
_OPERATORS = (
    "add=add sub=subtract mul=multiply truediv=divide floordiv=floor_divide mod=remainder "
    "pow=power matmul=matmul and=bitwise_and or=bitwise_or xor=bitwise_xor lshift=left_shift "
    "rshift=right_shift"
)
_COMPARISONS = "eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal"
_METHODS = "all any argmax argmin astype clip dot max mean min ravel reshape squeeze std sum var"
_NUMBERS = (Value, int, float, complex)


def _operators(form: str, table: str, swap: bool = False) -> dict[str, Any]:
    """Returns the methods for operators; for an operand that is no array: NotImplemented."""

    def operator(function: Any) -> Any:
        def operate(x: Any, y: Any) -> Any:
            if not isinstance(y, _NUMBERS) and not hasattr(y, "dtype"):
                return NotImplemented
            return function(y, x) if swap else function(x, y)

        return operate

    pairs = (pair.split("=") for pair in table.split())
    return {form.format(name): operator(_function(function)) for name, function in pairs}


def _function(name: str) -> Any:
    return _FUNCTIONS[name] if name in _FUNCTIONS else library("numpy", name)


def _length(x: Value) -> int:
    if not x.aval.shape:
        raise TypeError("len() of an array without axes")
    return x.aval.shape[0]


def _rows(x: Value) -> Iterator[Any]:
    if not x.aval.shape:
        raise TypeError("iteration over an array without axes")
    return (indexing.index(x, i) for i in range(x.aval.shape[0]))


def _unchangeable(x: Value, index: Any, value: Any) -> None:
    raise TypeError(
        f"arrays do not change: {x.aval.str_short()} has no item assignment. For x[i] = y write "
        f"x = x.at[i].set(y)."
    )


_ATTRIBUTES = {
    **{name: _function(name) for name in _METHODS.split()},
    **_operators("__{}__", f"{_OPERATORS} {_COMPARISONS}"),
    **_operators("__r{}__", _OPERATORS, swap=True),
    "__neg__": ufuncs.negative,
    "__abs__": library("numpy", "abs"),
    "__invert__": ufuncs.bitwise_not,
    "__len__": _length,
    "__iter__": _rows,
    "__getitem__": indexing.index,
    "__setitem__": _unchangeable,
    "flatten": arrays.ravel,
    "T": property(library("numpy", "transpose")),
    "transpose": from_jax(lambda x, *axes: x.transpose(*axes), of_library=True),
    "real": property(library("numpy", "real")),
    "imag": property(library("numpy", "imag")),
    "at": property(indexing.At),
}
for _name, _attribute in _ATTRIBUTES.items():  # so that values behave like NumPy's arrays
    setattr(Value, _name, _attribute)
