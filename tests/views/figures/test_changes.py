"""The graph of two programs: each change is in it once, beside what it reads and what read it."""

import itertools

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.questions.compare import changes
from jaxlens.questions.compare import facts as compare
from tests.support import programs

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


def test_what_is_gone_stands_between_what_it_read_and_what_read_it():
    pairs = pairs_of(before, after)
    figure = changes.figure(pairs)
    main, body = figure.named["main"], figure.named["scan body"]
    box = {box.label: box for box in main.boxes}
    assert {"− tanh", "+ relu", "~ scan", "dot_general", "exp"} <= set(box)
    assert box["− tanh"].kind == "removed"
    assert box["+ relu"].kind == "added"
    assert box["~ scan"].hint.startswith("changed: ")
    edges = {(edge.tail, edge.head): edge.label for edge in main.edges}
    gone = box["− tanh"].id
    assert edges[box["dot_general"].id, gone] == "f32[4,8]"
    assert edges[gone, box["exp"].id] == "before"
    assert {"− sin", "+ cos", "mul"} <= {box.label for box in body.boxes}
    assert figure.note == changes.summary(pairs)


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


def test_the_body_of_a_call_that_is_gone_opens():
    def without(x, w):
        return jnp.sin(x @ w)

    def branching(x, w):
        return jax.lax.cond(x[0, 0] > 0, lambda y: jnp.cos(y @ w) * 3.0, lambda y: y - 1.0, x)

    figure = changes.figure(pairs_of(branching, without))
    shown = list(itertools.chain.from_iterable(labels(figure).values()))
    assert {"− cond", "− cos", "− sub", "− mul", "+ sin"} <= set(shown)


def test_an_inserted_input_is_no_change_of_the_others():
    def two(x, w):
        return jnp.tanh(x @ w)

    def three(b, x, w):
        return jnp.tanh(x @ w + b)

    figure = changes.figure(pairs_of(two, three, (X, W), (W[0], X, W)))
    changed = [box.label for box in figure.panels[0].boxes if box.label[:2] in ("+ ", "− ", "~ ")]
    assert set(changed) == {"+ broadcast_in_dim", "+ add"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (programs.gpt_step(1), programs.gpt_step(2)),
        (programs.gpt_step(3), programs.gpt_step(2)),
        *itertools.pairwise([make() for make in programs.SMALL.values()]),
    ],
)
def test_each_equation_of_both_is_drawn_once(old, new):
    pairs = pairs_of(old[0], new[0], old[1], new[1])
    both = changes.merged(pairs)
    drawn = [node.id for node in both.module.nodes()]
    assert len(drawn) == len(set(drawn))
    images = set(pairs.images.values())
    assert set(drawn) == {*images, *pairs.new, *(f"was {id}" for id in pairs.gone)}
    for region in both.module.regions.values():
        known = {value.name for value in region.parameters}
        for node in region.nodes:
            own = {value.name for value in node.results}
            assert not own & known
            known |= own
    signs = {"+": "new", "−": "gone", "~": "changed"}
    figure = changes.figure(pairs)
    for panel in figure.panels:
        for box in panel.boxes:
            if box.id in both.changes:
                assert signs[box.label[0]] == both.changes[box.id]
