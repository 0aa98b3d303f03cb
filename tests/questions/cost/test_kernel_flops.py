"""Flops of kernels and of programs that are library calls: the first finding has a figure."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import jaxlens
from jaxlens.program.kernel_cost import cost_by_instruction
from tests.support.paths import RECORDS

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
    said = "Flops by module: mlp / linear_1 66%, mlp / linear_0 22% and mlp / linear_2 10%."
    assert answer.findings[1].text == said


def _rnn(w, xs):
    def body(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h.sum()

    return jax.lax.scan(body, jnp.zeros(w.shape[0]), xs)


_LINE = _rnn.__code__.co_firstlineno


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a CPU's own passes")
def test_a_dot_that_a_pass_made_in_a_loop_has_the_line_of_the_dot_before():
    """XLA gives it the metadata of the loop, for want of its own."""
    capture = jaxlens.capture(_rnn, jnp.ones((8, 8)), jnp.ones((20, 8)))
    (dot,) = [node for node in capture.optimized.module.nodes() if node.opcode == "dot"]
    assert capture.links.back(dot.id, "source", "optimized") == (
        f"test_kernel_flops.py:{_LINE + 2}",
    )
    (equation,) = [n.id for n in capture.jaxpr.module.nodes() if n.opcode == "dot_general"]
    assert capture.links.fate(equation).sentence == f"Kept: runs as {dot.id}."


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a CPU's own passes")
def test_a_loop_that_is_one_kernel_has_the_flops_of_its_body():
    capture = jaxlens.capture(_rnn, jnp.ones((8, 8)), jnp.ones((20, 8)))
    costs = cost_by_instruction(capture.optimized.module)
    (call,) = [node for node in capture.optimized.module.nodes() if node.opcode == "call"]
    assert [kernel.kind for kernel in capture.kernels if kernel.instruction == call.id] == [
        "kernel"
    ]
    product, sums, steps = 2 * 8 * 8, 2 * 8 - 1, 20  # one addition of x and seven of h.sum()
    assert costs[call.id].flops >= steps * (product + sums)
    assert costs[call.id].flops == pytest.approx(steps * (product + sums), rel=0.03)  # and counters
    assert costs[call.id].bytes > steps * 8 * 8 * 4
    assert "call_kernel" in jaxlens.compile(capture).text().partition("Kernels:")[2][:300]


def test_a_rewritten_product_has_its_line():
    def f(w, x):
        y = w @ x
        return jnp.sin(y) + 1

    answer = jaxlens.cost(f, jnp.ones((128, 128)), jnp.ones(128))
    kernels = next(table for table in answer.tables if table.title == "Flops and bytes by kernel")
    product = max(kernels.rows, key=lambda row: row[2].value)
    assert product[1].text == f"test_kernel_flops.py:{f.__code__.co_firstlineno + 1}"


def test_products_that_libraries_compute_have_their_flops():
    """Compiled and autotuned on an H200: all five products are calls of cuBLAS."""
    cap = jaxlens.load(RECORDS / "wide_step.gpu.jaxlens")
    answer = jaxlens.cost(cap, roofline="h200")
    calls = [kernel for kernel in answer.kernels if kernel.opcode == "custom-call"]
    assert sum(kernel.flops for kernel in calls) == 5 * 2 * 8192 * 2048**2
    assert sum(k.flops for k in answer.kernels) == pytest.approx(answer.flops, rel=1e-3)
    points = {p.kernel.instruction: p.bound for p in answer.points}
    assert {points[kernel.instruction] for kernel in calls} == {"compute"}
    peak = jaxlens.memory(cap).at_peak
    assert [value.type for value in peak if value.scratch] == ["s8[33554432]"]
    assert "dot (cuBLAS)" in str(jaxlens.compile(cap))
