"""DOT for other tools: names are escaped."""

import json

import pytest

from jaxlens.render.graph.dot import dot
from jaxlens.render.graph.graphviz_run import run
from jaxlens.render.graph.text_width import shorten
from jaxlens.views.figures.jaxpr import figure
from tests.support.drawn_modules import HOSTILE, hostile, predict


def placed(source):
    return json.loads(run(source))


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_add_nothing_to_the_graph(name):
    wanted = placed(dot(figure(hostile("f"), depth=3, inputs=["x"])).source)
    found = placed(dot(figure(hostile(name or "_"), depth=3, inputs=[name])).source)
    assert [o["name"] for o in found["objects"]] == [o["name"] for o in wanted["objects"]]
    ends = [(e["tail"], e["head"]) for e in wanted["edges"]]
    assert [(e["tail"], e["head"]) for e in found["edges"]] == ends


def test_labels_are_quoted_so_that_they_show_themselves():
    for name in ("<b>x</b>", "\\N", 'a"b'):
        source = dot(figure(hostile(name), inputs=["x"])).source
        shown = shorten(name, 28).replace("\\", "\\\\").replace('"', '\\"')
        assert f'label="{shown}' in source
        assert "label=<" not in source


def test_the_picture_of_a_figure_is_closed():
    source = dot(figure(predict(), depth=3)).source
    assert "subgraph" not in source
    assert "custom_jvp" in source
