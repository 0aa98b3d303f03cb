"""Modules and layers are boxes with their name."""

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


def test_a_module_s_box_has_its_path():
    drawn = figure(model, PARAMS, X)
    (blocks,) = computing(drawn.panels[0])
    assert blocks.label == "Block × 3"
    first, *_ = computing(drawn.named[blocks.inside])
    assert first.label == "blocks[0]"
    inside = drawn.named[first.inside]
    steps = [b for b in computing(inside) if not b.inside]
    assert len(computing(inside)) < 19
    assert steps


def test_a_small_program_without_modules_is_drawn_step_by_step():
    def plain(x):
        for _ in range(20):
            x = jnp.sin(x) * 2
        return x

    assert len(computing(figure(plain, X).panels[0])) == 40
