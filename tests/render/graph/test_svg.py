"""The drawing as SVG and as HTML: well formed and safe whatever the names are."""

import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import combinations
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from jaxlens.render.graph import palette
from jaxlens.render.graph.figure import Box, Edge, Figure, Panel
from jaxlens.render.graph.figure_json import graph_data
from jaxlens.render.graph.style import page_style
from jaxlens.render.graph.svg import svg
from jaxlens.render.graph.text_width import clean, columns, shorten
from jaxlens.render.html.figure import graph_html
from jaxlens.render.html.packing import unpacked, unstepped
from jaxlens.views.figures.jaxpr import figure
from tests.support.drawn_modules import HOSTILE, branching, hostile, layers, predict, tangle

NS = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "style", "rect", "g", "title", "path", "text"}
ATTRIBUTES = set(
    "class width height viewBox role aria-label rx data-id data-line transform x y d "
    "textLength".split()
)


def everywhere(name):
    """A figure in which every text is `name`, made by hand."""
    boxes = (
        Box(f"1{name}", name, name, "control", name, name, name),
        Box(f"2{name}", name, name, "quiet"),
    )
    inner = Panel(name, name, (Box(f"3{name}", name),), ())
    top = Panel("top", name, boxes, (Edge(f"1{name}", f"2{name}", name),))
    return Figure((top, inner), 2, name)


def data_of(page):
    """What the script reads."""
    pack = re.search(r'<script type="application/json">"(.*?)"</script>', page, re.S)[1]
    data = json.loads(unstepped(unpacked(pack)))
    for edge in (edge for panel in data["panels"] for edge in panel[5]):
        steps = edge[3]  # in tenths
        edge[3] = [sum(steps[n % 2 : n + 1 : 2]) / 10 for n in range(len(steps))]
    return data


@pytest.mark.parametrize("form", ["card", "image"])
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_text_and_nothing_else(name, form):
    for drawn in (everywhere(name), figure(hostile(name or "_"), inputs=[name], depth=2)):
        tree = ElementTree.fromstring(svg(drawn, form=form, title=name))
        for element in tree.iter():
            assert element.tag.removeprefix(NS) in ELEMENTS
            assert set(element.attrib) <= ATTRIBUTES
        words = "".join(tree.itertext())
        if name.isprintable() and len(name) < 20 and "<" in name:
            assert name in words


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_do_not_leave_the_container(name):
    page = graph_html(everywhere(name), name)
    seen = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.append((tag, sorted(key for key, _ in attrs)))

        def handle_comment(self, data):
            raise AssertionError(data)

    Reader().feed(page)
    tags = [tag for tag, _ in seen if tag != "div"]
    assert tags == ["img", "script"]
    assert data_of(page) == graph_data(everywhere(name))
    page.encode()  # no half characters


def test_the_picture_says_what_the_program_does():
    drawn = figure(predict(), inputs=["params['w']", "params['b']", "x"])
    tree = ElementTree.fromstring(svg(drawn))
    words = [element.text for element in tree.iter(f"{NS}text")]
    assert {"params['w']", "params['b']", "x", "dot_general", "relu", "f32[8,4]"} <= set(words)
    ids = {element.get("data-id") for element in tree.iter(f"{NS}g")}
    assert {"e0", "e1", "e2", "e3"} <= ids
    hints = [element.text for element in tree.iter(f"{NS}title")]
    assert "v2:f32[8,4] = add v0 v1  (cell 1:2)" in hints
    assert tree.get("role") == "img"
    assert tree.get("aria-label") == "main"


def test_the_picture_of_one_call_is_that_of_its_body():
    inner = Panel("f", "f", (Box("1", "a call", kind="call", inside="g"),), ())
    body = Panel("g", "g", (Box("2", "sin"), Box("3", "cos")), (Edge("2", "3"),))
    assert all(word in svg(Figure((inner, body))) for word in ("sin", "cos"))
    loop = Panel("f", "f", (Box("1", "scan", kind="control", inside="g"),), ())
    assert "sin" not in svg(Figure((loop, body)))


def test_it_is_the_same_every_time_and_names_nothing_of_this_machine():
    one, two = svg(figure(branching(), depth=3)), svg(figure(branching(), depth=3))
    assert one == two
    assert not re.search(r"/home|/tmp|/root|0x[0-9a-f]{6}", one)


def test_an_image_stands_alone():
    picture = svg(figure(predict()), form="image")
    assert "var(" not in picture
    assert "url(" not in picture
    assert 'class="card"' in picture


def test_fifty_equations_take_little_room():
    drawn = figure(tangle(50), depth=0)
    assert len(drawn.panels) == 1
    assert len(graph_html(drawn, "fifty equations")) < 60_000


def test_data_beyond_the_budget_is_left_out_and_said():
    drawn = figure(layers(60))
    whole, part = graph_data(drawn, budget=10**9), graph_data(drawn, budget=4_000)
    assert len(whole["panels"]) == len(drawn.panels)
    assert len(part["panels"]) < len(drawn.panels)
    titles = [panel[0] for panel in graph_data(drawn, budget=8_000)["panels"]]
    assert titles == ["main", "layer", "layer 1", "layer 2 to 59"]  # the first copy right after
    assert (part["note"], whole["locked"]) == (whole["note"], "")
    assert "not open in this output" in part["locked"]  # hidden once a kernel opens them
    shut = [box for row in part["panels"] for box in row[4] if box[4] < 0]
    assert shut
    assert all(-1 <= box[4] < len(part["panels"]) for row in part["panels"] for box in row[4])


