"""Figures that boxes are shaded by: those of the table of kernels, of a loop with its bodies."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.program.kernel_cost import cost_by_instruction
from jaxlens.render.graph.figure_json import graph_data
from jaxlens.views.figures.heat import of_kernels
from jaxlens.views.figures.hlo import figure


@pytest.fixture(scope="module")
def module():
    def f(w, xs):
        h, _ = jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), xs[0], xs)
        return h @ w

    return jaxlens.capture(f, jnp.eye(16), jnp.ones((50, 4, 16))).optimized.module


def test_a_loop_has_the_sum_of_its_body_and_the_shares_are_of_the_largest(module):
    costs = cost_by_instruction(module, "cpu")
    data = graph_data(replace(figure(module), heat=of_kernels(module, costs)))
    *_, boxes, _, heat = data["panels"][0]
    assert set(heat) == {"flops", "bytes"}
    shown = dict(zip([box[1] for box in boxes], heat["flops"], strict=True))
    assert shown["while"][1] == 1
    # 50 passes of a product of 4 x 16 by 16 x 16, and little beside it
    product = 2 * 4 * 16 * 16
    loop = next(node for node in module.nodes() if node.opcode == "while")
    heated = of_kernels(module, costs)
    (box,) = (b for b in figure(module).panels[0].boxes if b.label == "while")
    flops, moved = heated.figures(box)
    assert 50 * product <= flops < 60 * product
    bodies = {inner.id for name in loop.regions for inner in module.regions[name].nodes}
    assert moved == sum(costs[id].bytes for id in bodies & set(costs))


def test_a_loop_of_unknown_trips_has_no_figure():
    def f(w, x):
        return jax.lax.while_loop(lambda x: x.sum() < 100, lambda x: jnp.tanh(x @ w) + x, x)

    module = jaxlens.capture(f, jnp.eye(16), jnp.ones((4, 16))).optimized.module
    costs = cost_by_instruction(module, "cpu")
    assert any(cost.open and cost.flops for cost in costs.values())
    (box,) = (b for b in figure(module).panels[0].boxes if b.label == "while")
    assert of_kernels(module, costs).figures(box) == [0.0, 0.0]


def test_seconds_are_named_by_where_they_come_from(module):
    costs = cost_by_instruction(module, "cpu")
    loop = next(node.id for node in module.nodes() if node.opcode == "while")
    measured = of_kernels(module, costs, {loop: 2e-3})
    assert list(dict(measured.measures)) == ["flops", "bytes", "time in a run"]
    assert list(dict(of_kernels(module, costs, {}, "H100").measures)) == ["flops", "bytes"]
    least = of_kernels(module, costs, {loop: 2e-3}, "H100")
    assert list(dict(least.measures))[-1] == "least time on H100"
    *_, heat = graph_data(replace(figure(module), heat=measured))["panels"][0]
    assert ["2 ms", 1] in heat["time in a run"]
