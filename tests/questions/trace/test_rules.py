"""Each documented rule of JAX is checked by running it."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from jaxlens.questions.trace.ladder.facts import RULES

X = jnp.array([0.3, 0.5, 0.2])
USES = {
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
    "exp": jnp.exp,
    "exp2": lax.exp2,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "expm1": jnp.expm1,
    "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt,
    "cbrt": lax.cbrt,
    "logistic": lax.logistic,
    "erf": lax.erf,
    "abs": jnp.abs,
    "square": lax.square,
    "integer_pow": lambda x: lax.integer_pow(x, 3),
    "pow": lambda x: lax.pow(x, x),
    "atan2": lambda x: lax.atan2(x, x * 2),
    "asin": lax.asin,
    "acos": lax.acos,
    "atan": lax.atan,
    "sinh": lax.sinh,
    "cosh": lax.cosh,
    "max": lambda x: lax.max(x, x[::-1]),
    "min": lambda x: lax.min(x, x[::-1]),
    "mul": lambda x: lax.mul(x, x),
    "div": lambda x: lax.div(x, x + 1),
    "add": lambda x: lax.add(x, x),
    "sub": lambda x: lax.sub(x, x),
    "neg": lax.neg,
    "select_n": lambda x: lax.select_n(jnp.array([True, False, True]), x, x),
    "clamp": lambda x: lax.clamp(0.25, x, 0.4),
    "convert_element_type": lambda x: x.astype(jnp.float16),
    "dot_general": lambda x: lax.dot(x, x),
    "conv_general_dilated": lambda x: lax.conv(
        x.reshape(1, 1, 3), x[:2].reshape(1, 1, 2), (1,), "SAME"
    ),
    "reduce_sum": lambda x: x.sum(),
    "broadcast_in_dim": lambda x: lax.broadcast(x, (2,)),
    "reduce_max": lambda x: x.max(),
    "reduce_min": lambda x: x.min(),
    "reduce_prod": lambda x: x.prod(),
    "reshape": lambda x: x.reshape(3, 1),
    "squeeze": lambda x: lax.squeeze(lax.broadcast(x, (1,)), (0,)),
    "transpose": lambda x: lax.broadcast(x, (2,)).T,
    "rev": lambda x: lax.rev(x, (0,)),
    "slice": lambda x: lax.slice(x, (1,), (3,)),
    "pad": lambda x: lax.pad(x, x[0], ((1, 1, 0),)),
    "concatenate": lambda x: lax.concatenate([x, x], 0),
    "split": lambda x: lax.split(x, (1, 2))[1],
    "gather": lambda x: x[jnp.array([0, 0, 2])],
    "scatter-add": lambda x: jnp.zeros(3).at[jnp.array([0, 1, 1])].add(x),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (jnp.array(1),), (2,)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:1], (jnp.array(1),)),
    "cumsum": lax.cumsum,
    "sort": lax.sort,
    "cond": lambda x: lax.cond(x[0] > 0, jnp.sin, lambda x: x, x),
    "scan": lambda x: lax.scan(lambda c, y: (c * y, c), 1.0, x)[1],
    "jit": jax.jit(lambda x: x * x),
}
# What sums up a result for `grad`, adds up cotangents, and prepares an index.
PLAIN = set(
    "reduce_sum broadcast_in_dim add_any mul convert_element_type pad squeeze reshape slice "
    "dynamic_slice".split()
)


def kinds(f, *args):
    return {eqn.primitive.name for eqn in jax.make_jaxpr(f)(*args).jaxpr.eqns}


@pytest.mark.parametrize("name", USES)
def test_the_rules_make_what_is_said(name) -> None:
    f = USES[name]
    before = kinds(f, X)
    assert name in before
    added = kinds(jax.grad(lambda x: jnp.sum(f(x).astype(jnp.float32))), X) - before
    assert added - PLAIN <= {*RULES[name].makes.split(), "mul"}


FLAT = ("sign", "floor", "ceil", "round")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")


@pytest.mark.parametrize("name", [*FLAT, *COMPARED])
def test_what_has_no_derivative_hands_nothing_back(name) -> None:
    assert RULES[name].backward == "nothing"
    f = getattr(lax, name)
    flat = (lambda x: f(x)) if name in FLAT else (lambda x: f(x, x))
    assert not jnp.any(jax.grad(lambda x: jnp.sum(flat(x).astype(jnp.float32)))(X))


def test_a_batched_index_makes_what_is_said() -> None:
    xs, at = jnp.ones((4, 3)), jnp.arange(4)
    branch = jax.vmap(lambda i, x: lax.cond(i > 1, jnp.sin, jnp.cos, x))
    assert {"sin", "cos", "select_n"} <= kinds(branch, at, xs)
    alike = jax.vmap(lambda x: lax.cond(at[0] > 1, jnp.sin, jnp.cos, x))
    assert "cond" in kinds(alike, xs)
    cut = jax.vmap(lambda i, x: lax.dynamic_slice(x, (i,), (2,)))
    assert "gather" in kinds(cut, at, xs)
    put = jax.vmap(lambda i, x: lax.dynamic_update_slice(x, x[:1], (i,)))
    assert "scatter" in kinds(put, at, xs)
