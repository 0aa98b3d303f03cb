"""The graph of the lowered program: calls, loops, literals, and boxes that links know."""

import jax
import jax.numpy as jnp

import jaxlens
from jaxlens.views.figures import stablehlo
from tests.support import programs

PARAMS = {"w1": jnp.ones((16, 32)), "w2": jnp.ones((32, 32))}
X = jnp.ones((4, 16), jnp.bfloat16)


def loss(params, x):
    def step(carry, t):
        return jnp.tanh(carry @ params["w2"] + t), carry.sum()

    h = jax.nn.relu(x @ params["w1"])
    carry, rows = jax.lax.scan(step, h, jnp.ones((5, 1)))
    return jnp.where(carry > 0, carry, -jnp.inf).max() + rows.mean() + x.max()


def test_calls_loops_and_constants_are_drawn_as_in_a_jaxpr():
    capture = jaxlens.capture(loss, PARAMS, X)
    module = capture.stablehlo.module
    figure = stablehlo.figure(module)
    assert figure.stage == "stablehlo"
    main = figure.panels[0]
    boxes = {box.label: box for box in main.boxes}
    assert {"params['w1']", "params['w2']", "x", "relu", "while", "dot_general"} <= set(boxes)
    assert boxes["relu"].inside == "relu"
    assert {"while cond", "while body"} <= {panel.name for panel in figure.panels}
    assert any(box.detail.startswith("maximum over ") for box in main.boxes)
    ids = {node.id for node in module.nodes()}
    assert {box.id for box in main.boxes if box.kind not in ("input", "output")} <= ids
    hints = "".join(box.hint for panel in figure.panels for box in panel.boxes)
    assert "-inf:bf16[]" in hints
    assert "0xFF" not in hints


def test_literals_have_the_numbers_of_the_constants():
    def f(x):
        flags = jnp.where(x > 0, True, False)
        return x * 2.5 + jnp.array([1.0, 2.0]), flags, jnp.full((2,), 7, jnp.int32)

    module = stablehlo.like_a_jaxpr(jaxlens.capture(f, jnp.ones(2)).stablehlo.module)
    read = {name for node in module.nodes() for name in node.operands if ":" in name}
    assert {"2.5:f32[]", "7:i32[]"} <= read
    kept = [node for node in module.nodes() if node.opcode == "constant"]
    assert any("dense<[" in node.attrs["value"] for node in kept)  # its elements differ


def test_a_train_step_folds_into_ops():
    f, args = programs.gpt_step(layers=4)[:2]
    figure = stablehlo.figure(jaxlens.capture(f, *args).stablehlo.module)
    assert " ops folded into " in figure.note
    text = " ".join(f"{b.detail} {b.hint}" for b in figure.panels[0].boxes)
    assert " ops" in text
    assert "eqns" not in text
    assert "equations" not in text


def test_stages_of_hlo_have_a_graph_and_their_text_stays():
    capture = jaxlens.capture(lambda x: jnp.sin(x) * 2, jnp.ones(8))
    for stage in ("stablehlo", "hlo", "optimized"):
        view = jaxlens.hlo(capture, stage=stage)
        assert "Graph" in view.pictures
        assert "sine" in str(view)
    assert "Graph" not in jaxlens.hlo(capture, stage="jaxpr").pictures
