"""Elementwise primitives against JAX: values, derivatives, batching, jaxprs, dtypes, corners."""

from itertools import product

import jax
import ml_dtypes
import numpy as np
import pytest
from alike import CORE, JAX, alike, names, same

from jaxlens import core
from jaxlens.core import elementwise, functions


def words(text: str) -> list[str]:
    return text.split()


X = np.linspace(0.1, 0.9, 5).astype(np.float32)
SMOOTH = words("""
    neg square sqrt rsqrt cbrt exp exp2 expm1 log log1p sin cos tan asin acos atan sinh cosh tanh
    asinh atanh logistic erf erfc erf_inv lgamma digamma abs
""")
FLAT = ["sign", "floor", "ceil"]
LATER = jax.version.__version_info__ >= (0, 11)
REWRITTEN = words("expm1 asin acos tanh asinh atanh erf erfc max min") if LATER else []
TWO = ["add", "sub", "mul", "div", "rem", "pow", "atan2", "max", "min"]
POWERS = (0, 1, 2, 3, 5, -1, -2)


def each(lib, chosen, x):
    return [getattr(lib.lax, name)(x) for name in chosen]


@pytest.mark.parametrize("part", range(3))
def test_functions_of_one(part: int) -> None:
    alike(lambda lib: lambda x: each(lib, SMOOTH[part::3], x), X)


def test_functions_of_two() -> None:
    def make(lib):
        def f(x):
            y, s = lib.lax.rev(x, (0,)), lib.lax.reduce_max(x, (0,))
            pairs = [(x, y), (x, s), (s, y), (x, np.float32(2.5)), (np.float32(2.5), x)]
            return [getattr(lib.lax, name)(*pair) for name in TWO[:-2] for pair in pairs]

        return f

    alike(make, X, ("value", "jvp", "grad", "vmap of grad", "grad of grad"))


def test_powers_choices_and_ends() -> None:
    def make(lib):
        def f(x):
            m, y = lib.lax, lib.lax.rev(x, (0,))
            low, high = m.mul(x, np.float32(0.5)), m.reduce_max(x, (0,))
            return [
                *[m.integer_pow(x, power) for power in POWERS],
                m.pow(x, np.int32(3)),
                m.pow(x, np.array([0, 1, 2, -1, 3], np.int32)),
                m.acosh(m.add(x, np.float32(1))),
                m.max(x, y), m.min(x, np.float32(0.5)), m.max(high, x),
                m.clamp(low, y, m.add(low, np.float32(0.2))),
                m.clamp(np.float32(0.2), x, np.float32(0.6)),
                m.select_n(m.lt(x, y), x, m.exp(y)),
                m.select_n(np.array([0, 2, 1, 0, 2], np.int32), x, y, low),
                m.select_n(np.bool_(True), x, y),
                m.mul(m.stop_gradient(x), x),
                m.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN),
            ]  # fmt: skip

        return f

    alike(make, X)


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
                m.abs(x), m.max(x, zero), m.max(x, x), m.min(x, m.neg(x)),
                m.clamp(zero, x, np.float32(1)), m.pow(x, zero), m.pow(x, m.mul(x, zero)),
                m.pow(x, np.zeros(5, np.int32)), m.integer_pow(x, 0), m.sign(x), m.floor(x),
                m.rem(x, np.float32(0.75)), m.atan2(x, np.float32(1)),
            ]  # fmt: skip

        return f

    corners = np.array([0.0, 1.0, -1.0, 2.5, -0.0], np.float32)
    alike(make, corners, ("value", "jvp", "grad"))


