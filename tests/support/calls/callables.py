"""Callables of every kind that a user may call: `(f, args)` each, made anew.

`ran` says when Python ran one of the plain functions below.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

ran: list[str] = []
X, Y = np.ones((4, 8), np.float32), np.full((4, 8), 2, np.float32)


def train(p, x, unroll=1):
    ran.append("train")
    return p + unroll * x


def loss(x):
    return jnp.sin(x).sum()


class Layer:
    scale = 3.0
    __call__ = staticmethod(jax.jit(lambda x: x * 2))

    def apply(self, x):
        return x + self.scale

    @functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
    def donating(self, x):
        return x - 1


class Lender:
    """Calls a function otherwise, and lends all of its attributes."""

    def __init__(self, f):
        self._f = f

    def __call__(self, x):
        return self._f(x.astype(jnp.float16)).astype(jnp.float32)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_f"), name)


class WrappingLender(Lender):
    def __init__(self, f):
        super().__init__(f)
        functools.update_wrapper(self, f)


class Proxy(Lender):
    """Says to be what it wraps, as the objects of `wrapt` do."""

    def __init__(self, f):
        object.__setattr__(self, "_f", f)

    __slots__ = ("_f",)
    __class__ = property(lambda self: type(self._f))


@functools.wraps(train)
def of_a_pair(pair):
    return train(*pair)


@functools.wraps(jnp.tanh)
def named_like_jaxs(x):
    return jnp.tanh(x.astype(jnp.float16))


@functools.cache
def by_rate(rate):
    return jax.jit(lambda x: x * rate)


def _in_equinox(f):
    import equinox

    return equinox.filter_jit(f, donate="all")


def _in_flax(f):
    from flax import nnx

    return nnx.jit(f)


_partial = functools.partial(train, unroll=1)
CALLABLES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "jit of a partial": lambda: (jax.jit(_partial, donate_argnums=0), (X, Y)),
    "jit of JAX's": lambda: (jax.jit(jnp.tanh, donate_argnums=0), (X,)),
    "jit of Python's": lambda: (jax.jit(operator.add), (X, Y)),
    "vmap of JAX's": lambda: (jax.vmap(jnp.add), (X, Y)),
    "grad of a partial": lambda: (jax.grad(functools.partial(loss)), (X,)),
    "partial of JAX's": lambda: (functools.partial(jnp.add, X), (Y,)),
    "partial of jit": lambda: (functools.partial(jax.jit(jnp.add, donate_argnums=1), X), (Y,)),
    "make_jaxpr": lambda: (jax.make_jaxpr(train), (X, Y)),
    "frompyfunc": lambda: (jnp.frompyfunc(train, 2, 1), (X, Y)),
    "wrapper of other arguments": lambda: (of_a_pair, ((X, Y),)),
    "wrapper named like JAX's": lambda: (named_like_jaxs, (X,)),
    "object with a jitted call": lambda: (Layer(), (X,)),
    "jitted method": lambda: (Layer().donating, (X,)),
    "from a cache": lambda: (by_rate(3.0), (X,)),
    "lender of vmap": lambda: (WrappingLender(jax.vmap(jnp.sin)), (X,)),
    "equinox_of_a_partial": lambda: (_in_equinox(_partial), (X, Y)),
    "nnx_of_JAX's": lambda: (_in_flax(jnp.add), (X, Y)),
}