def test_a_body_with_very_many_edges_opens_in_a_page_that_is_saved_alone():
    names = [f"e{n}" for n in range(14)]
    edges = tuple(Edge(*pair) for pair in combinations(names, 2))
    dense = Panel("dense", "dense", tuple(Box(name, "add") for name in names), edges)
    top = Panel("top", "top", (Box("e20", "scan", "", "control", "dense"),), ())
    drawn = Figure((top, dense))
    part, whole = data_of(graph_html(drawn, "")), data_of(graph_html(drawn, "", whole=True))
    assert part["shut"] == [[0, 0, "dense"]]
    assert not whole["shut"]


def test_every_box_opens_in_a_page_that_is_saved():
    drawn = figure(layers(60))
    part, whole = data_of(graph_html(drawn, "")), data_of(graph_html(drawn, "", whole=True))
    assert part["shut"]
    assert not whole["shut"]
    assert len(whole["panels"]) == len(drawn.panels)
    assert "not open" not in whole["note"]


def test_the_container_shows_a_picture_where_no_script_runs():
    page = graph_html(figure(predict()), 'w & b "at" x')
    assert 'alt="w &amp; b &quot;at&quot; x"' in page
    picture = re.search(r"data:image/svg\+xml,([^']+)'", page)[1]
    ElementTree.fromstring(unquote(picture))


def test_the_pages_style_is_the_pictures():
    kept = files("jaxlens.render").joinpath("static", "graph/figure.css").read_text()
    comment, rules = kept.split("*/\n", 1)
    assert comment.startswith("/*")
    assert rules.replace("}\n", "}") == page_style()


def test_long_texts_are_cut_in_the_middle():
    assert shorten("a" * 100, 10) == "aaaaaa…aaa"
    assert columns(shorten("日本" * 50, 21)) <= 21
    assert shorten("short", 10) == "short"
    assert clean("a\nb\x1b\ud800") == "a b\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"


def luminance(color):
    parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_text_can_be_read_on_every_tint(theme):
    side = "light_fill" if theme is palette.LIGHT else "dark_fill"
    grounds = [theme.card, theme.panel]
    grounds += [getattr(tint, side) for tint in (*palette.FAMILIES.values(), *palette.HUES)]
    for ground in grounds:
        assert contrast(theme.text, ground) >= 4.5
        assert contrast(theme.dim, ground) >= 4.5


def test_hues_of_neighbouring_lines_differ():
    for one, two in zip(palette.HUES, palette.HUES[1:], strict=False):
        assert one.light != two.light
    assert len({hue.light for hue in palette.HUES}) == len(palette.HUES)
    assert palette.line_hues(["b:1", "a:2", "", "b:1"]) == {"b:1": 0, "a:2": 1}


def test_families_differ_without_their_colours():
    """Outline, border or both: what a reader who sees no colour has to go by."""
    from jaxlens.render.graph.style import _rules, kind_class
    from jaxlens.render.graph.svg import outline

    rules = _rules(lambda name: "grey")
    looks = {
        kind: (outline(kind, 60, 28), rules[f" .{kind_class(kind)} .shape"])
        for kind in palette.FAMILIES
    }
    same = [pair for pair in combinations(looks, 2) if looks[pair[0]] == looks[pair[1]]]
    assert same == []


def test_ids_of_a_fold_travel_as_runs():
    from jaxlens.render.graph.figure_json import _runs

    assert _runs(["e3", "e4", "e5", "e9", "add.1", "e0", "e1"]) == ["e3-e5", "e9", "add.1", "e0-e1"]
    assert _runs(["e3-e7", "e8"]) == ["e3-e7", "e8"]
    drawn = figure(layers(60))
    whole, part = graph_data(drawn, budget=10**9), graph_data(drawn, budget=4_000)
    shut = [box for row in part["panels"] for box in row[4] if len(box) > 13 and box[13]]
    opening = [box for row in whole["panels"] for box in row[4] if len(box) > 13]
    assert shut
    assert all(box[4] < 0 for box in shut)
    assert all(re.fullmatch(r"e\d+-e\d+", run) for box in shut for run in box[13])
    assert all(box[13] == [] and box[4] >= 0 for box in opening)


def test_an_output_without_graphviz_says_so_and_shows_the_rest(monkeypatch):
    from jaxlens.errors import GraphError
    from jaxlens.render.document import Document, GraphPane
    from jaxlens.render.html import figure as figure_html
    from jaxlens.render.html.document_html import html

    def missing(*given, **more):
        raise GraphError("no <wheels>: pip install x")

    monkeypatch.setattr(figure_html, "graph_html", missing)
    page = html(Document("jaxpr", "f(x)", (GraphPane(figure(predict()), "A drawing."),)))
    assert "No graph: no &lt;wheels&gt;: pip install x" in page
    assert "f(x)" in page