def test_whole_numbers_and_bits() -> None:
    values = np.array([[0, 1, 2, 7, 100, 5], [3, 1, 7, 2, 9, 5]])

    def f(lib, x, y):
        m = lib.lax
        bits = {"and": "and", "or": "or", "xor": "xor"} if lib is CORE else {
            "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        }  # fmt: skip
        found = [getattr(m, bits[name])(x, y) for name in bits]
        found += [
            getattr(m, name)(x, y) for name in ["eq", "ne", "lt", "le", "gt", "ge", "max", "min"]
        ]
        found.append(getattr(m, "not" if lib is CORE else "bitwise_not")(x))
        if x.dtype != np.bool_:
            found += [getattr(m, name)(x, y) for name in ["add", "sub", "mul", "shift_left"]]
            found += [m.shift_right_logical(x, y), m.shift_right_arithmetic(x, y)]
            found += [m.population_count(x), m.clz(x), m.sign(x), m.integer_pow(x, 3), m.square(x)]
            ones = x | np.array(1, x.dtype)
            found += [m.div(y, ones), m.rem(y, ones), m.clamp(x, y, ones)]
        if x.dtype.kind == "i":
            found += [m.abs(x), m.neg(x)]
        return found

    for dtype in ("bool", "int8", "int32", "uint8", "uint32"):
        x, y = values.astype(dtype)
        ours, theirs = (lib.jit(lambda x, y, lib=lib: f(lib, x, y))(x, y) for lib in (CORE, JAX))
        same(ours, theirs, dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_floats(dtype: type) -> None:
    def f(lib, x):
        m = lib.lax
        one = each(lib, [*SMOOTH, *FLAT, "is_finite"], x)
        two = [getattr(m, name)(x, m.rev(x, (0,))) for name in TWO]
        y, pull = lib.vjp(lambda y: each(lib, SMOOTH, y), x)
        return [one, two, pull(y)]

    ours, theirs = (lib.jit(lambda x, lib=lib: f(lib, x))(X.astype(dtype)) for lib in (CORE, JAX))
    for x, y in zip(core.tree_leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert x.dtype == y.dtype
        wide = np.asarray(x).astype(np.float32), np.asarray(y).astype(np.float32)
        np.testing.assert_allclose(*wide, rtol=0.05, atol=0.05)


def test_double_floats() -> None:
    x = X.astype(np.float64)
    with core.enable_x64(), jax.enable_x64(True):
        ours, theirs = (
            lib.jit(lambda x, lib=lib: [each(lib, SMOOTH, x), lib.vjp(lib.lax.erf, x)[1](x)])(x)
            for lib in (CORE, JAX)
        )
        assert {leaf.dtype for leaf in core.tree_leaves(ours)} == {np.dtype("float64")}
        for a, b in zip(core.tree_leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12)


def test_complex_numbers() -> None:
    z = (X + 1j * X[::-1] - 0.3).astype(np.complex64)
    one = words("""
        neg square sqrt rsqrt exp exp2 expm1 log log1p sin cos tan asin acos atan sinh cosh tanh
        asinh acosh atanh logistic abs real imag conj
    """)

    def f(lib, z):
        m = lib.lax

        def g(z):
            w = m.add(z, m.sin(z))
            two = [getattr(m, name)(z, w) for name in ["add", "sub", "mul", "div", "pow"]]
            parts = [m.complex(m.imag(z), m.real(w)), m.conj(m.real(z)), m.integer_pow(z, -3)]
            return [*each(lib, one[::2], z), *two, *parts]

        values, pull = lib.vjp(g, z)
        rest = each(lib, one[1::2], z)
        return [values, pull(values), rest, m.eq(z, z), m.sign(z)]

    ours, theirs = (lib.jit(lambda z, lib=lib: f(lib, z))(z) for lib in (CORE, JAX))
    for a, b in zip(core.tree_leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)


def test_batched_in_every_way() -> None:
    """All places of the examples; a scalar example beside an array."""
    big, small = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([2, 3], np.float32)

    def f(lib, x, y, s):
        m = lib.lax
        return [m.sub(x, y), m.mul(s, x), m.clamp(s, x, y), m.select_n(m.lt(x, y), x, y)]

    def every(lib):
        def g(big, small):
            found = []
            for i, j, k in product([None, 0, 1, 2], [None, 0, 2], [None, 0]):
                if (i, j, k) != (None, None, None):
                    x, y = (big[0] if d is None else lib.np.moveaxis(big, 0, d) for d in (i, j))
                    s = small[0] if k is None else small
                    found.append(lib.vmap(lambda *a: f(lib, *a), (i, j, k))(x, y + 1, s))
            return found

        return g

    same(core.jit(every(CORE))(big, small), jax.jit(every(JAX))(big, small))


def test_select_batched_in_every_way() -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), -np.ones((2, 3), np.float32)
    whole, one = np.array([[True, False, True], [False, True, True]]), np.array([True, False])

    def every(lib):
        def g(x, y, whole, one):
            found = []
            f = lib.lax.select_n
            for i, j, k in product([None, 0, 1], [None, 0], [None, 0]):
                a = x[0] if i is None else (x.T if i else x)
                b = y[0] if j is None else y
                if (i, j, k) != (None, None, None):
                    for which in (whole, one):
                        w = which[0] if k is None else which
                        found.append(lib.vmap(f, (k, i, j))(w, a, b))
            return found

        return g

    args = (x, y, whole, one)
    same(core.jit(every(CORE))(*args), jax.jit(every(JAX))(*args))


def test_bits_read_otherwise() -> None:
    def f(lib):
        def g(x):
            m = lib.lax
            words = m.bitcast_convert_type(x, np.uint32)
            halves = m.bitcast_convert_type(x, np.uint16)
            back = m.bitcast_convert_type(halves, np.float32)
            vmapped = lib.vmap(lambda y: m.bitcast_convert_type(y, np.uint16))(x)
            return words, halves, back, vmapped, m.nextafter(x, m.neg(x))

        return g

    same(core.jit(f(CORE))(X), jax.jit(f(JAX))(X))
    with pytest.raises(TypeError, match="last axis of length 2"):
        elementwise.bitcast_convert_type(np.zeros((3,), np.uint16), np.float32)
    with pytest.raises(NotImplementedError, match="nextafter"):
        core.jvp(lambda x: functions.nextafter_p.bind(x, x), (X,), (X,))


@pytest.mark.parametrize(
    ("f", "kind", "words"),
    [
        (lambda: elementwise.add(X, X[:3]), TypeError, r"incompatible shapes .*\(5,\), \(3,\)"),
        (lambda: elementwise.add(X, X.astype(np.float16)), TypeError, r"same dtypes.*f32.*f16"),
        (lambda: functions.sin_p.bind(np.arange(3)), TypeError, "sin does not accept dtype int"),
        (lambda: elementwise.integer_pow(np.arange(3), -1), TypeError, "negative powers"),
        (lambda: elementwise.select_n(X, X, X), TypeError, "`which` must be bool"),
        (lambda: elementwise.select_n(X > 1, X, X[:3]), TypeError, "cases must have one shape"),
        (lambda: functions.complex_p.bind(*[X.astype(np.float16)] * 2), TypeError, "float16"),
    ],
)
def test_errors_name_what_is_wrong(f, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        f()
