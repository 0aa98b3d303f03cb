"""Copies, their causes and what removes them, against the copies in the text that JAX prints."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxlens
from jaxlens.questions.copies.measure import Change, compiled

pytestmark = pytest.mark.backend

N = 10_000
A = jax.ShapeDtypeStruct((N,), jnp.float32)
I = jax.ShapeDtypeStruct((), jnp.int32)
X, K = (jax.ShapeDtypeStruct(s, jnp.float32) for s in ((2, 8, 16, 16), (16, 8, 3, 3)))
Q = jax.ShapeDtypeStruct((2, 32, 4, 16), jnp.float32)
# An instruction that copies an array, or a fusion that XLA names after nothing but copies.
COPY = re.compile(r"= \w+\[[\d,]+\]\S* (?:copy|transpose)\(|%(?:transpose_|copy_)+fusion\S* = ")


def counted(f, *args, **options):
    """Counts the copies in what JAX prints, those inside fusions left out."""
    text = jax.jit(f, **options).lower(*args).compile().as_text()
    bodies = (b for b in text.split("\n\n") if not re.match(r"\s*%(fused|wrapped)_", b))
    return sum(len(COPY.findall(body)) for body in bodies)


def verlet(p, q, unroll=1):
    def step(carry, _):
        p, q = carry
        return (q, 2 * q - p + 0.01 * jnp.sin(q)), None

    return lax.scan(step, (p, q), None, length=48, unroll=unroll)[0]


def reads_late(x, i):
    y = x.at[i].set(1.0)
    return y, x.sum()


def reads_first(x, i):
    total = x.sum()
    return x.at[i].set(total), total


def loop(x, first=False):
    def step(i, carry):
        x, s = carry
        total = x.sum()
        return x.at[i].set(s + total if first else s), total

    return lax.fori_loop(0, 50, step, (x, 0.0))


def nchw(x, k):
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))


def nhwc(x, k):
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def scores(q, k):
    return jnp.einsum("bqhd,bkhd->bhqk", q, k)


def scores_by_head(q, k):
    return jnp.einsum("bhqd,bhkd->bhqk", q, k)


def moved(shape, *order):
    return jax.ShapeDtypeStruct(tuple(shape.shape[n] for n in order), shape.dtype)


# Program, arguments, donated, causes; the mended program written by hand, its arguments, donated.
CASES = {
    "a shifted carry": (
        (verlet, (A, A), ()),
        {"shifted", "kept"},
        (partial(verlet, unroll=2), (A, A), (0, 1)),
    ),
    "a donated argument": ((reads_late, (A, I), (0,)), {"read"}, (reads_first, (A, I), (0,))),
    "an update in a loop": (
        (loop, (A,), ()),
        {"read", "kept"},
        (partial(loop, first=True), (A,), (0,)),
    ),
    "a convolution": (
        (nchw, (X, K), ()),
        {"layout"},
        (nhwc, (moved(X, 0, 2, 3, 1), moved(K, 2, 3, 1, 0)), ()),
    ),
    "heads": (
        (scores, (Q, Q), ()),
        {"layout"},
        (scores_by_head, (moved(Q, 0, 2, 1, 3), moved(Q, 0, 2, 1, 3)), ()),
    ),
    "an input as it is": (
        (lambda x: (x, x * 2), (A,), ()),
        {"returned"},
        (lambda x: (x, x * 2), (A,), (0,)),
    ),
}
# On this jax alone XLA drops the barrier that puts a read first, before it inserts copies.
KEPT = {"a donated argument", "an update in a loop"}


@pytest.mark.parametrize("name", CASES)
def test_the_copies_are_those_of_the_text_and_their_mend_removes_them(name) -> None:
    (f, args, donated), kinds, (mended, mended_args, mended_donated) = CASES[name]
    found = jaxlens.copies(jax.jit(f, donate_argnums=donated), *args)
    before = counted(f, *args, donate_argnums=donated)
    assert len(found.copies) == before > 0
    assert {copy.cause.kind for copy in found.copies} == kinds
    assert counted(mended, *mended_args, donate_argnums=mended_donated) == 0
    best = min(mend.bytes for mend in found.mends)
    if name not in KEPT or jax.__version_info__ >= (0, 11):
        assert best == 0
    assert "traced again" not in str(found)
    assert "traced 2 times" not in str(found)
