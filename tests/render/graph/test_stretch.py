"""Opening boxes in place: no overlap, and Python and JavaScript agree."""

import json
import shutil
import subprocess
from importlib.resources import files
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxlens.render.graph.figure import Box, Edge, Figure, Panel, open_paths
from jaxlens.render.graph.figure_json import graph_data
from jaxlens.render.graph.layout import Curve, Layout, Spot, layout
from jaxlens.render.graph.scene import scene
from jaxlens.render.graph.stretch import stretch
from jaxlens.views.figures.jaxpr import figure
from tests.support.drawn_modules import branching, layers, nested, predict

CLOSE = 1e-6


def overlap(a, b):
    return abs(a.x - b.x) < (a.w + b.w) / 2 - CLOSE and abs(a.y - b.y) < (a.h + b.h) / 2 - CLOSE


def inside(inner, outer):
    return (
        abs(inner.x - outer.x) + inner.w / 2 <= outer.w / 2 + CLOSE
        and abs(inner.y - outer.y) + inner.h / 2 <= outer.h / 2 + CLOSE
    )


def check(drawn):
    """Boxes are apart unless one holds the other; all are on the page."""
    by_path = {box.path: box for box in drawn.boxes}
    for a, b in combinations(drawn.boxes, 2):
        if a.path[: len(b.path)] == b.path:
            assert inside(a, b), (a, b)
        elif b.path[: len(a.path)] == a.path:
            assert inside(b, a), (a, b)
        else:
            assert not overlap(a, b), (a, b)
    for box in drawn.boxes:
        assert box.x - box.w / 2 >= -CLOSE
        assert box.y - box.h / 2 >= -CLOSE
        assert box.x + box.w / 2 <= drawn.w + CLOSE
        assert box.y + box.h / 2 <= drawn.h + CLOSE
        assert len(box.path) == 1 or by_path[box.path[:-1]].open


@st.composite
def placed(draw, door):
    """A panel of boxes on a ragged grid, with their layout; some open `door`."""
    spots, boxes, y = [], [], 10.0
    for row in range(draw(st.integers(1, 4))):
        x, deepest = 10.0 + draw(st.floats(0, 60)), 0.0
        for _ in range(draw(st.integers(1, 4))):
            w, h = draw(st.floats(20, 120)), draw(st.floats(20, 60))
            spots.append(Spot(x + w / 2, y + h / 2, w, h))
            boxes.append(
                Box(f"{door}{len(boxes)}", "box", inside=door if draw(st.booleans()) else "")
            )
            x, deepest = x + w + draw(st.floats(0, 30)), max(deepest, h)
        y += deepest + draw(st.floats(0, 30)) + row
    right = max(s.x + s.w / 2 for s in spots) + 10
    edges, curves = [], []
    for tail, head in draw(st.lists(st.tuples(*[st.integers(0, len(boxes) - 1)] * 2), max_size=4)):
        a, b = spots[tail], spots[head]
        points = (
            a.x,
            a.y + a.h / 2,
            a.x + 5,
            a.y + 40,
            b.x,
            b.y - 30,
            b.x,
            b.y - b.h / 2 - 7,
            b.x,
            b.y - b.h / 2,
        )
        edges.append(Edge(boxes[tail].id, boxes[head].id, "f32[2]"))
        curves.append(Curve(tail, head, points, "f32[2]", (a.x + b.x) / 2, (a.y + b.y) / 2, 0.5))
    return Panel(door + "<", door, tuple(boxes), tuple(edges)), Layout(
        right, y + 10, tuple(spots), tuple(curves)
    )


@st.composite
def figures(draw):
    names = ["a", "b", "c", ""]
    parts = [draw(placed(door)) for door in names[1:]]
    panels = [
        Panel(name, name, panel.boxes, panel.edges)
        for name, (panel, _) in zip(names, parts, strict=False)
    ]
    layouts = {name: where for name, (_, where) in zip(names, parts, strict=False)}
    drawn = Figure(tuple(panels), draw(st.integers(1, 4)))
    paths = sorted(open_paths(drawn, 4))
    return drawn, layouts, draw(st.sets(st.sampled_from(paths))) if paths else set()


@given(figures())
@settings(max_examples=150, deadline=None)
def test_no_set_of_openings_makes_boxes_overlap(case):
    drawn, layouts, opened = case
    check(scene(drawn, opened, lambda panel: layouts[panel.name]))


