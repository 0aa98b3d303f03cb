"""Indexing against JAX: the same index on the same array, and the same jaxprs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxlens import core
from jaxlens.core import dynamic_slices, indexing, subscripts
from jaxlens.core.gathering import GatherScatterMode

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 2
ONE, TWO = np.int32(1), np.int32(-2)
ROWS, PAIRS = np.array([0, 1, 0], np.int32), np.array([[0, -1], [1, 1]], np.int32)
MASK = np.array([True, False, True])

# Indices whose numbers are known when the program is traced.
STATIC = [
    1, -1, (1, 2), (1, -1, 0), slice(None), slice(1, None), (..., slice(None, None, 2)),
    (slice(None, None, -1), ..., slice(None, None, -2)), (slice(None), 1, slice(1, 3)), None,
    (None, 1, None, slice(0, 2)), (slice(7, 2),), (), ..., 7, -7, (7, slice(None, None, 2)),
    (0, ROWS), (slice(None), ROWS), (slice(None, None, 2), ROWS, slice(None, None, -2)),
    (slice(1, None), None, ROWS, 1), (ROWS, 0, ROWS), (0, slice(None), ROWS), (..., PAIRS),
    (PAIRS, ROWS[:2]), (slice(None), MASK), (slice(None), MASK, 1), np.array([[True, False, True]] * 2),
    (ROWS.astype(np.uint8), ..., 1), ROWS.astype(np.int8), np.array([], np.int32), np.array([0, 9]),
    (ROWS, slice(None), None), (slice(None), None, ROWS),
]  # fmt: skip
# Indices with arguments of the traced function in them: what stands there is made from i.
TRACED = [
    lambda i: i, lambda i: (i, i), lambda i: (i, slice(None, None, -1)), lambda i: (None, i, None),
    lambda i: (i, slice(1, 3)), lambda i: (..., i), lambda i: (i, slice(None, None, 2)),
    lambda i: (i, ROWS), lambda i: (slice(7, 2), i), lambda i: (slice(1, None), None, ROWS, i),
]  # fmt: skip


def primitives(jaxpr) -> list:
    """The equations of a jaxpr; those in calls of jit stand where the call is."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "jit":
            found += primitives(eqn.params["jaxpr"])
        else:
            found.append((eqn.primitive.name, [(v.aval.shape, str(v.aval.dtype)) for v in eqn.outvars]))
    return found


def same(ours, theirs, *args) -> None:
    """Values, dtypes and the equations of two functions, one of core and one of JAX."""
    written = core.make_jaxpr(ours)(*args)
    core.check_jaxpr(written)
    assert primitives(written) == primitives(jax.make_jaxpr(theirs)(*args))
    expected = jax.tree.leaves(theirs(*args))
    found = core.tree_leaves(ours(*args))
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in expected]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)


@pytest.mark.parametrize("index", STATIC, ids=str)
def test_known_places(index) -> None:
    same(lambda x: indexing.index(x, index), lambda x: jnp.asarray(x)[index], X)
    same(
        lambda x: indexing.index_update(x, index, 2, "add"),
        lambda x: jnp.asarray(x).at[index].add(2),
        X,
    )


@pytest.mark.parametrize("number", range(len(TRACED)))
def test_traced_places(number: int) -> None:
    made = TRACED[number]
    for i in (ONE, TWO):
        same(
            lambda x, i: indexing.index(x, made(i)),
            lambda x, i: jnp.asarray(x)[made(jnp.asarray(i))],
            X,
            i,
        )
        same(
            lambda x, i: indexing.index_update(x, made(i), 2, "set"),
            lambda x, i: jnp.asarray(x).at[made(jnp.asarray(i))].set(2),
            X,
            i,
        )


@pytest.mark.parametrize("index", [True, False, (True, 1), (slice(None), True, ROWS)])
def test_single_truth_values(index) -> None:
    found = indexing.index(X, index)
    np.testing.assert_array_equal(np.asarray(found), jnp.asarray(X)[index])
