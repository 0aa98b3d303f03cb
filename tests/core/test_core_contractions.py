"""Reductions, products, running sums and convolutions against JAX."""

from itertools import product

import jax
import ml_dtypes
import numpy as np
import pytest

from jaxlens import core
from jaxlens.core.primitives import contractions
from tests.support.core.alike import CORE, JAX, alike, both, close, names, same

RANDOM = np.random.RandomState(0)
CUBE = RANDOM.randn(2, 3, 4).astype(np.float32)
LINE = RANDOM.randn(5).astype(np.float32)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.randn(*shape).astype(np.float32)


# ---- reductions ---------------------------------------------------------------------------------


def test_reductions() -> None:
    def make(lib):
        def f(x):
            m = lib.lax
            found = [m.reduce_max(x, (1,)), m.reduce_min(x, (0, 2)), m.reduce_prod(x, (1,))]
            return [*found, m.reduce_prod(x, (0, 2)), m.reduce_max(m.mul(x, m.sign(x)), (0,))]

        return f

    alike(make, CUBE, ("jvp", "vmap of grad"))
    for axes in ((0,), (1,), (1, 2)):
        for lib_f in (lambda m, x, a: m.reduce_max(x, a), lambda m, x, a: m.reduce_min(x, a)):

            def reverse(lib, axes=axes, f=lib_f):
                return lambda x: lib.vjp(lambda y: f(lib.lax, y, axes), x)[1](f(lib.lax, x, axes))

            assert names(CORE, reverse(CORE), CUBE) == names(JAX, reverse(JAX), CUBE)


def test_equal_largest_share() -> None:
    x = np.array([[1, 3, 3], [2, 2, 2]], np.float32)
    grad = core.grad(lambda x: core.lax.reduce_max(core.lax.reduce_max(x, (1,)), (0,)))(x)
    np.testing.assert_array_equal(np.asarray(grad), [[0, 0.5, 0.5], [0, 0, 0]])


def test_reductions_of_all_dtypes() -> None:
    values = np.array([[1, 5, 2], [7, 0, 7]])

    def f(lib, x):
        m, found = lib.lax, []
        for name in ("argmax", "argmin"):
            found += [getattr(m, name)(x, axis, np.int32) for axis in (0, 1)]
        reductions = ["max", "min"]
        reductions += ["and", "or"] if x.dtype.kind in "biu" else []
        reductions += ["prod"] if x.dtype != np.bool_ else []
        found += [getattr(m, f"reduce_{name}")(x, (1,)) for name in reductions]
        return [*found, lib.vmap(lambda y: m.argmax(y, 0, np.int32), 1)(x)]

    dtypes = ("bool", "int32", "uint8", "float16", ml_dtypes.bfloat16)
    arrays = [values.astype(dtype) for dtype in dtypes]
    same(*both(lambda lib: lambda *xs: [f(lib, x) for x in xs], *arrays))


def test_first_of_equals_and_nan() -> None:
    x = np.array([[1, np.nan, 3, np.nan], [-np.inf] * 4, [np.inf] * 4, [2, 9, 9, 2]], np.float32)
    for ours, theirs in ((core.numpy.argmax, np.argmax), (core.numpy.argmin, np.argmin)):
        np.testing.assert_array_equal(np.asarray(ours(x, 1)), theirs(x, 1))


def test_batched_where_the_examples_are() -> None:
    """Reductions do not move the axis of the examples; in results of guests it is the first."""
    for axis in range(3):
        for f in (
            lambda m, x: m.reduce_max(x, (1,)),
            lambda m, x: m.cumsum(x, 1),
            lambda m, x: m.argmin(x, 0, np.int32),
        ):
            ours, theirs = (
                lib.vmap(lambda x, lib=lib, f=f: f(lib.lax, x), axis, 0) for lib in (CORE, JAX)
            )
            found, expected = names(CORE, ours, CUBE), names(JAX, theirs, CUBE)
            assert [n for n in found if n != "transpose"] == expected or found == expected
            same(ours(CUBE), theirs(CUBE))


# ---- running sums -------------------------------------------------------------------------------


