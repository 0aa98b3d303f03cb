"""A Pallas kernel in the jaxpr's listing: grid, and per argument its block and index map."""

import functools
import re

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

import jaxlens
from jaxlens.program import counted as cost


def matmul_kernel(x_ref, y_ref, out_ref, *, scale):
    @pl.when(pl.program_id(2) == 0)
    def _():
        out_ref[...] = jnp.zeros_like(out_ref)

    out_ref[...] += (x_ref[...] @ y_ref[...]) * scale


def matmul(x, y):
    return pl.pallas_call(
        functools.partial(matmul_kernel, scale=2.0),
        grid=(4, 3, 2),
        in_specs=[
            pl.BlockSpec((8, 32), lambda i, j, k: (i, k)),
            pl.BlockSpec((32, 8), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((8, 8), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((32, 24), jnp.float32),
        interpret=True,
    )(x, y)


X, Y = jnp.ones((32, 64)), jnp.ones((64, 24))


def call_of(f, *args):
    nodes = jaxlens.capture(f, *args).jaxpr.module.nodes()
    return next(node for node in nodes if node.opcode == "pallas_call")


def test_each_argument_of_a_kernel_has_its_block_and_index_map():
    attrs = call_of(matmul, X, Y).attrs
    assert attrs["grid"] == "(4, 3, 2)"
    assert attrs["x_ref.block"] == "(8, 32) of f32[32,64]"
    assert attrs["y_ref.block"] == "(32, 8) of f32[64,24]"
    assert attrs["out_ref.block"] == "(8, 8) of f32[32,24]"
    assert "grid_mapping" not in attrs
    text = str(jaxlens.jaxpr(matmul, X, Y))
    first, second = (text.index(f"{name}.block=") for name in ("x_ref", "y_ref"))
    assert text.index("grid=(4, 3, 2)") < first < second < text.index("= program_id")
    i, j, k = re.findall(r"(\w+) \([ijk]\):i32", text[first:second])
    assert f"in ({i}, {k}) }}" in text[first:second]
    assert j not in (i, k)
    assert text.count(".index_map={") == 3


def test_a_squeezed_dimension_and_a_kernel_without_grid():
    def row(x_ref, out_ref):
        out_ref[...] = x_ref[...] + 1

    def rows(x):
        spec = pl.BlockSpec((None, 64), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        call = pl.pallas_call(
            row, grid=(32,), in_specs=[spec], out_specs=spec, out_shape=shape, interpret=True
        )
        return call(x)

    attrs = call_of(rows, X).attrs
    assert attrs["grid"] == "(32,)"
    assert attrs["x_ref.block"] == "(squeezed, 64) of f32[32,64]"
    whole = pl.pallas_call(row, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype), interpret=True)
    assert call_of(whole, X).attrs["grid"] == "()"


def test_flops_of_a_kernel_count_each_point_of_its_grid():
    counts = cost.count_module(jaxlens.capture(matmul, X, Y).jaxpr.module)
    assert [(loop.kind, loop.trips) for loop in counts.loops] == [("pallas_call", 24)]
