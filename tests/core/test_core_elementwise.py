"""Elementwise primitives against JAX: values, derivatives, batching, jaxprs, dtypes, corners."""

from itertools import product

import jax
import ml_dtypes
import numpy as np
import pytest

from jaxlens import core
from jaxlens.core.kernel import basics
from jaxlens.core.primitives import elementwise, functions
from tests.support.core.alike import CORE, JAX, alike, both, close, names, same


def words(text: str) -> list[str]:
    return text.split()


X = np.linspace(0.1, 0.9, 5).astype(np.float32)
SMOOTH = words("""
    neg square sqrt rsqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh
    logistic erf erf_inv abs
""")
FLAT = ["sign", "floor", "ceil"]
LATER = jax.version.__version_info__ >= (0, 11)
REWRITTEN = words("expm1 asin acos tanh erf max min") if LATER else []
TWO = ["add", "sub", "mul", "div", "rem", "pow", "atan2", "max", "min"]


def each(lib, chosen, x):
    return [getattr(lib.lax, name)(x) for name in chosen]


def test_functions() -> None:
    """Values and slopes; numbers beside arrays."""

    def make(lib):
        def f(x):
            m, half = lib.lax, np.float32(0.5)
            y, s = m.rev(x, (0,)), m.reduce_max(x, (0,))
            low = m.mul(x, half)
            return [
                *each(lib, SMOOTH, x),
                *[getattr(m, name)(x, y) for name in TWO],
                m.sub(s, y),
                m.div(x, s),
                m.pow(s, y),
                m.atan2(half, x),
                m.rem(x, s),
                m.max(s, x),
                *[m.integer_pow(x, power) for power in (0, 1, 2, 3, -2)],
                m.clamp(low, y, m.add(low, np.float32(0.2))),
                m.clamp(half, x, np.float32(0.6)),
                m.select_n(m.lt(x, y), x, m.exp(y)),
                m.select_n(np.array([0, 2, 1, 0, 2], np.int32), x, y, low),
                m.select_n(np.bool_(True), x, y),
                m.mul(m.stop_gradient(x), x),
                m.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN),
            ]

        return f

    alike(make, X, ("value", "vmap of grad"))


@pytest.mark.parametrize("name", sorted({*SMOOTH, *FLAT, *TWO} - {*REWRITTEN}))
def test_same_equations(name: str) -> None:
    args = (X, X + 1)[: 1 + (name in TWO)]
    for given in product([0, 1], repeat=len(args)):
        chosen = [x[0] if small else x for x, small in zip(args, given, strict=True)]

        def forward(lib):
            f = getattr(lib.lax, name)
            return lambda *xs: lib.jvp(f, xs, xs)

        def reverse(lib):
            f = getattr(lib.lax, name)
            return lambda *xs: lib.vjp(f, *xs)[1](lib.lax.add(f(*xs), f(*xs)))

        for make in (forward,) if name in FLAT else (forward, reverse):
            assert names(CORE, make(CORE), *chosen) == names(JAX, make(JAX), *chosen)


@pytest.mark.skipif(LATER, reason="JAX 0.11 and later write it otherwise")
def test_same_equations_beside_a_number() -> None:
    functions = (
        lambda lib, x: lib.lax.max(x, np.float32(0)),
        lambda lib, x: lib.lax.pow(x, np.float32(2.5)),
        lambda lib, x: lib.lax.pow(np.float32(2), x),
        lambda lib, x: lib.lax.div(np.float32(1), x),
        lambda lib, x: lib.lax.clamp(np.float32(0), x, np.float32(1)),
        lambda lib, x: lib.lax.integer_pow(x, 3),
        lambda lib, x: lib.lax.select_n(lib.lax.gt(x, np.float32(0)), x, lib.lax.exp(x)),
    )
    for f in functions:

        def reverse(lib, f=f):
            return lambda x: lib.vjp(lambda y: f(lib, y), x)[1](x)

        assert names(CORE, reverse(CORE), X) == names(JAX, reverse(JAX), X)


def test_corners() -> None:
    """Where a derivative is a choice, it is JAX's."""

    def make(lib):
        def f(x):
            m, zero = lib.lax, np.float32(0)
            return [
                m.abs(x),
                m.max(x, zero),
                m.max(x, x),
                m.min(x, m.neg(x)),
                m.clamp(zero, x, np.float32(1)),
                m.pow(x, zero),
                m.pow(x, m.mul(x, zero)),
                m.integer_pow(x, 0),
                m.sign(x),
                m.floor(x),
                m.rem(x, np.float32(0.75)),
                m.atan2(x, np.float32(1)),
            ]

        return f

    alike(make, np.array([0.0, 1.0, -1.0, 2.5, -0.0], np.float32), ("jvp", "grad"))