@pytest.mark.parametrize("module", [predict(), branching(), layers(3), layers(12), nested(6)])
@pytest.mark.parametrize("depth", [1, 2, 3, 9])
def test_real_layouts_stay_apart(module, depth):
    drawn = figure(module, max_boxes=20)
    check(scene(drawn, open_paths(drawn, depth), layout))


@given(
    st.lists(st.tuples(st.floats(0, 500), st.floats(1, 80), st.floats(1, 900)), max_size=6),
    st.floats(-50, 600),
    st.floats(0, 600),
)
def test_the_map_of_an_axis_never_brings_points_nearer(grown, t, step):
    image = stretch(grown)
    assert image(t + step) - image(t) >= step - CLOSE
    for centre, closed, opened in grown:
        assert image(centre) - image(centre - closed / 2) >= (max(closed, opened)) / 2 - CLOSE
        assert image(centre + closed / 2) - image(centre) >= (max(closed, opened)) / 2 - CLOSE


def test_edges_end_on_the_borders_of_their_boxes():
    drawn = figure(branching())
    for depth in (1, 2, 3):
        shown = scene(drawn, open_paths(drawn, depth), layout)
        boxes = {(box.path[:-1], box.box.id): box for box in shown.boxes}
        for wire in shown.wires:
            for end, at in ((wire.edge.tail, wire.points[:2]), (wire.edge.head, wire.points[-2:])):
                box = boxes[wire.path, end]
                across, down = abs(at[0] - box.x) - box.w / 2, abs(at[1] - box.y) - box.h / 2
                assert max(across, down) == pytest.approx(0, abs=1.5)


def test_one_panel_in_two_places_is_drawn_twice():
    drawn = figure(branching())
    shown = scene(drawn, open_paths(drawn, 9), layout)
    assert sum(box.box.id == "e21" for box in shown.boxes) == 4


SCRIPT = """
import { scene } from %s;
import { readFileSync } from "node:fs";
const cases = JSON.parse(readFileSync(0, "utf8"));
const answers = cases.map(([data, open]) => {
  const { w, h, layers } = scene(data, new Set(open));
  return [w, h, layers.map(({ boxes, wires }) => [
    boxes.map((b) => [b.path, b.x, b.y, b.w, b.h, b.open]),
    wires.map((e) => [e.points, e.edge.length < 8 ? null : [e.x, e.y]]),
  ])];
});
console.log(JSON.stringify(answers));
"""


def in_python(drawn, opened):
    """The scene in the form of the script's result: rows per panel."""
    shown = scene(drawn, opened, layout)
    rows, box_at, wire_at = [], 0, 0
    for boxes, wires in shown.order:
        rows.append(
            [
                [
                    [".".join(map(str, b.path)), b.x, b.y, b.w, b.h, b.open]
                    for b in shown.boxes[box_at : box_at + boxes]
                ],
                [
                    [list(e.points), [e.x, e.y] if e.label else None]
                    for e in shown.wires[wire_at : wire_at + wires]
                ],
            ]
        )
        box_at, wire_at = box_at + boxes, wire_at + wires
    return [shown.w, shown.h, rows]


def near(one, two):
    """Compares nested lists of numbers and words."""
    pending = [(one, two)]
    while pending:
        a, b = pending.pop()
        if isinstance(a, list):
            assert len(a) == len(b)
            pending += zip(a, b, strict=True)
        elif isinstance(a, float | int) and not isinstance(a, bool):
            assert a == pytest.approx(b, abs=1e-6)
        else:
            assert a == b


def test_the_script_does_the_same_arithmetic(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on PATH; it runs static/graph/stretch.js without a browser")
    module = tmp_path / "graph_stretch.mjs"
    module.write_text(files("jaxlens.render").joinpath("static", "graph/stretch.js").read_text())
    main = tmp_path / "main.mjs"
    main.write_text(SCRIPT % json.dumps(f"./{module.name}"))
    cases, wanted = [], []
    for program in (predict(), branching(), layers(3), layers(12), nested(4)):
        drawn = figure(program, max_boxes=20)
        for depth in (1, 2, 3):
            paths = open_paths(drawn, depth)
            cases.append([graph_data(drawn, budget=10**9), [".".join(map(str, p)) for p in paths]])
            wanted.append(in_python(drawn, paths))
    done = subprocess.run(
        [node, str(main)], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    near(json.loads(done.stdout), json.loads(json.dumps(wanted)))