def test_running() -> None:
    def make(lib):
        def f(x):
            pairs = [(name, back) for name in ("cumsum", "cumprod") for back in (False, True)]
            return [getattr(lib.lax, name)(x, axis=0, reverse=back) for name, back in pairs]

        return f

    alike(make, LINE, ("jvp", "vmap of grad"))
    assert core.lax.cumsum(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_product_of_none_and_with_zeros() -> None:
    assert float(core.lax.reduce_prod(np.zeros((0,), np.float32), (0,))) == 1
    zeros = np.array([2, 0, 5], np.float32)
    grad = core.jit(core.grad(lambda x: core.lax.reduce_prod(x, (0,))))(zeros)
    np.testing.assert_array_equal(np.asarray(grad), [0, 10, 0])


# ---- dot_general --------------------------------------------------------------------------------

DOTS = {
    "matrices": ((3, 4), (4, 5), (((1,), (0,)), ((), ()))),
    "batch": ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    "axes in any order": ((4, 2, 3), (5, 4, 2), (((0,), (1,)), ((1,), (2,)))),
    "vectors": ((4,), (4,), (((0,), (0,)), ((), ()))),
    "outer": ((2, 3), (4,), (((), ()), ((), ()))),
    "two sums": ((2, 3, 4, 5), (5, 3, 2, 6), (((3, 1), (0, 1)), ((0,), (2,)))),
    "only batch": ((2, 3), (3, 2), (((), ()), ((0, 1), (1, 0)))),
}


def test_dot_general() -> None:
    """Both derivatives, and the derivative of the transpose."""
    args = [(numbers(*left), numbers(*right)) for left, right, _ in DOTS.values()]

    def every(lib):
        def products(dims, x, y):
            def dot(x, y):
                return lib.lax.dot_general(x, y, dims)

            value, pull = lib.vjp(dot, x, y)
            _, second = lib.vjp(lambda x, y: lib.vjp(dot, x, y)[1](value), x, y)
            return value, lib.jvp(dot, (x, y), (y.sum() * x, y)), pull(value), second((x, y))

        return lambda *args: [
            products(dims, *xy) for (*_, dims), xy in zip(DOTS.values(), args, strict=True)
        ]

    assert names(CORE, every(CORE), *args) == names(JAX, every(JAX), *args)
    core.check_jaxpr(core.make_jaxpr(every(CORE))(*args))
    close(*both(every, *args), 1e-4)


def test_axes_of_a_product_are_lists_in_the_printed_jaxpr_alone() -> None:
    for lib in (core, jax):
        program = lib.make_jaxpr(lambda x: x @ x)(np.ones((2, 2), np.float32))
        written = str(program.jaxpr.eqns[0].params["dimension_numbers"])
        assert written == "(((1,), (0,)), ((), ()))"
        assert "dimension_numbers=(([1], [0]), ([], []))" in str(program)


def test_dot_general_batched_in_every_way() -> None:
    left, right, dims = DOTS["axes in any order"]
    x, y = numbers(2, *left), numbers(2, *right)

    def every(lib):
        def f(x, y):
            found = []
            for i, j in product([None, *range(len(left) + 1)], [None, *range(len(right) + 1)]):
                a = x[0] if i is None else lib.np.moveaxis(x, 0, i)
                b = y[0] if j is None else lib.np.moveaxis(y, 0, j)
                if (i, j) != (None, None):
                    dot = lib.vmap(lambda x, y: lib.lax.dot_general(x, y, dims), (i, j))
                    found.append(dot(a, b))
            return found

        return f

    assert names(CORE, every(CORE), x, y) == names(JAX, every(JAX), x, y)
    same(*both(every, x, y))


def test_dot_general_of_other_dtypes() -> None:
    _, _, dims = DOTS["batch"]
    x, y = CUBE, numbers(2, 4, 5)

    def make(lib):
        def dot(wanted):
            return lambda x, y: lib.lax.dot_general(x, y, dims, preferred_element_type=wanted)

        def f(x, y, ints, z):
            found = [dot(np.int32)(*ints), lib.vjp(dot(None), *z)[1](dot(None)(*z))]
            for dtype, wanted in ((np.float16, None), (ml_dtypes.bfloat16, np.float32)):
                short = lib.np.asarray(x, dtype), lib.np.asarray(y, dtype)
                value, pull = lib.vjp(dot(wanted), *short)
                found += [value, pull(value)]
            return found

        return f

    whole = np.ones((2, 3, 4), np.int8), np.full((2, 4, 5), 100, np.int8)
    found, expected = both(make, x, y, whole, (x + 1j, y - 2j))
    wide = [
        [leaf.astype(np.complex64) for leaf in tree]
        for tree in (core.tree_leaves(found), jax.tree.leaves(expected))
    ]
    close(*wide, 0.1)


# ---- convolution --------------------------------------------------------------------------------

CONVOLUTIONS = {
    "line": ((2, 8, 3), (3, 3, 4), (1,), "SAME_LOWER", None, None, ("NWC", "WIO", "NWC"), 1),
    "dilated": ((2, 3, 8), (4, 3, 3), (2,), [(1, 0)], (2,), (2,), None, 1),
    "groups": (
        (2, 6, 6, 4),
        (3, 2, 2, 6),
        (2, 1),
        "VALID",
        None,
        None,
        ("NHWC", "HWIO", "NHWC"),
        2,
    ),
    "each feature": (
        (2, 4, 5, 5),
        (4, 1, 3, 3),
        (1, 2),
        "SAME",
        None,
        (2, 1),
        ("NCHW", "OIHW", "NHWC"),
        4,
    ),
    "cut off": ((5, 2, 3), (3, 2, 3), (1,), [(2, -1)], None, None, ("WNC", "WOI", "CNW"), 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    left, right, *rest = CONVOLUTIONS[name]
    x, k = numbers(*left), numbers(*right)

    def pulled(lib):
        def conv(x, k):
            return lib.lax.conv_general_dilated(x, k, *rest)

        def f(x, k):
            value, pull = lib.vjp(conv, x, k)
            return value, pull(value), lib.jvp(conv, (x, k), (x, k))

        return conv, f

    def every(lib):
        conv, f = pulled(lib)

        def g(x, k):
            both = [lib.np.stack([y, y * 2]) for y in (x, k)]
            one = [lib.vmap(conv, (0, None))(both[0], k), lib.vmap(conv, (None, 0))(x, both[1])]
            return f(x, k), one, lib.vmap(f)(*both)

        return g

    core.check_jaxpr(core.make_jaxpr(every(CORE))(x, k))
    if rest[-1] == 1:  # with groups JAX has a group count for batches too
        assert names(CORE, pulled(CORE)[1], x, k) == names(JAX, pulled(JAX)[1], x, k)
    close(*both(every, x, k), 1e-3)


# ---- errors -------------------------------------------------------------------------------------


def test_errors_name_what_is_wrong() -> None:
    words = r"contracting axes \(2,\) of f32\[2,3,4\].*\[4\] and \[5\]"
    with pytest.raises(TypeError, match=words):
        contractions.dot_general(CUBE, LINE, (((2,), (0,)), ((), ())))
