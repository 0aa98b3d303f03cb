"""DOT for other tools: names are escaped."""

import json

import pytest

from jaxlens.render.graph.dot import dot
from jaxlens.render.graph.graphviz_run import run
from jaxlens.render.graph.text_width import shorten
from jaxlens.views.figures.jaxpr import figure
from tests.support.drawn_modules import HOSTILE, branching, hostile, predict


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


def test_open_panels_are_clusters_that_edges_end_at():
    source = dot(figure(branching(), depth=2)).source
    assert "subgraph cluster_n" in source
    assert "lhead=cluster_n" in source
    assert "ltail=cluster_n" in source
    assert "compound=true" in source
    clusters = [o for o in placed(source)["objects"] if o["name"].startswith("cluster_")]
    assert {"cond", "while", "branch 0", "branch 1", "body"} <= {o["label"] for o in clusters}


def test_a_closed_figure_has_no_clusters():
    source = dot(figure(predict(), depth=1)).source
    assert "subgraph" not in source
    assert "custom_jvp" in source
