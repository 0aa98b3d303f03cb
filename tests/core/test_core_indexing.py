"""Indexing against JAX: the same index on the same array, and the same jaxprs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxlens import core
from jaxlens.core.numpy import indexing
from tests.support.core.alike import same_program as same

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 2
ONE, TWO = np.int32(1), np.int32(-2)
ROWS, PAIRS = np.array([0, 1, 0], np.int32), np.array([[0, -1], [1, 1]], np.int32)
MASK = np.array([True, False, True])

# Indices whose numbers are known when the program is traced.
STATIC = [
    1,
    -1,
    (1, 2),
    (1, -1, 0),
    slice(None),
    slice(1, None),
    (..., slice(None, None, 2)),
    (slice(None, None, -1), ..., slice(None, None, -2)),
    (slice(None), 1, slice(1, 3)),
    None,
    (None, 1, None, slice(0, 2)),
    (slice(7, 2),),
    (),
    ...,
    7,
    -7,
    (7, slice(None, None, 2)),
    (0, ROWS),
    (slice(None), ROWS),
    (slice(None, None, 2), ROWS, slice(None, None, -2)),
    (slice(1, None), None, ROWS, 1),
    (ROWS, 0, ROWS),
    (0, slice(None), ROWS),
    (..., PAIRS),
    (PAIRS, ROWS[:2]),
    (slice(None), MASK),
    (slice(None), MASK, 1),
    np.stack([MASK, ~MASK]),
    (ROWS.astype(np.uint8), ..., 1),
    ROWS.astype(np.int8),
    np.array([], np.int32),
    np.array([0, 9]),
    (ROWS, slice(None), None),
    (slice(None), None, ROWS),
    (slice(None), ROWS, ..., ROWS),
    True,
]
# Indices with arguments of the traced function in them: what stands there is made from i.
TRACED = [
    lambda i: i,
    lambda i: (i, i),
    lambda i: (i, slice(None, None, -1)),
    lambda i: (None, i, None),
    lambda i: (i, slice(1, 3)),
    lambda i: (..., i),
    lambda i: (i, slice(None, None, 2)),
    lambda i: (i, ROWS),
    lambda i: (slice(7, 2), i),
    lambda i: (slice(1, None), None, ROWS, i),
]


@pytest.mark.parametrize("index", STATIC, ids=str)
def test_known_places(index) -> None:
    same(
        lambda x: (indexing.index(x, index), indexing.At(x)[index].add(2)),
        lambda x: (x[index], x.at[index].add(2)),
        X,
    )


@pytest.mark.parametrize("number", range(len(TRACED)))
def test_traced_places(number: int) -> None:
    made = TRACED[number]

    def ours(x, i, j):
        read = [indexing.index(x, made(k)) for k in (i, j)]
        return read, indexing.At(x)[made(i)].set(2)

    def theirs(x, i, j):
        return [x[made(k)] for k in (i, j)], x.at[made(i)].set(2)

    same(ours, theirs, X, ONE, TWO)


def both_modes(ours, theirs, x, *rest) -> None:
    """jvp and vjp, by the first argument."""

    def derivatives(module, f):
        def both(x, *rest):
            moved = module.jvp(lambda x: f(x, *rest), (x,), (x,))
            return moved, module.vjp(lambda x: f(x, *rest), x)[1](moved[0])[0]

        return both

    same(derivatives(core, ours), derivatives(jax, theirs), x, *rest)


ENTRIES = [
    lambda i, rows: i,
    lambda i, rows: (slice(None, None, -1), i),
    lambda i, rows: rows,
    lambda i, rows: (rows, slice(None), rows),
    lambda i, rows: (slice(1, None), i, rows),
]


@pytest.mark.parametrize("number", range(len(ENTRIES)))
def test_reading_is_linear_and_batches(number: int) -> None:
    made = ENTRIES[number]

    def ours(x, i, rows):
        return indexing.index(x, made(i, rows))

    def theirs(x, i, rows):
        return x[made(i, rows)]

    both_modes(ours, theirs, X, ONE, ROWS)
    many = np.stack([X, X + 1], 1)
    for axes in ((None, None, 0), (1, None, None), (1, 0, 0)):
        args = (
            many if axes[0] else X,
            *(
                np.stack([a, a]) if d == 0 else a
                for a, d in zip((ONE, ROWS), axes[1:], strict=True)
            ),
        )
        same(core.vmap(ours, axes), jax.vmap(theirs, axes), *args)


UPDATES = {
    "set": lambda x, at, y: x.at[at].set(y),
    "add": lambda x, at, y: x.at[at].add(y),
    "subtract": lambda x, at, y: x.at[at].subtract(y),
}


@pytest.mark.parametrize("name", UPDATES)
def test_writing_differentiates_and_batches(name: str) -> None:
    update = UPDATES[name]

    class Held:
        def __init__(self, x) -> None:
            self.at = indexing.At(x)

    def ours(x, y, rows):
        return update(Held(x), (slice(None), rows), y)

    def theirs(x, y, rows):
        return update(jnp.asarray(x), (slice(None), rows), y)

    rows = np.int32([2, 0, 7])
    y = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1
    both_modes(ours, theirs, X, y, rows)
    both_modes(lambda y, x: ours(x, y, rows), lambda y, x: theirs(x, y, rows), y, X)
    for axes in ((0, None, None), (None, None, 0), (None, 0, 0)):
        args = [np.stack([a, a]) if d == 0 else a for a, d in zip((X, y, rows), axes, strict=True)]
        same(core.vmap(ours, axes), jax.vmap(theirs, axes), *args)


def test_multiplying_is_linear() -> None:
    rows, y = np.int32([1, 1, 3, 7]), np.float32([3, 50, -1, 2])
    both_modes(
        lambda x: indexing.At(x)[0, 0, rows].multiply(y),
        lambda x: jnp.asarray(x).at[0, 0, rows].multiply(y),
        X,
    )


def test_overlapping_writes() -> None:
    rows, y = np.int32([1, 1, 0]), np.float32([3, 50, -1])
    for kind in ("add", "multiply", "min", "max"):
        same(
            lambda x, kind=kind: getattr(indexing.At(x)[0, 0, rows], kind)(y),
            lambda x, kind=kind: getattr(jnp.asarray(x).at[0, 0, rows], kind)(y),
            X,
        )
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    least = lambda at: at[rows].min(0.1).sum()  # noqa: E731
    found = core.grad(lambda x: least(indexing.At(x)))(x)
    np.testing.assert_allclose(found, jax.grad(lambda x: least(x.at))(x))
    # Which write stays is open; the derivative has to follow the one that did.
    written, moved = core.jvp(
        lambda y: indexing.At(X[0, 0])[rows].set(y), (y,), (np.float32([1, 2, 3]),)
    )
    expected = {3.0: 1.0, 50.0: 2.0}[float(np.asarray(written)[1])]
    assert np.asarray(moved).tolist() == [3, expected, 0, 0]
    with pytest.raises(NotImplementedError, match="only implemented if `unique_indices=True`"):
        core.jvp(lambda y: indexing.At(X[0, 0])[rows].multiply(y), (y,), (y,))


def test_modes() -> None:
    """Options that JAX has and the core's `at` does not, though its primitives do."""
    at, options = np.array([0, 5, -9], np.int32), {"mode": "clip", "unique_indices": True}
    for f in (
        lambda x: x.at[:, at].get(mode="fill"),
        lambda x: x.at[:, at].get(mode="fill", fill_value=7),
        lambda x: x.at[:, at].get(mode="clip"),
        lambda x: x.at[:, at].set(1, mode="clip"),
        lambda x: x.at[:, at[:2]].set(x[:, :2] * 2, **options),
        lambda x: x.at[:, at[:2]].mul(2.0, mode="clip"),
    ):
        both_modes(core.from_jax(f), f, jnp.asarray(X))
    for dtype in (np.int8, np.uint16, bool):
        f = lambda x: jnp.asarray(x).at[:, at].get(mode="fill")  # noqa: E731
        same(core.from_jax(f), f, X.astype(dtype))


