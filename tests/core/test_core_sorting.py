"""Sorting against JAX: values, derivatives, vmap, jaxprs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxlens import core
from tests.support.core.alike import same_program

X = np.array([[3, 1, 2, 1], [0, -0.0, np.nan, -np.inf], [5, 9, 7, 8]], np.float32)
same = partial(same_program, tolerance=0)

CASES = {
    "sort": (lambda x: core.numpy.sort(x, 0), lambda x: jnp.sort(x, 0)),
    "several": (
        lambda x: list(core.lax.sort((x, x, x), num_keys=2)),
        lambda x: list(lax.sort((x, x, x), num_keys=2)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    ours, theirs = CASES[name]

    def all_of(module, f):
        def both(x):
            moved = module.jvp(f, (x,), (2 * x,))
            return moved, module.vjp(f, x)[1](moved[0])[0]

        return both

    same(
        lambda x: [core.vmap(ours, d)(x) for d in (1, 2)],
        lambda x: [jax.vmap(theirs, d)(x) for d in (1, 2)],
        np.stack([X, -X], 2),
    )
    same(all_of(core, ours), all_of(jax, theirs), np.nan_to_num(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint32, bool, np.complex64])
def test_orders_of_dtypes(dtype) -> None:
    x = np.clip(np.nan_to_num(X), 0, 9).astype(dtype) if np.dtype(dtype).kind in "iub" else X
    if dtype is np.complex64:
        x = np.stack([X, X[::-1]], -1).view(dtype)[..., 0]
    same(
        lambda x: (core.numpy.sort(x), core.numpy.argsort(x)),
        lambda x: (jnp.sort(x), jnp.argsort(x)),
        x.astype(dtype),
    )


def test_only_one_key_is_batched() -> None:
    same(
        core.vmap(lambda x, y: list(core.lax.sort((x, y), num_keys=1)), (0, None)),
        jax.vmap(lambda x, y: list(lax.sort((x, y), num_keys=1)), (0, None)),
        X,
        X[0],
    )
