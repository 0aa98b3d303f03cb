"""The jaxpr as boxes and edges: nothing lost, nothing invented, never too much at once."""

from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxlens
from jaxlens.render.graph.figure import open_paths
from jaxlens.views.figures.jaxpr import figure, fitting_depth
from tests.support.documents import approved, outline
from tests.support.drawn_modules import branching, layers, nested, predict, program, region, tangle
from tests.support.drawn_modules import node as equation


def of_constants():
    main = region("main", ["k", "x", "y"], [equation(0, "mul", "k", "x")], ("v0",))
    return figure(program(replace(main, constants=1)), inputs=["x", "y"])


def of_results():
    """A result may be an input, a literal, or given twice."""
    main = region("main", ["x"], [equation(0, "neg", "x")], ("x", "v0", "v0", "1.0:f32[]"))
    return figure(program(main), outputs=["same", "a", "b", "one"])


FIGURES = {
    "predict": lambda: figure(predict(), inputs=["params['w']", "params['b']", "x"]),
    "branching": lambda: figure(branching()),
    "constants": of_constants,
    "results": of_results,
    "layers": lambda: figure(layers(9)),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_as_approved(name):
    approved(f"figures/jaxpr.{name}", outline(FIGURES[name]()))


def test_bodies_open_in_place():
    """A list of bodies takes no level of its own, nor does a body with a single box."""
    drawn = figure(branching())
    assert len(open_paths(drawn, 1)) == 0
    assert {len(path) for path in open_paths(drawn, 2)} == {1, 2, 3}


def test_many_inputs_share_a_box_that_lists_them():
    names = [f"params['w{n}']" for n in range(300)] + ["x"]
    parameters = [f"p{n}" for n in range(301)]
    main = region("main", parameters, [equation(0, "add", *parameters)], ("v0",))
    drawn = figure(program(main), inputs=names)
    top = drawn.panels[0]
    assert [(b.label, b.detail) for b in top.boxes[:2]] == [("params", "300 arrays"), ("x", "")]
    listed = [b.label for p in drawn.panels[1:] for b in p.boxes if not b.inside]
    assert listed == names[:300]
    assert [e.label for e in top.edges][:2] == ["300 × f32[8,4]", "f32[8,4]"]


def test_the_first_panel_makes_no_other():
    drawn, made = figure(layers(12)), []
    make = drawn.named._value
    drawn.named._value = lambda name: made.append(name) or make(name)
    assert drawn.panels[0].name == "main"
    assert made == []
    assert drawn.panels[-1].name == [*drawn.named][-1]  # which needs the number of panels
    assert made


def test_boxes_of_the_backward_pass_say_of_what():
    def layer(x, w):
        return jnp.tanh(x @ w)

    def loss(ws, x):
        for w in ws:
            x = layer(x, w)
        return x.sum()

    cap = jaxlens.capture(jax.grad(loss), [jnp.ones((4, 4))] * 12, jnp.ones((2, 4)))
    boxes = figure(cap.jaxpr.module).panels[0].boxes
    assert [b.label for b in boxes if b.kind == "call"] == [
        "layer × 12",
        "backward of layer × 11",  # the first layer's is shorter: none of x is asked
    ]


@pytest.mark.parametrize("odd", [3, 7])
def test_copies_that_are_wired_differently_are_not_counted_as_repeats(odd):
    drawn = figure(layers(12, odd))
    counts = [b.label for p in drawn.panels for b in p.boxes if "×" in b.label]
    assert counts
    assert not any("× 12" in words for words in counts)


def test_short_programs_are_not_folded():
    drawn = figure(layers(3))
    assert len(drawn.panels) == 1
    assert drawn.note == ""


def leaves(drawn, module):
    ids = {node.id for node in module.nodes()}
    return Counter(b.id for panel in drawn.panels for b in panel.boxes if b.id in ids)


@given(st.integers(1, 700), st.integers(0, 5), st.integers(8, 80))
@settings(max_examples=25, deadline=None)
def test_folding_loses_nothing_and_keeps_panels_small(count, seed, most):
    module = tangle(count, seed)
    drawn = figure(module, max_boxes=most)
    assert leaves(drawn, module) == dict.fromkeys((n.id for n in module.nodes()), 1)
    reached, waiting = set(), [drawn.panels[0]]
    by_name = {panel.name: panel for panel in drawn.panels}
    assert len(by_name) == len(drawn.panels)
    while waiting:
        panel = waiting.pop()
        reached.add(panel.name)
        waiting += [by_name[b.inside] for b in panel.boxes if b.inside]
    assert reached == set(by_name)
    for panel in drawn.panels:
        inner = [b for b in panel.boxes if b.kind not in ("input", "output")]
        assert len(inner) <= max(most, 60)
        ids = [box.id for box in panel.boxes]
        assert len(ids) == len(set(ids))
        assert {end for e in panel.edges for end in (e.tail, e.head)} <= set(ids)


@given(st.integers(2, 400), st.integers(8, 60))
@settings(max_examples=15, deadline=None)
def test_repeats_lose_nothing(count, most):
    module = layers(count)
    assert set(leaves(figure(module, max_boxes=most), module).values()) == {1}


def test_five_thousand_levels_of_nesting():
    drawn = figure(nested(5000))
    assert len(drawn.panels) == 5001
    assert drawn.depth == 1
    assert max(map(len, open_paths(drawn, 1))) == 9  # each level holds one box; enough is enough


def test_depth_that_fits():
    small = figure(predict(), depth=0)
    assert small.depth > 1
    assert fitting_depth(figure(tangle(300))) == 1


def test_the_same_program_makes_the_same_figure():
    assert figure(tangle(500)) == figure(tangle(500))


EQUATIONS = [
    ("mul", ("2.0:f32[]", "x"), {}),
    ("sub", ("1.0:f32[]", "x"), {}),
    ("sub", ("x", "1.0:f32[]"), {}),
    ("mul", ("0.009999999776482582:f32[]", "x"), {}),
    ("broadcast_in_dim", ("0.0:f32[]",), {}),
    ("broadcast_in_dim", ("x",), {}),
    ("reduce_max", ("x",), {"axes": "(1,)"}),
    ("convert_element_type", ("x",), {"new_dtype": "bfloat16"}),
    ("convert_element_type", ("x",), {"new_dtype": "float32"}),
    ("transpose", ("x",), {"permutation": "(1, 0)"}),
    ("dot_general", ("x", "x"), {"dimension_numbers": "(((2,), (1,)), ((0,), (0,)))"}),
    ("psum", ("x",), {"axes": "('i',)"}),
    ("random_bits", ("x",), {}),
    ("my_own_primitive", ("x",), {}),
]


def test_what_a_box_says():
    nodes = [equation(n, op, *reads, attrs=a) for n, (op, reads, a) in enumerate(EQUATIONS)]
    drawn = figure(program(region("main", ["x"], nodes, ("v0",))))
    approved("figures/jaxpr.boxes", outline(drawn))