def test_dtypes_of_what_is_written() -> None:
    for x, y in ((X, 2), (X, np.int32([1])), (X.astype(np.int32), True), (X.astype(np.float16), 1)):
        same(
            lambda x, y=y: indexing.At(x)[1:].add(y), lambda x, y=y: jnp.asarray(x).at[1:].add(y), x
        )
    with pytest.warns(FutureWarning, match="incompatible types"):
        found = indexing.At(np.int32([3, 4]))[0].multiply(1.5)
    assert (found.dtype, np.asarray(found).tolist()) == (np.int32, [4, 4])


def test_dynamic_slices() -> None:
    for f in (
        lambda m, x, i: m.dynamic_slice(x, (i, -2, 0), (1, 2, 4)),
        lambda m, x, i: m.dynamic_update_slice(
            x, m.dynamic_slice(x, (0, 0, 0), (1, 2, 4)), (i, 1, i)
        ),
    ):
        both_modes(lambda x, i, f=f: f(core.lax, x, i), lambda x, i, f=f: f(lax, x, i), X, ONE)


def test_take() -> None:
    at = np.int32([[2, 0, -1, 1]] * 2)
    for axis in (0, 1, -1):
        for f in (jnp.take, jnp.take_along_axis):
            order = at if f is jnp.take else np.argsort(X, axis).astype(np.int32)
            taken = lambda x, at, axis=axis, f=f: f(x, at, axis)  # noqa: E731
            both_modes(core.from_jax(taken), taken, X, order)


@pytest.mark.parametrize(
    ("index", "kind", "words"),
    [
        ((0, 0, 0, 0), IndexError, "Too many indices: array is 3-dimensional, but 4"),
        ((..., 0, ...), IndexError, "single ellipsis"),
        ([0, 1], TypeError, "Using a non-tuple sequence"),
        (1.5, TypeError, "integer or boolean type, got indexer with type float"),
        (np.float32([1]), TypeError, "got indexer with type float32"),
        ("a", TypeError, "string indexing; got idx='a'"),
        ({}, IndexError, "only integers, slices"),
        (np.array([True]), IndexError, r"boolean index did not match .* got \(1,\)"),
        ((ROWS, ROWS[:2]), ValueError, "Incompatible shapes for broadcasting"),
        (slice(None, None, 0), ValueError, "zero"),
        (slice(1.5), TypeError, "cannot be interpreted as an integer"),
    ],
    ids=str,
)
def test_errors(index, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        indexing.index(X, index)
    with pytest.raises(kind):
        jnp.asarray(X)[index]


def test_traced_errors() -> None:
    with pytest.raises(IndexError, match=r"indexing.py:\d+ .*Slice entries must be static"):
        core.make_jaxpr(lambda i: indexing.index(X, slice(i, None)))(ONE)
    with pytest.raises(core.NonConcreteBooleanIndexError, match=r"cnp\.where"):
        core.make_jaxpr(lambda mask: indexing.index(X, mask))(X > 0)
    with pytest.raises(ValueError, match=r"type=float32\[5\] and .* type=float32\[3,4\]"):
        indexing.At(X)[0].set(np.ones(5))
