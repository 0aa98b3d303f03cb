"""Modules and layers are boxes with their name and what they cost."""

import jax
import jax.numpy as jnp

import jaxlens
from jaxlens.render.document import GraphPane, Tabs


class Linear:
    def __call__(self, params, x):
        return x @ params["w"] + params["b"]


class Block:
    def __init__(self):
        self.attn, self.mlp = Linear(), Linear()

    def __call__(self, params, x):
        y = jnp.tanh(jax.nn.gelu(self.attn(params["attn"], x)) * 3 - 1)
        return self.mlp(params["mlp"], y) + x


def weights(*names):
    return {name: {"w": jnp.ones((8, 8)), "b": jnp.ones(8)} for name in names}


PARAMS = {"blocks": [weights("attn", "mlp") for _ in range(3)]}
X = jnp.ones((2, 8))


def model(params, x):
    for layer in params["blocks"]:
        x = Block()(layer, x)
    return x


def figure(f, *args):
    tabs = next(b for b in jaxlens.jaxpr(f, *args).document.blocks if isinstance(b, Tabs))
    return next(b for tab in tabs.tabs for b in tab.blocks if isinstance(b, GraphPane)).figure


def computing(panel):
    return [box for box in panel.boxes if box.kind not in ("input", "output", "constant")]


def test_a_module_s_box_has_its_path_and_estimated_flops():
    drawn = figure(model, PARAMS, X)
    (blocks,) = computing(drawn.panels[0])
    assert blocks.label == "Block × 3"
    first, *_ = computing(drawn.named[blocks.inside])
    assert first.label == "blocks[0]"
    inside = drawn.named[first.inside]
    # Two products of 2 x 8 by 8 x 8 are 512 of them.
    steps = [b for b in computing(inside) if not b.inside]
    assert "≈" in first.detail
    assert "estimated from shapes" in first.hint
    assert len(computing(inside)) < 19
    assert steps


def test_flops_are_those_that_the_cost_lens_counts():
    def layers(params, x):
        def layer(h, p):
            return Block()(p, h), None

        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params["blocks"])
        return jax.lax.scan(layer, x, stacked)[0] + model(params, x)

    from jaxlens.program.counted import EquationSums

    module = jaxlens.capture(layers, PARAMS, X).jaxpr.module
    steps = len(module.body().nodes)
    assert EquationSums(module, {}).run("main", 0, steps) == jaxlens.cost(layers, PARAMS, X).flops


def test_flops_follow_the_operands_where_the_results_are_alike():
    def products(x):
        y = (x @ x)[:, :2] @ x[:2] + jnp.sort(x)
        return y.at[jnp.array([1, 2])].add(jnp.cumsum(x, 0)[:2])

    from jaxlens.program.counted import EquationSums

    x = jnp.ones((8, 8))
    module = jaxlens.capture(products, x).jaxpr.module
    steps = len(module.body().nodes)
    assert EquationSums(module, {}).run("main", 0, steps) == jaxlens.cost(products, x).flops


def test_a_reduction_of_the_users_own_counts_its_body():
    from jaxlens.program.counted import EquationSums

    def total(x):
        return jax.lax.reduce(x, jnp.zeros(()), lambda a, b: a * b + a, (0,))

    module = jaxlens.capture(total, jnp.ones((4, 8))).jaxpr.module
    steps = len(module.body().nodes)
    flops = jaxlens.cost(total, jnp.ones((4, 8))).flops
    assert flops
    assert EquationSums(module, {}).run("main", 0, steps) == flops


def test_a_loop_of_unknown_length_has_no_figure():
    from jaxlens.program.counted import EquationSums

    module = jaxlens.capture(
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, jnp.exp2, x), X
    ).jaxpr.module
    assert EquationSums(module, {}).run("main", 0, 1) is None


def test_a_small_program_without_modules_is_drawn_step_by_step():
    def plain(x):
        for _ in range(20):
            x = jnp.sin(x) * 2
        return x

    assert len(computing(figure(plain, X).panels[0])) == 40