def test_whole_numbers_and_bits() -> None:
    values = np.array([[0, 1, 2, 7, 100, 5], [3, 1, 7, 2, 9, 5]])
    arrays = [values.astype(dtype) for dtype in ("bool", "int8", "uint32")]
    compared = ["eq", "ne", "lt", "le", "gt", "ge", "max", "min"]

    def f(lib, x, y):
        m = lib.lax
        found = [getattr(m, f"bitwise_{name}")(x, y) for name in ("and", "or", "xor")]
        found += [getattr(m, name)(x, y) for name in compared]
        found.append(m.bitwise_not(x))
        if x.dtype != np.bool_:
            found += [getattr(m, name)(x, y) for name in ["add", "sub", "mul", "shift_left"]]
            found += [m.shift_right_logical(x, y), m.shift_right_arithmetic(x, y)]
            found += [m.sign(x), m.integer_pow(x, 3), m.square(x)]
            ones = x | np.array(1, x.dtype)
            found += [m.div(y, ones), m.rem(y, ones), m.clamp(x, y, ones)]
        if x.dtype.kind == "i":
            found += [m.abs(x), m.neg(x)]
        return found

    same(*both(lambda lib: lambda *all_: [f(lib, x[0], x[1]) for x in all_], *arrays))


def test_short_floats() -> None:
    def make(lib):
        def f(x):
            two = [getattr(lib.lax, name)(x, lib.lax.rev(x, (0,))) for name in TWO]
            return [two, each(lib, [*SMOOTH, *FLAT, "is_finite"], x)]

        return lambda *xs: [f(x) for x in xs]

    close(*both(make, X.astype(np.float16), X.astype(ml_dtypes.bfloat16)), 0.05)


def test_double_floats() -> None:
    def make(lib):
        return lambda x: [each(lib, SMOOTH, x), lib.vjp(lib.lax.erf, x)[1](x)]

    with core.enable_x64(), jax.enable_x64(True):
        close(*both(make, X.astype(np.float64)), 1e-12)


def test_complex_numbers() -> None:
    z = (X + 1j * X[::-1] - 0.3).astype(np.complex64)
    one = words("""
        neg square sqrt rsqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh
        logistic abs real imag conj
    """)

    def make(lib):
        def g(z):
            m = lib.lax
            w = m.add(z, m.sin(z))
            two = [getattr(m, name)(z, w) for name in ["add", "sub", "mul", "div", "pow"]]
            parts = [m.complex(m.imag(z), m.real(w)), m.integer_pow(z, -3)]
            return [*each(lib, one, z), *two, *parts]

        def f(z):
            values, pull = lib.vjp(g, z)
            return [values, pull(values), lib.lax.eq(z, z), lib.lax.sign(z)]

        return f

    close(*both(make, z), 1e-4)


def test_batched_in_every_way() -> None:
    """All places of the examples; a scalar example beside an array."""
    big, small = np.arange(12, dtype=np.float32).reshape(2, 3, 2), np.array([2, 3], np.float32)

    def every(lib):
        def f(x, y, s):
            m = lib.lax
            less = m.lt(x, y)
            chosen = [m.select_n(less, x, y), m.select_n(m.lt(s, np.float32(2.5)), x, y)]
            return [m.sub(x, y), m.mul(s, x), m.clamp(s, x, y), *chosen]

        def g(big, small):
            found = []
            for i, j, k in product([None, 0, 1], [None, 0, 2], [None, 0]):
                if (i, j, k) != (None, None, None):
                    x, y = (big[0] if d is None else lib.np.moveaxis(big, 0, d) for d in (i, j))
                    s = small[0] if k is None else small
                    found.append(lib.vmap(f, (i, j, k))(x, y + 1, s))
            return found

        return g

    same(*both(every, big, small))


def test_bits_read_otherwise() -> None:
    def make(lib):
        def f(x):
            words = lib.lax.bitcast_convert_type(x, np.uint32)
            back = lib.lax.bitcast_convert_type(words, np.float32)
            return words, back, lib.vmap(lambda y: lib.lax.bitcast_convert_type(y, np.int32))(x)

        return f

    same(*both(make, X))


@pytest.mark.parametrize(
    ("f", "kind", "words"),
    [
        (lambda: elementwise.add(X, X[:3]), TypeError, r"incompatible shapes .*\(5,\), \(3,\)"),
        (lambda: elementwise.add(X, X.astype(np.float16)), TypeError, r"same dtypes.*f32.*f16"),
        (lambda: functions.sin_p.bind(np.arange(3)), TypeError, "sin does not accept dtype int"),
        (lambda: elementwise.integer_pow(np.arange(3), -1), TypeError, "negative powers"),
        (lambda: basics.select_n(X, X, X), TypeError, "`which` must be bool"),
        (
            lambda: basics.select_n(X > 1, X, X[:3]),
            TypeError,
            r"one shape and dtype.*f32\[3\]",
        ),
    ],
)
def test_errors_name_what_is_wrong(f, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        f()
