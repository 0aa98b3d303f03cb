"""A truth table: each function of `core.numpy` and `core.nn` beside JAX's, at every corner.

Eleven dtypes and the weak ones, six shapes of which two have no elements, the values at which
functions change. Compared are value, shape, dtype, weak type, that a result is a value of the core,
and the class of an error. All calls of a function are one program, so that the table compiles
little.
"""

import itertools
import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxlens.core.numpy as cnp
from jaxlens import core
from jaxlens.core.kernel.interpreter import Value
from tests.support.core.alike import QUICK

FLOATS = (-np.inf, -1.0, -0.0, 0.0, 0.5, 3.0, np.inf, np.nan, 3.0)
CORNERS = {
    "bool": [False, True, True],
    **dict.fromkeys(("int8", "int16", "int32"), (-3, -1, 0, 1, 5, 5)),
    **dict.fromkeys(("uint8", "uint16", "uint32"), (0, 1, 3, 5, 5)),
    **dict.fromkeys(("float16", "bfloat16", "float32"), FLOATS),
    "complex64": [0, 1 + 2j, -1j, 2, 2],
}
WEAK = (True, -1, -0.5, np.nan, 1j)  # numbers of Python's
MIXED = [("bool", "int8"), ("uint8", "int8"), ("bfloat16", "float16"), ("float32", "complex64")]
SHAPES = [((2, 1), (3,)), ((0,), (1,)), ((0, 3), (3,)), ((2, 3), (3, 0)), ((2,), (3,)), ((3,), ())]

ONE = {
    name: lambda m, x, name=name: getattr(m, name)(x)
    for name in (
        "abs negative bitwise_not exp log log1p sqrt square sin cos tanh isnan isfinite real imag "
        "sum mean var std max min any all argmax argmin zeros_like ones_like array asarray ravel "
        "transpose squeeze"
    ).split()
}
ONE |= {
    f"{name} over an axis": lambda m, x, name=name: getattr(m, name)(x, -1, keepdims=True)
    for name in "sum mean var std max min any all".split()
}
ONE |= {
    "argmax over an axis": lambda m, x: m.argmax(x, 0),
    "argmin over an axis": lambda m, x: m.argmin(x, -1),
    "astype": lambda m, x: [m.astype(m.asarray(x), t) for t in ("bool", "int8", "float16")],
    "reshape": lambda m, x: m.reshape(x, (-1, 1)),
    "broadcast_to": lambda m, x: m.broadcast_to(x, (2, *np.shape(x))),
    "stack": lambda m, x: m.stack([x, x], -1),
    "concatenate": lambda m, x: m.concatenate([x, x], -1),
    "beside numbers": lambda m, x: [f(x) for f in BESIDE],
    "clip": lambda m, x: m.clip(x, 0, 2),
    "chosen": lambda m, x: [m.where(x, x, 0), m.where(True, x, 1.5), m.where(m.isnan(x), 0, x)],
    "power": lambda m, x: [x**2, x**0, m.asarray(x) ** 3],
    "full": lambda m, x: [m.full((2, 1, 2), x), m.full((2, 1, 2), x, "float16")],
    "index": lambda m, x: [x[..., :1], x[None], x[..., ::-1]],
    "relu": lambda m, x: nn(m).relu(x),
    "sigmoid": lambda m, x: nn(m).sigmoid(x),
    "softmax": lambda m, x: nn(m).softmax(x, -1),
    "log_softmax": lambda m, x: nn(m).log_softmax(x),
    "logsumexp": lambda m, x: [nn(m).logsumexp(x), nn(m).logsumexp(x, -1, keepdims=True)],
}
BESIDE = (
    lambda x: x + 2,
    lambda x: 2 - x * -0.5,
    lambda x: x / 2,
    lambda x: 2 / x,
    lambda x: x * 1j,
)
TWO = {
    name: lambda m, x, y, name=name: getattr(m, name)(x, y)
    for name in (
        "add subtract multiply divide floor_divide remainder power maximum minimum equal not_equal "
        "less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor left_shift "
        "right_shift dot matmul"
    ).split()
}
TWO |= {
    "where": lambda m, x, y: m.where(m.equal(x, y), x, y),
    "joined": lambda m, x, y: m.concatenate([m.ravel(x), m.ravel(y)]),
    "written": lambda m, x, y: x.at[:1].set(y[:1]),
    "added": lambda m, x, y: x.at[:1].add(y[:1]),
}
# README: complex numbers have no order. JAX looks at the real part alone in `all` and `any`.
ORDERED = (
    "all any max min argmax argmin maximum minimum less less_equal greater greater_equal clip "
    "chosen relu softmax log_softmax logsumexp"
).split()
LENGTHS = {"dot", "matmul"}  # JAX's errors for scalars and integers say where it failed


