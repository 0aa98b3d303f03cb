"""Functions that JAX cannot trace, each with what is to be said of it and offered instead."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

X = jnp.arange(6.0) - 2


def returns_either(x):
    y = x * 2
    if y.sum() > 0:
        return y
    return -y


def binds_either(x):
    if 0 < x[0] < 1:
        x = x + 1
    return x


def either(x, training):
    return x * 2 if training else x


def and_(x):
    return x[0] > 0 and x[1] > 0


def larger(x):
    return max(x[0], x[1])


def asserted(x):
    assert x.sum() > 0
    return x


def loops(x):
    while x.max() > 1:
        x = x / 2
    return x


def counts(x, n):
    for i in range(n):
        x = x * i
    return x


def whole(x, n):
    return x + int(n)


def selected(x):
    return x[x > 0].max()


def replaced(x):
    x[x > 0] = 1
    return x


def increased(x):
    x[0] -= 2
    return x


def by_numpy(x):
    return np.sin(x) + 1


def of_shape(x, n):
    return jnp.zeros(n) + x[0]


def of_size(x):
    return jnp.nonzero(x)[0]


def first(x, n):
    return x[:n]


def in_a_dict(x):
    return {x: 1}[x]


def formatted(x):
    return f"{x[0]:.2f}"


def key_as_number(k):
    return k * 2


def number_as_key(x):
    return jax.random.normal(x, (3,))


def carries(x):
    return lax.scan(lambda c, _: (c * 2.5, c), jnp.int32(1), None, length=3)


def branches(x):
    return lax.cond(x[0] > 0, lambda v: v, lambda v: v.astype(jnp.int32), x)


def mapped(x):
    return jax.vmap(lambda v: v if v > 0 else -v)(x)


def differentiated(x):
    def loss(x):
        s = (x**2).sum()
        return s if s > 1 else 2 * s

    return jax.grad(loss)(x)


@dataclass(frozen=True)
class Case:
    """A call that cannot be traced.

    Attributes:
        call: The function and its arguments.
        value: The traced value, what it is and where it came from.
        code: What is offered and was tried.
        gives: What that gives.
    """

    call: tuple
    value: str
    code: str
    gives: str = "f32[6]"


KEY = jax.random.key(0)
CASES = [
    Case(
        (returns_either, X),
        "y.sum() > 0 bool[] from x of returns_either",
        "return jnp.where(y.sum() > 0, y, -y)",
    ),
    Case(
        (returns_either, X),
        "y.sum() > 0 bool[] from x of returns_either",
        "return jax.lax.cond(y.sum() > 0, lambda: y, lambda: -y)",
    ),
    Case(
        (binds_either, X),
        "0 < x[0] < 1 bool[] from x of binds_either",
        "x = jnp.where(jnp.logical_and(0 < x[0], x[0] < 1), x + 1, x)",
    ),
    Case(
        (either, X, jnp.array(True)),
        "training bool[] from training of either",
        "return jnp.where(training, x * 2, x)",
    ),
    Case(
        (and_, X),
        "x[0] > 0 and x[1] > 0 bool[] from x of and_",
        "return jnp.logical_and(x[0] > 0, x[1] > 0)",
        "bool[]",
    ),
    Case((larger, X), " bool[] from x of larger", "return jnp.maximum(x[0], x[1])", "f32[]"),
    Case(
        (loops, X),
        "x.max() > 1 bool[] from x of loops",
        "x = jax.lax.while_loop(lambda x: x.max() > 1, lambda x: x / 2, x)",
    ),
    Case(
        (counts, X, 3), "n i32[] from n of counts", "jax.jit(counts, static_argnames='n')", "counts"
    ),
    Case((replaced, X), "x f32[6] from x of replaced", "x = jnp.where(x > 0, 1, x)"),
    Case((increased, X), "x f32[6] from x of increased", "x = x.at[0].add(-2)"),
    Case((by_numpy, X), "x f32[6] from x of by_numpy", "return jnp.sin(x) + 1"),
    Case(
        (of_shape, X, 3),
        "n i32[] from n of of_shape",
        "jax.jit(of_shape, static_argnames='n')",
        "of_shape",
    ),
    Case(
        (of_size, X),
        "x f32[6] from x of of_size",
        "return jnp.nonzero(x, size=x.size)[0]",
        "i32[6]",
    ),
    Case(
        (carries, X),
        "",
        "return lax.scan(lambda c, _: (c * 2.5, c), jnp.asarray(jnp.int32(1), jnp.float32), None, "
        "length=3)",
        "f32[], f32[3]",
    ),
    Case((mapped, X), "v > 0 bool[] from x of mapped", "jnp.where(v > 0, v, -v)", "f32[]"),
    Case(
        (differentiated, X),
        "s > 1 bool[] from x of differentiated",
        "return jnp.where(s > 1, s, 2 * s)",
        "f32[]",
    ),
]
# What is said where no line is rewritten.
SAID = [
    ((whole, X, 3), "Keep it an array"),
    ((selected, X), "Keep the shape: jnp.where(mask, x, 0)"),
    ((first, X, 3), "jax.lax.dynamic_slice_in_dim a traced start"),
    ((in_a_dict, X), "Use a key that Python knows"),
    ((formatted, X), "jax.debug.print prints it when the program runs"),
    ((key_as_number, KEY), "Draw numbers with the key: jax.random.uniform(key)"),
    ((number_as_key, X), "Make a key of a seed: jax.random.key(0)"),
    ((branches, X), "Let both give the same"),
]
