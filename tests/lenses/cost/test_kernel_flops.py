"""Flops of kernels and of programs that are library calls: the first finding has a figure."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import jaxlens

pytestmark = pytest.mark.backend


def product(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] @ y_ref[...]


def blocked(x, y):
    return pl.pallas_call(
        product,
        out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32),
        grid=(2, 2, 2),
        in_specs=[
            pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        interpret=True,
    )(x, y)


X = jax.ShapeDtypeStruct((256, 256), "float32")


def test_a_blocked_product_does_what_a_product_does():
    answer = jaxlens.cost(blocked, X, X)
    additions = 8 * 128 * 128
    comparisons = 8 * 2
    assert answer.flops == 2 * 256**3 + additions + comparisons
    assert answer.findings[0].text.partition(" does ")[2].startswith("100% of 33.7 Mflop")


def test_a_batch_of_kernels_is_counted_whole():
    batch = jax.ShapeDtypeStruct((3, 256, 256), "float32")
    one = jaxlens.cost(blocked, X, X).flops
    assert jaxlens.cost(jax.vmap(blocked), batch, batch).flops == pytest.approx(3 * one, rel=1e-3)


def test_one_line_of_a_haiku_model_is_split_by_its_layers():
    hk = pytest.importorskip("haiku")
    net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([64, 32, 10])(x).sum()))
    x = jnp.ones((8, 16))
    answer = jaxlens.cost(jax.grad(net.apply), net.init(jax.random.key(0), x), x)
    assert "66% in linear_1, 22% in linear_0, 10% in linear_2" in answer.findings[0].text