def nn(numpy):
    return core.nn if numpy is cnp else jax.nn


def corners(dtype):
    return np.array(CORNERS[dtype]).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def arrays(name):
    """Yields functions of the library: an array of each dtype and shape, and weak ones."""
    for dtype in CORNERS:
        if dtype == "complex64" and name.split()[0] in ORDERED:
            continue
        x = corners(dtype)
        shaped = [x]
        if dtype in ("bool", "int8", "float32"):
            shaped += [x[:0], x[1], np.stack([x, x[::-1]]), x[:1, None], np.stack([x[:0]] * 3)]
        for array in shaped:
            if array.ndim or "axis" not in name:
                yield lambda m, array=array: (m.asarray(array),)
    for number in WEAK:
        if not isinstance(number, complex) or name.split()[0] not in ORDERED:
            yield lambda m, number=number: (m.full((2,), number),)
            if "axis" not in name:
                yield lambda m, number=number: (m.asarray(number),)


def pairs(name):
    """Yields functions of the library: pairs of all corners of two dtypes, numbers, shapes."""
    for n, (a, b) in enumerate([*((dtype, dtype) for dtype in CORNERS), *MIXED]):
        if "complex64" in (a, b) and name in ORDERED:
            continue
        x, y = np.array([*itertools.product(range(len(CORNERS[a])), range(len(CORNERS[b])))]).T
        x, y, number = corners(a)[x], corners(b)[y], (True, 2, 0.5)[n // 2 % 3]
        yield lambda m, x=x, y=y: (m.asarray(x), m.asarray(y))
        if name not in LENGTHS and n % 2 == 0:
            beside = (lambda m, n=number: m.full((1,), n)), lambda m, x=x: m.asarray(x)
            yield lambda m, two=beside[:: (-1) ** (n // 2)]: tuple(f(m) for f in two)
    for a, b in SHAPES:
        yield lambda m, a=a, b=b: (m.ones(a), m.ones(b, m.bfloat16))


def outcomes(api, numpy, f, arguments):
    """Returns what each call gives: types and elements of its results, or its error's class."""
    found = {}

    def every(inputs):
        for n, args in enumerate(inputs):
            try:
                found[n] = jax.tree.leaves(f(numpy, *args))
                assert api is jax or all(isinstance(leaf, Value) for leaf in found[n])
            except (TypeError, ValueError, IndexError) as error:
                found[n] = type(error).__name__
        return [leaves for leaves in found.values() if not isinstance(leaves, str)]

    inputs = [args(numpy) for args in arguments]
    results = iter(api.jit(every).lower(inputs).compile(QUICK)(inputs))
    return [
        leaves
        if isinstance(leaves, str)
        else [(x.shape, x.dtype, bool(x.weak_type), np.asarray(x)) for x in next(results)]
        for leaves in found.values()
    ]


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_a_function_is_jax_s_at_every_corner(name):
    f, arguments = ONE.get(name) or TWO[name], list((arrays if name in ONE else pairs)(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of numbers that overflow
        ours, theirs = (outcomes(*lib, f, arguments) for lib in ((core, cnp), (jax, jnp)))
    for args, found, expected in zip(arguments, ours, theirs, strict=True):
        label = f"{name} of {args(jnp)}"
        if isinstance(found, str) or isinstance(expected, str):
            assert found == expected, label
            continue
        for a, b in zip(found, expected, strict=True):
            assert a[:3] == b[:3], label
            wide = np.complex128 if b[1].kind == "c" else np.float64
            tolerance = 1e-5 if b[1].itemsize > 2 else 1e-2
            pair = a[3].astype(wide), b[3].astype(wide)
            np.testing.assert_allclose(*pair, tolerance, tolerance / 10, err_msg=label)


# ---- what leaves is a value ---------------------------------------------------------------------

LEAVING = {
    "zeros": lambda api, m: m.zeros(()),
    "ones": lambda api, m: m.ones((), "int8"),
    "full": lambda api, m: m.full((), 2),
    "array": lambda api, m: [m.array(2.0), m.array(np.float16(2)), m.asarray(True)],
    "imag": lambda api, m: m.imag(2.0),
    "real": lambda api, m: m.real(2),
    "abs": lambda api, m: m.abs(True),
    "reshape": lambda api, m: [m.reshape(2.0, ()), m.ravel(np.ones(2, np.int8))],
    "sum": lambda api, m: [m.sum(2.0), m.max(2), m.mean(np.float32(2))],
    "transpose": lambda api, m: m.transpose(np.ones((), np.float16)),
    "clip": lambda api, m: m.clip(2.0),
    "grad": lambda api, m: api.grad(lambda x: x)(2.0),
    "grad, strong": lambda api, m: api.grad(lambda x: x)(np.float32(2)),
    "grad of a constant": lambda api, m: api.grad(lambda x: 3.0)(2.0),
    "value_and_grad": lambda api, m: api.value_and_grad(lambda x: x)(2.0),
    "jvp": lambda api, m: api.jvp(lambda x: (x, 3.0), (2.0,), (1.0,)),
    "vjp": lambda api, m: (lambda value, pull: (value, pull(1.0)))(*api.vjp(lambda x: x, 2.0)),
    "linearize": lambda api, m: (lambda y, f: (y, f(1.0)))(*api.linearize(lambda x: x, 2.0)),
    "vmap": lambda api, m: api.vmap(lambda x: (x, 3.0, np.ones(2, np.int8)))(np.ones(2)),
    "vmap, none": lambda api, m: api.vmap(lambda x: 3.0, out_axes=None)(np.ones(2)),
    "switch, one branch": lambda api, m: api.lax.switch(0, [lambda x: (x, 3.0)], 2.0),
    "associative_scan, one": lambda api, m: api.lax.associative_scan(m.add, np.ones(1, np.int8)),
}


@pytest.mark.parametrize("name", LEAVING)
def test_what_leaves_is_a_value_as_weak_as_jax_s(name):
    """Also inside a trace and a derivative; JAX gives back some Python numbers as they came in."""
    found = []
    for within in (
        lambda f: f(),
        lambda f: core.make_jaxpr(f)(),
        lambda f: core.jvp(lambda x: (f(), x)[1], (1.0,), (1.0,)),
        lambda f: core.grad(lambda x: (f(), x)[1])(1.0),
        lambda f: core.vmap(lambda x: (f(), x)[1])(np.ones(2)),
    ):
        within(lambda: found.append(core.tree_leaves(LEAVING[name](core, cnp))) or found[-1])
    assert all(isinstance(leaf, Value) for leaves in found for leaf in leaves)
    theirs = map(jax.typeof, jax.tree.leaves(LEAVING[name](jax, jnp)))
    expected = [(aval.shape, aval.dtype, aval.weak_type) for aval in theirs]
    for leaves in found:
        assert [(x.shape, x.dtype, x.weak_type) for x in leaves] == expected


def test_a_number_stays_a_literal_of_the_equation():
    def written(api, m):
        f = lambda x: x * m.zeros(()) + m.array(2.0) + m.full((), 1.0) + m.imag(1.0)  # noqa: E731
        return str(api.make_jaxpr(f)(np.float32(1)))

    assert written(core, cnp).split() == written(jax, jnp).split()
