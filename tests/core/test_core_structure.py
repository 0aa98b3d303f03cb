"""The core writes textbook functions down as JAX does: same primitives, same order, same types."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from tests.support.core.models import CORE, JAX

pytestmark = pytest.mark.backend
X, V, M = np.float32(0.7), np.arange(3, dtype=np.float32), np.ones((3, 4), np.float32)
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "scale and shift": (lambda lib: lambda x: 2.0 * x + 1, (V,)),
    "polynomial": (lambda lib: lambda x: x**3 - x**2 / 2 + x, (X,)),
    "affine": (lambda lib: lambda x, w: lib.np.tanh(x @ w), (V, M)),
    "norm": (lambda lib: lambda x: lib.np.sqrt((x**2).sum()), (V,)),
    "mean": (lambda lib: lambda x: x.mean(0) + x.sum(axis=0), (M,)),
    "softmax by hand": (lambda lib: _softmax(lib), (V,)),
    "logistic loss": (lambda lib: lambda x: lib.np.log1p(lib.np.exp(-x)).mean(), (V,)),
    "broadcast": (lambda lib: lambda x, w: w + x[:, None], (V, M)),
    "slices": (lambda lib: lambda x: x[1:] - x[:-1], (V,)),
    "first": (lambda lib: lambda x: x[0] * x, (V,)),
    "transpose": (lambda lib: lambda w: w.T @ w, (M,)),
    "reshape": (lambda lib: lambda w: w.reshape(-1), (M,)),
    "concatenate": (lambda lib: lambda x: lib.np.concatenate([x, x]), (V,)),
    "largest": (lambda lib: lambda x: x.max() - x.min(), (V,)),
    "compare": (lambda lib: lambda x: (x > 1) & (x < 2), (V,)),
    "integers": (lambda lib: lambda x: lib.np.arange(3) + x, (np.arange(3, dtype=np.int32),)),
    "einsum": (lambda lib: lambda a, b: lib.np.einsum("ij,kj->ik", a, b), (M, M)),
    "jit": (lambda lib: lambda x: lib.jit(lambda y: lib.np.sin(y) * 2)(x) + x, (V,)),
    "scan": (lambda lib: lambda x: lib.lax.scan(lambda c, a: (c + a, c * a), X, x), (V,)),
    "cond": (lambda lib: lambda x: lib.lax.cond(x > 0, lib.np.sin, lib.np.cos, x), (X,)),
    "while": (lambda lib: lambda x: _doubled(lib)(x), (X,)),
    "grad of sin * square": (lambda lib: lib.grad(lambda x: lib.np.sin(x) * x**2), (X,)),
    "grad of affine": (lambda lib: lib.grad(lambda w, x: lib.np.tanh(x @ w).sum()), (M, V)),
    "grad of quotient": (lambda lib: lib.grad(lambda x: x / (1 + x)), (X,)),
    "grad of softplus": (lambda lib: lib.grad(lambda x: lib.np.log1p(lib.np.exp(x)).sum()), (V,)),
    "grad of norm": (lambda lib: lib.grad(lambda x: lib.np.sqrt((x**2).sum())), (V,)),
    "second derivative": (lambda lib: lib.grad(lib.grad(lambda x: lib.np.sin(x) * x)), (X,)),
    "jvp": (lambda lib: lambda x, t: lib.jvp(lib.np.sin, (x,), (t,)), (X, X)),
    "vmap": (lambda lib: lib.vmap(lambda x: lib.np.sin(x).sum()), (M,)),
    "vmap of affine": (lambda lib: lib.vmap(lambda x, w: x @ w, in_axes=(0, None)), (M.T, M)),
    "vmap of grad": (lambda lib: lib.vmap(lib.grad(lambda x: x**2 * lib.np.cos(x))), (V,)),
    "grad of vmap": (lambda lib: lib.grad(lambda x: lib.vmap(lib.np.sin)(x).sum()), (V,)),
}


def _softmax(lib: Any) -> Any:
    def softmax(x: Any) -> Any:
        e = lib.np.exp(x - x.max())
        return e / e.sum()

    return softmax


def _doubled(lib: Any) -> Any:
    return lambda x: lib.lax.while_loop(lambda c: c < 10, lambda c: c * 2, x)


def equations(jaxpr: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Primitive and types of results of each equation, nested ones in place."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name, tuple(v.aval.str_short(short_dtypes=True) for v in eqn.outvars)
        for value in eqn.params.values():
            for item in value if isinstance(value, list | tuple) else (value,):
                inner = getattr(item, "jaxpr", item)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


@pytest.mark.parametrize("name", CASES)
def test_same_equations(name: str) -> None:
    make, args = CASES[name]
    ours = list(equations(CORE.make_jaxpr(make(CORE))(*args).jaxpr))
    theirs = list(equations(JAX.make_jaxpr(make(JAX))(*args).jaxpr))
    if jax.version.__version_info__ < (0, 11):  # later versions write some gradients otherwise
        assert ours == theirs
    assert [types for _, types in ours][-1:] == [types for _, types in theirs][-1:]


@pytest.mark.parametrize("name", ["scale and shift", "affine", "scan", "grad of sin * square"])
def test_same_notation(name: str) -> None:
    """Letter for letter, but for parameters that only serve sharding."""
    make, args = CASES[name]
    ours = str(CORE.make_jaxpr(make(CORE))(*args))
    theirs = str(JAX.make_jaxpr(make(JAX))(*args)).replace(" out_sharding=None", "")
    if jax.version.__version_info__ < (0, 11):
        assert ours.split() == theirs.split()
