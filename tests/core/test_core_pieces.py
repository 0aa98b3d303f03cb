"""Cutting and joining against JAX: values, both derivatives, vmap, jaxprs."""

import jax
import numpy as np
import pytest
from jax import lax

from jaxlens import core
from jaxlens.core.kernel import basics
from jaxlens.core.primitives import pieces, shapes
from tests.support.core.alike import CORE, JAX, both, close

X = np.arange(12, dtype=np.float32).reshape(3, 4) ** 2
CASES = {
    "slice": lambda m, x: m.slice(x, (1, 0), (3, 3), (1, 2)),
    "slice, no strides": lambda m, x: m.slice(x, (0, 1), (2, 4)),
    "slice, empty": lambda m, x: m.slice(x, (1, 0), (1, 4)),
    "slice, stride beyond": lambda m, x: m.slice(x, (0, 0), (3, 4), (2, 3)),
    "pad": lambda m, x: m.pad(x, np.float32(2), ((1, 0, 2), (0, 3, 0))),
    "pad, negative": lambda m, x: m.pad(x, np.float32(2), ((-1, 1, 1), (-2, -1, 0))),
    "concatenate": lambda m, x: m.concatenate([x, m.rev(x, (0,)), x], 1),
    "split": lambda m, x: m.split(x, (1, 2, 1), 1),
    "split, one part": lambda m, x: m.split(x, (1, 2), 0)[1],
    "stack": lambda m, x: m.stack([x, m.rev(x, (0,))], 1),
    "unstack": lambda m, x: m.unstack(x, 1)[1:],
    "rev": lambda m, x: m.rev(x, (1,)),
}


DERIVED = ("stack", "unstack")  # primitives of JAX's; here made of others


def primitives(jaxpr) -> list:
    return [(e.primitive.name, [v.aval.shape for v in e.outvars]) for e in jaxpr.eqns]


def same(ours, theirs, *args, equations: bool = True) -> None:
    """Values, dtypes and the equations of two functions, one of core and one of JAX."""
    written = core.make_jaxpr(ours)(*args)
    core.check_jaxpr(written)
    assert not equations or primitives(written) == primitives(jax.make_jaxpr(theirs)(*args))
    close(*both(lambda lib: ours if lib is CORE else theirs, *args), 1e-6)


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    """Value, both derivatives and the examples along each axis."""

    def every(lib):
        def f(x):
            return CASES[name](lib.lax, x)

        def g(x, *stacks):
            three = [lib.vmap(f, axis)(many) for axis, many in enumerate(stacks)]
            return lib.jvp(f, (x,), (x,)), lib.vjp(f, x)[1](f(x)), three

        return g

    stacks = [np.stack([X, 2 * X], axis) for axis in (0, 1, 2)]
    same(every(CORE), every(JAX), X, *stacks, equations=name not in DERIVED)


def test_padding_value_has_a_derivative() -> None:
    config = ((1, 2, 1), (0, -1, 0))

    def loss(module, sum_):
        return lambda x, v: sum_(module.pad(x, v, config))

    ours = loss(pieces, lambda x: basics.reduce_sum(x, (0, 1)))
    theirs = loss(lax, lambda x: x.sum())
    found, expected = (
        module.vjp(f, X, np.float32(3))[1](np.float32(1))
        for module, f in ((core, ours), (jax, theirs))
    )
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)
    same(
        core.vmap(lambda x, v: pieces.pad(x, v, config), (None, 0)),
        jax.vmap(lambda x, v: lax.pad(x, v, config), (None, 0)),
        X,
        np.float32([1, 2]),
    )


def test_iota() -> None:
    same(lambda: shapes.iota(int, (2, 3), 1), lambda: lax.broadcasted_iota(int, (2, 3), 1))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: pieces.slice(X, (0, 0), (4, 4)), TypeError, "within the shape"),
        (lambda: pieces.slice(X, (0,), (3,)), TypeError, "needs 2 start_indices"),
        (lambda: pieces.slice(X, (0, 0), (3, 4), (1, -1)), TypeError, "use rev"),
        (lambda: pieces.pad(X, 1, ((1, 1, 0),) * 2), TypeError, "dtype float32"),
        (lambda: pieces.pad(X, np.float32(1), ((-4, 0, 0), (0, 0, 0))), ValueError, "more than"),
        (lambda: pieces.concatenate([X, X[:2]], 1), TypeError, "agree but for axis 1"),
        (lambda: pieces.concatenate([X, X.astype(int)], 1), TypeError, "same dtypes"),
        (lambda: pieces.split(X, (1, 1), 0), ValueError, "add up"),
        (lambda: pieces.rev(X, (2,)), ValueError, "rev: axes must be different"),
    ],
)
def test_errors(call, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
