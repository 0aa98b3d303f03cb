"""Functions of `jaxlens.core.numpy` against `jax.numpy`: ways to call them, types, errors.

What functions of elements compute is in `test_core_truth.py`.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens.core.numpy as cnp
from jaxlens import core
from jaxlens.core.kernel.interpreter import aval_of
from tests.support.core.alike import CORE, JAX, both

RANDOM = np.random.RandomState(0)
V = RANDOM.uniform(0.1, 0.9, 4).astype(np.float32)
M = RANDOM.randn(3, 4).astype(np.float32)
C = RANDOM.randn(2, 3, 4).astype(np.float32)
I = np.array([[3, -7, 5, 0], [2, 2, -3, 9], [-1, 4, 6, 8]], np.int32)  # noqa: E741
B = I > 2
CT = C.swapaxes(1, 2)
Z = M + 1j * M[::-1]
Function = Callable[[Any], Any]  # of a library
CASES: dict[str, list[Function]] = {
    "array": [
        lambda m: [m.array(x) for x in (1, 2.5, True, [1, 2], [[1.0], [2]], M, I)],
        lambda m: m.array([m.sin(V), m.cos(V)]),
        lambda m: m.array([1, 2], m.bfloat16),
    ],
    "asarray": [lambda m: m.asarray(V, m.int32)],
    "astype": [lambda m: m.astype(M, m.int8), lambda m: m.array(B).astype(float)],
    "full": [lambda m: m.full((2, 3), 1.5), lambda m: m.full(2, 7), lambda m: m.full((3, 4), V)],
    "zeros": [lambda m: m.zeros((2, 3)), lambda m: m.zeros(2, m.int32)],
    "ones": [lambda m: m.ones((2, 3)), lambda m: m.ones(2, bool)],
    "zeros_like": [lambda m: m.zeros_like(M), lambda m: m.zeros_like(I)],
    "ones_like": [lambda m: m.ones_like(Z), lambda m: m.ones_like(M, m.int8)],
    "arange": [
        lambda m: m.arange(5),
        lambda m: m.arange(1, 7, 2),
        lambda m: m.arange(0, 1, 0.25),
        lambda m: m.arange(3.0),
        lambda m: m.arange(4, dtype=m.int8),
        lambda m: m.arange(3, 0, -1),
    ],
    "linspace": [lambda m: m.linspace(0, 1, 5), lambda m: m.linspace(-2.0, 3.0)],
    "eye": [lambda m: m.eye(3), lambda m: m.eye(2, 4, 1), lambda m: m.eye(3, dtype=m.int32)],
    "reshape": [lambda m: m.reshape(C, (6, -1)), lambda m: m.array(C).reshape(4, 6)],
    "ravel": [lambda m: m.ravel(C), lambda m: m.array(C).flatten()],
    "transpose": [
        lambda m: m.transpose(C),
        lambda m: m.transpose(C, (1, 0, 2)),
        lambda m: m.array(C).transpose(2, 0, -2),
        lambda m: m.array(M).T,
    ],
    "broadcast_to": [lambda m: m.broadcast_to(V, (2, 4)), lambda m: m.broadcast_to(2, (3,))],
    "squeeze": [lambda m: m.squeeze(C[:1, :1]), lambda m: m.squeeze(C[:1, :1], 1)],
    "concatenate": [lambda m: m.concatenate([M, I], -1), lambda m: m.concatenate([V, V])],
    "stack": [lambda m: m.stack([M, I]), lambda m: m.stack([M, M], -1)],
    "where": [
        lambda m: m.where(B, M, 0),
        lambda m: m.where(True, V, M),
        lambda m: m.where(I, 1, 2),
    ],
    "clip": [
        lambda m: m.clip(M, -0.5, 0.5),
        lambda m: m.clip(I, 0),
        lambda m: m.clip(M, max=0),
    ],
    "power": [lambda m: m.array(I) ** 3, lambda m: m.array(V) ** -2, lambda m: 2 ** m.array(V)],
    "remainder": [lambda m: m.array(I) % 3, lambda m: -7.5 % m.array(V)],
    "floor_divide": [lambda m: m.array(I) // -2, lambda m: m.array(M) // V],
    "divide": [lambda m: m.array(I) / 2, lambda m: 1 / m.array(V)],
    "isnan": [lambda m: m.isnan(np.array([1, np.nan, np.inf], np.float32))],
    "sum": [
        lambda m: m.sum(M),
        lambda m: m.sum(C, (0, -1)),
        lambda m: m.sum(I, 0, keepdims=True),
        lambda m: m.sum(B),
        lambda m: m.sum(M.astype(m.float16)),
        lambda m: m.sum(M, dtype=m.int32),
        lambda m: m.sum(I.astype(np.uint8), 1),
        lambda m: m.sum(m.full(3, 2.0)),
    ],
    "mean": [
        lambda m: m.mean(m.full(3, 2)),
        lambda m: m.mean(M),
        lambda m: m.mean(I, 1),
        lambda m: m.mean(C, (1, 2), keepdims=True),
        lambda m: m.mean(M.astype(m.bfloat16), 0),
        lambda m: m.mean(Z),
    ],
    "var": [lambda m, x=x: m.var(x) for x in (M, I, Z)] + [lambda m: m.var(M, 0, ddof=1)],
    "std": [lambda m: m.std(C, 1, keepdims=True)],
    "max": [
        lambda m: m.max(m.full(3, 2.0)),
        lambda m: m.max(M),
        lambda m: m.max(C, (0, 2)),
        lambda m: m.max(I, 0, keepdims=True),
    ],
    "min": [lambda m: m.min(M), lambda m: m.min(C, -1), lambda m: m.array(B).min()],
    "any": [lambda m: m.any(B), lambda m: m.any(I, 1), lambda m: m.any(B, 0, keepdims=True)],
    "all": [lambda m: m.all(B), lambda m: m.all(I, 1)],
    "argmax": [lambda m: m.argmax(M), lambda m: m.argmax(M, -1), lambda m: m.argmax(I, 0)],
    "argmin": [lambda m: m.argmin(M), lambda m: m.argmin(M, 1)],
    "dot": [lambda m: m.dot(M, V), lambda m: m.dot(C, M.T), lambda m: m.dot(2, V)],
    "matmul": [
        lambda m: m.matmul(M, V),
        lambda m: m.matmul(V, M.T),
        lambda m: m.matmul(C, M.T),
        lambda m: m.matmul(V, CT),
        lambda m: m.matmul(M, CT),
        lambda m: m.matmul(C[:, None], CT),
        lambda m: m.array(I) @ M.T,
        lambda m: m.matmul(C[:1], CT),
    ],
    "real": [lambda m: m.real(Z), lambda m: m.real(M), lambda m: m.array(Z).real],
    "imag": [lambda m: m.imag(Z), lambda m: m.imag(M)],
    "abs": [lambda m: abs(m.array(I)), lambda m: m.abs(Z)],
    # A number of Python's makes an integer a float that still gives way.
    "multiply": [
        lambda m: m.array(I) * 2.5,
        lambda m: m.array(B) * 2,
        lambda m: 2j * m.array(I),
        lambda m: m.array(I) * 2.5 * m.ones(4, m.bfloat16),
        lambda m: m.array(V).at[1].mul(3.0),
    ],
    "negative": [lambda m: -m.array(I)],
    "bitwise_not": [lambda m: ~m.array(I), lambda m: ~m.array(B)],
}
ELEMENTWISE = (
    "abs add bitwise_and bitwise_not bitwise_or bitwise_xor cos equal exp floor_divide greater "
    "greater_equal isfinite isnan left_shift less less_equal log log1p maximum minimum multiply "
    "negative not_equal power real imag remainder right_shift sin sqrt square subtract tanh divide"
).split()
EAGER = ("array", "asarray", "full", "arange", "astype", "sum")  # where traced numbers stay numbers


@pytest.mark.parametrize("name", CASES)
def test_like_jax_numpy(name: str) -> None:
    def make(lib: Any) -> Any:
        return lambda: [f(lib.np) for f in CASES[name]]

    compare(*both(make))
    if name in EAGER:
        compare(make(CORE)(), make(JAX)())


def compare(found: Any, expected: Any) -> None:
    for x, y in zip(core.tree_leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = aval_of(x), jax.typeof(y)
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        tolerance = 1e-5 if a.dtype.itemsize > 2 else 1e-2
        pair = np.asarray(x).astype(complex), np.asarray(y).astype(complex)
        np.testing.assert_allclose(*pair, rtol=tolerance, atol=1e-6)


def test_every_function_is_compared() -> None:
    assert set(cnp._FUNCTIONS) < {*CASES, *ELEMENTWISE}
    assert {*dir(cnp)} <= {*dir(np), "bfloat16"}


ERRORS: dict[str, tuple[type, str, Function]] = {
    "no axis": (ValueError, "axis 2 is out of bounds", lambda m: m.sum(M, 2)),
    "no elements": (ValueError, "zero-size array to reduction", lambda m: m.max(M[:0])),
    "shapes": (ValueError, "Incompatible shapes for broadcasting", lambda m: m.add(C, M.T)),
    "shapes of one rank": (TypeError, "incompatible shapes", lambda m: m.add(M, M.T)),
    "lengths": (TypeError, ".", lambda m: m.matmul(M, M)),
    "reshape": (TypeError, "cannot reshape", lambda m: m.array(M).reshape(5, -1)),
    "joined, ranks": (TypeError, "numbers of dimensions", lambda m: m.concatenate([V, M])),
    "joined, none": (ValueError, "at least one array", lambda m: m.concatenate([])),
    "stacked": (ValueError, "the same shape|equal shape", lambda m: m.stack([V, V[:2]])),
    "negative length": (TypeError, r"no negative lengths, got \(-1,", lambda m: m.zeros((-1, 2))),
    "permutation": (TypeError, "isn't a permutation", lambda m: m.array(M).transpose(0, 0)),
    "negative power": (TypeError, "negative powers", lambda m: m.array(I) ** -1),
    "where": (ValueError, "Incompatible shapes", lambda m: m.where(B, M, M.T)),
    "scalar": (ValueError, "must have ndim at least 1", lambda m: m.matmul(M, 2)),
    "full": (ValueError, "Incompatible", lambda m: m.full((2, 1), V)),
    "broadcast": (ValueError, "does not fit", lambda m: m.broadcast_to(m.array(M), (4,))),
    "item": (TypeError, ".", lambda m: m.array(M).__setitem__(0, 1)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_the_same_kind(name: str) -> None:
    kind, words, f = ERRORS[name]
    with pytest.raises(kind, match=words):
        f(cnp)
    with pytest.raises(kind):
        f(jnp)


@pytest.mark.parametrize(
    ("module", "name", "args"),
    [
        (cnp, "tril", (M,)),
        (cnp, "quantile", (M, 0.3)),
        (core.nn, "gelu", (M,)),
        (core.random, "randint", (np.uint32([0, 3]), (4,), 0, 9)),
        (core.lax, "dynamic_index_in_dim", (M, 1)),
    ],
)
def test_all_other_functions_are_jax_s(module: Any, name: str, args: tuple[Any, ...]) -> None:
    theirs = getattr(jax.numpy if module is cnp else getattr(jax, module.__name__[13:]), name)
    assert getattr(module, name) is getattr(module, name)
    compare(getattr(module, name)(*args), theirs(*args))
    called = lambda x: getattr(module, name)(x, *args[1:])  # noqa: E731
    for eqn in core.make_jaxpr(called)(args[0]).eqns:
        line = called.__code__.co_firstlineno
        assert str(eqn.source_info).startswith(f"test_core_numpy.py:{line} ")


def test_a_name_that_jax_has_not_either() -> None:
    for module, name in ((cnp, "nothing_like_it"), (core.nn, "initializers"), (cnp, "_private")):
        with pytest.raises(AttributeError, match=rf"has no {name}$"):
            getattr(module, name)


def test_signatures_are_kept() -> None:
    assert signature(cnp.sum).parameters["axis"].default is None


def test_sizes_are_pythons() -> None:
    with pytest.raises(core.TracerIntegerConversionError):
        core.jit(cnp.arange)(3)
    with pytest.raises(core.TracerIntegerConversionError):
        core.jit(lambda n: cnp.zeros((n,)))(3)


# ---- numbers that a dtype cannot hold -----------------------------------------------------------

TOO_LARGE = {
    "added": lambda numpy: numpy.asarray(np.int32([1])) + 2**40,
    "multiplied": lambda numpy: numpy.asarray(np.int32([1])) * 2**31,
    "array": lambda numpy: numpy.array(300, "uint8"),
    "list": lambda numpy: numpy.array([1, 300], "uint8"),
    "without a dtype": lambda numpy: numpy.array(2**40),
    "compared": lambda numpy: numpy.asarray(np.int32([1])) < 2**40,
    "beside a float": lambda numpy: numpy.asarray(np.float32([1])) + 2**40,
    "beside a bool": lambda numpy: numpy.asarray([True]) + 2**40,
    "sin": lambda numpy: numpy.sin(2**40),
    "imag": lambda numpy: numpy.imag(-(2**40)),
    "traced": lambda numpy: (core if numpy is cnp else jax).make_jaxpr(lambda: numpy.abs(2**40))(),
    "an argument": lambda numpy: (core if numpy is cnp else jax).jit(lambda x: x)(2**31),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_an_integer_that_the_dtype_cannot_hold_is_an_overflow(name):
    for numpy in (cnp, jnp):
        with pytest.raises(OverflowError):
            TOO_LARGE[name](numpy)


# ---- axes of length 0 ---------------------------------------------------------------------------

NONE, NOWHERE, ROWS = np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros((0, 3), np.float32)
EMPTY = {
    "jacfwd": lambda api, numpy: api.jacfwd(lambda x: x * 2)(NONE),
    "jacrev": lambda api, numpy: api.jacrev(lambda x: x * 2)(NONE),
    "jacrev of nothing": lambda api, numpy: api.jacrev(lambda x: x[:0])(np.ones(3, np.float32)),
    "hessian": lambda api, numpy: api.hessian(lambda x: (x**2).sum())(NONE),
    "index": lambda api, numpy: numpy.asarray(ROWS)[NOWHERE],
    "index of some": lambda api, numpy: numpy.ones((3, 2))[NOWHERE],
    "add": lambda api, numpy: numpy.ones(3).at[NOWHERE].add(NONE),
    "gradient": lambda api, numpy: api.grad(lambda x: x[NOWHERE].sum())(np.ones(3, np.float32)),
    "vmap": lambda api, numpy: api.vmap(lambda x: x * 2)(NONE),
    "dot": lambda api, numpy: numpy.dot(ROWS.T, ROWS),
    "linspace": lambda api, numpy: numpy.linspace(0.0, 1.0, 0),
}


@pytest.mark.parametrize("name", EMPTY)
def test_axes_without_elements(name):
    ours, theirs = EMPTY[name](core, cnp), EMPTY[name](jax, jnp)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


# ---- infinities ---------------------------------------------------------------------------------

MASKED = np.array([[-np.inf, -np.inf], [-np.inf, 1.0]], np.float32)
INFINITE = {
    "imag": lambda api, numpy, nn: numpy.imag(MASKED),
    "linspace": lambda api, numpy, nn: numpy.linspace(-np.inf, 0.0, 3),
    "logsumexp": lambda api, numpy, nn: nn.logsumexp(MASKED, -1),
    "logsumexp of nothing": lambda api, numpy, nn: nn.logsumexp(np.zeros((2, 0), np.float32), -1),
    "logsumexp of uint8": lambda api, numpy, nn: nn.logsumexp(np.uint8([0, 3])),
    "log_softmax's slope": lambda api, numpy, nn: api.grad(lambda x: nn.log_softmax(x)[1])(
        MASKED[1]
    ),
    "logsumexp's slope": lambda api, numpy, nn: api.grad(lambda x: nn.logsumexp(x))(MASKED[1]),
}


@pytest.mark.parametrize("name", INFINITE)
def test_infinities(name):
    ours, theirs = INFINITE[name](core, cnp, core.nn), INFINITE[name](jax, jnp, jax.nn)
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5)


# ---- random numbers -----------------------------------------------------------------------------

DRAWS = {
    "uniform": lambda random, key, dtype: random.uniform(key, (3, 5), dtype),
    "of one number": lambda random, key, dtype: random.uniform(key, (), dtype, -2.0, 3.0),
    "normal": lambda random, key, dtype: random.normal(key, (3, 5), dtype),
    "bits": lambda random, key, dtype: random.bits(
        key, (7,), f"uint{8 * np.dtype(dtype).itemsize}"
    ),
    "bernoulli": lambda random, key, dtype: random.bernoulli(key, 0.3, (9,)),
    "split": lambda random, key, dtype: random.normal(random.split(key, 3)[1], (4,), dtype),
    "fold_in": lambda random, key, dtype: random.uniform(random.fold_in(key, 7), (4,), dtype),
    "default": lambda random, key, dtype: [random.uniform(key, (3,)), random.normal(key)],
}


@pytest.mark.parametrize("wide", [False, True])
def test_draws_are_those_of_jax_bit_for_bit(wide: bool) -> None:
    dtypes = ["float64"] if wide else ["float16", jnp.bfloat16, "float32"]

    def make(lib: Any) -> Any:
        random = core.random if lib is CORE else jax.random
        return lambda key: {
            name: [draw(random, key, dtype) for dtype in dtypes] for name, draw in DRAWS.items()
        }

    with core.enable_x64(wide), jax.enable_x64(wide):
        ours, theirs = both(make, np.uint32([0, 3]))
    for name, expected in theirs.items():
        for a, b in zip(core.tree_leaves(ours[name]), jax.tree.leaves(expected), strict=True):
            assert (name, a.shape, a.dtype) == (name, b.shape, b.dtype)
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=name)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "seed", [0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**40 + 5, -(2**40)]
)
def test_keys_are_those_of_jax(seed: int, wide: bool) -> None:
    with core.enable_x64(wide), jax.enable_x64(wide):
        ours, theirs = core.random.key(seed), jax.random.PRNGKey(seed)
    assert np.asarray(ours).tolist() == np.asarray(theirs).tolist()
