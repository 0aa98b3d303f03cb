"""The graph of what changed: each change is in it once, with its sign."""

import jax
import jax.numpy as jnp

import jaxlens
from jaxlens.questions.compare import changes
from jaxlens.questions.compare import facts as compare

X, W = jnp.ones((4, 8)), jnp.ones((8, 8))


def before(x, w):
    h = jnp.tanh(x @ w)

    def step(carry, _):
        return jnp.sin(carry) * 2.0 + h.sum(), None

    carry, _ = jax.lax.scan(step, x.sum(), None, length=3)
    return jnp.exp(h).sum() + carry


def after(x, w):
    h = jax.nn.relu(x @ w)

    def step(carry, _):
        return jnp.cos(carry) * 2.0 + h.sum(), None

    carry, _ = jax.lax.scan(step, x.sum(), None, length=5)
    return jnp.exp(h).sum() + carry


def pairs_of(f, g, args=(X, W), others=None):
    captures = jaxlens.capture(f, *args), jaxlens.capture(g, *(others or args))
    return compare.facts(*captures, compiled=False).equations


def labels(figure):
    return {panel.name: [box.label for box in panel.boxes] for panel in figure.panels}


def test_what_is_new_and_what_changed_have_their_signs():
    pairs = pairs_of(before, after)
    figure = changes.figure(pairs)
    main, body = figure.named["main"], figure.named["scan body"]
    box = {box.label: box for box in main.boxes}
    assert {"+ relu", "~ scan", "dot_general", "exp"} <= set(box)
    assert box["+ relu"].kind == "added"
    assert box["~ scan"].hint.startswith("changed: ")
    assert {"+ cos", "mul"} <= {box.label for box in body.boxes}
    assert figure.note == changes.summary(pairs)
    assert f"{len(pairs.gone)} gone" in figure.note


def test_a_literal_that_changed_is_a_change():
    def half(x, w):
        return x @ w * 0.5

    def third(x, w):
        return x @ w * 0.25

    comparison = jaxlens.compare(
        jaxlens.capture(half, X, W), jaxlens.capture(third, X, W), compiled=False
    )
    assert len(comparison.changed) == 1
    assert "(0.5 became 0.25)" in str(comparison)
    assert "~ mul" in labels(changes.figure(comparison.equations))["main"]


def test_an_inserted_input_is_no_change_of_the_others():
    def two(x, w):
        return jnp.tanh(x @ w)

    def three(b, x, w):
        return jnp.tanh(x @ w + b)

    figure = changes.figure(pairs_of(two, three, (X, W), (W[0], X, W)))
    changed = [box.label for box in figure.panels[0].boxes if box.label[:2] in ("+ ", "~ ")]
    assert set(changed) == {"+ broadcast_in_dim", "+ add"}
