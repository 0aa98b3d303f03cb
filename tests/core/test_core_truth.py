"""A truth table: each function of `core.numpy` at each dtype's corners, beside `jax.numpy`.

Compared are value, shape, dtype, weak type, and the class of an error. All calls of a function are
one program, so that the table compiles little.
"""

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxlens.core.numpy as cnp
from jaxlens import core

FLOATS = (-np.inf, -1.0, -0.0, 0.0, 0.5, 3.0, np.inf, np.nan)
CORNERS = {
    "bool": [False, True],
    **dict.fromkeys(("int8", "int16", "int32"), (-3, -1, 0, 1, 5)),
    **dict.fromkeys(("uint8", "uint16", "uint32"), (0, 1, 3, 5)),
    **dict.fromkeys(("float16", "bfloat16", "float32"), FLOATS),
    "complex64": [0, 1 + 2j, -1j, 2],
}
NUMBERS = [2, 1j]
ORDERED = {"maximum", "minimum", "less", "less_equal", "greater", "greater_equal", "max", "min"}
ORDERED |= {"sort", "argsort", "argmax", "argmin"}  # README: complex numbers have no order

UNARY = (
    "negative sign abs isfinite isnan exp expm1 log log1p sqrt square sin cos tan tanh arcsin "
    "arccos arctan sinh cosh floor ceil conj real imag logical_not bitwise_not"
).split()
BINARY = (
    "add subtract multiply true_divide maximum minimum equal not_equal less less_equal greater "
    "greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift power floor_divide "
    "remainder arctan2 logical_and logical_or"
).split()
REDUCED = "sum prod mean var std max min any all argmax argmin cumsum cumprod sort argsort".split()
# JAX looks at the real part alone in `all` and `any`, and rounds up in `ceil` through its own op.
DIFFERENT = {("all", "complex64"), ("any", "complex64")}


def corners(dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return np.array(CORNERS[dtype]).astype(kind)


def calls(name):
    """Returns lists of arguments for a function: arrays of corners, and numbers beside them."""
    dtypes = [dtype for dtype in CORNERS if (name, dtype) not in DIFFERENT]
    dtypes = [dtype for dtype in dtypes if not (name in ORDERED and dtype == "complex64")]
    arrays = {dtype: corners(dtype) for dtype in dtypes}
    if name in UNARY:
        return [(x,) for x in arrays.values()]
    if name in REDUCED:
        several = [(x[-2:], x[:0], np.stack([x, x[::-1]]), x[1]) for x in arrays.values()]
        return [(x,) for x in itertools.chain(*several)]
    pairs = [tuple(np.array([*itertools.product(x, x)]).T) for x in arrays.values()]
    beside = [n for n in NUMBERS if not (name in ORDERED and isinstance(n, complex))]
    return [*pairs, *itertools.product(arrays.values(), beside)]


def outcomes(api, f, arguments):
    """Returns what each call gives: its result's type and elements, or the class of its error."""
    found, works = {}, []
    for n, args in enumerate(arguments):
        try:
            api.make_jaxpr(f)(*args)
            works.append(n)
        except (TypeError, ValueError) as error:
            found[n] = type(error).__name__
    results = api.jit(lambda several: [f(*args) for args in several])([arguments[n] for n in works])
    for n, result in zip(works, results, strict=True):
        array = np.asarray(result)
        found[n] = (array.shape, array.dtype, bool(result.weak_type), array)
    return found


@pytest.mark.parametrize("name", [*UNARY, *BINARY, *REDUCED])
def test_a_function_is_that_of_jax_at_the_corners_of_every_dtype(name):
    arguments = calls(name)
    ours = outcomes(core, getattr(cnp, name), arguments)
    theirs = outcomes(jax, getattr(jnp, name), arguments)
    for n, args in enumerate(arguments):
        label = f"{name}{args}"
        if isinstance(theirs[n], str) or isinstance(ours[n], str):
            assert ours[n] == theirs[n], label
            continue
        assert ours[n][:3] == theirs[n][:3], label
        wide = np.complex128 if theirs[n][1].kind == "c" else np.float64
        a, b = (found[n][3].astype(wide) for found in (ours, theirs))
        np.testing.assert_allclose(a, b, rtol=1e-5, equal_nan=True, err_msg=label)
