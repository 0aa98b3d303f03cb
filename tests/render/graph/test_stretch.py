"""Opening boxes in place: nothing overlaps, and edges end on the borders of their boxes."""

import json
import random
import shutil
import subprocess
from importlib.resources import files
from itertools import combinations

import pytest

from jaxlens.render.graph.figure import Box, Edge, Figure, Panel, open_paths
from jaxlens.render.graph.figure_json import graph_data
from jaxlens.views.figures.jaxpr import figure
from tests.support.drawn_modules import branching, layers, nested, predict

CLOSE = 1e-6
PATH, X, Y, W, H, OPEN = range(6)  # of a box in the script's answer
SCRIPT = """
import { scene } from %s;
import { readFileSync } from "node:fs";
const cases = JSON.parse(readFileSync(0, "utf8"));
const answers = cases.map(([data, open]) => {
  const { w, h, layers } = scene(data, new Set(open));
  return [w, h, layers.map(({ boxes, wires }) => [
    boxes.map((b) => [b.path, b.x, b.y, b.w, b.h, b.open, b.box[0]]),
    wires.map((e) => [e.edge[0], e.edge[1], e.points]),
  ])];
});
console.log(JSON.stringify(answers));
"""


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A function that runs `scene` of the script on pairs of a drawing's data and open paths."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on PATH; it runs static/graph/stretch.js without a browser")
    folder = tmp_path_factory.mktemp("stretch")
    module = folder / "graph_stretch.mjs"
    module.write_text(files("jaxlens.render").joinpath("static", "graph/stretch.js").read_text())
    main = folder / "main.mjs"
    main.write_text(SCRIPT % json.dumps(f"./{module.name}"))

    def run(cases):
        named = [(data, [".".join(map(str, path)) for path in paths]) for data, paths in cases]
        done = subprocess.run(
            [node, str(main)], input=json.dumps(named), capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    return run


def real():
    """Programs with the layouts of Graphviz, at several depths."""
    for program in (predict(), branching(), layers(3), layers(12), nested(6)):
        drawn = figure(program, max_boxes=20)
        data = graph_data(drawn, budget=10**9)
        for depth in (1, 2, 3, 9):
            yield data, open_paths(drawn, depth)


def ragged(chance):
    """A drawing whose panels are boxes on a ragged grid; some of them open a deeper panel."""
    panels, names = [], ["top", "a", "b"]
    for name, inside in zip(names, [*names[1:], ""], strict=True):
        boxes, edges, y = [], [], 10.0
        for _ in range(chance.randint(1, 4)):
            x, deepest = 10.0 + chance.uniform(0, 60), 0.0
            for _ in range(chance.randint(1, 4)):
                w, h = chance.uniform(20, 120), chance.uniform(20, 60)
                opens = names.index(inside) if inside and chance.random() < 0.5 else -1
                number = f"{name}{len(boxes)}"
                boxes.append(
                    [number, "box", "", 0, opens, "", "", x + w / 2, y + h / 2, w, h, 3, 0]
                )
                x, deepest = x + w + chance.uniform(0, 30), max(deepest, h)
            y += deepest + chance.uniform(0, 30)
        for _ in range(chance.randint(0, 4)):
            tail, head = (chance.randrange(len(boxes)) for _ in range(2))
            (ax, ay, _, ah), (bx, by, _, bh) = boxes[tail][7:11], boxes[head][7:11]
            top = by - bh / 2
            points = [ax, ay + ah / 2, ax + 5, ay + 40, bx, by - 30, bx, top - 7, bx, top]
            edges.append([tail, head, "f32[2]", points, 6, (ax + bx) / 2, (ay + by) / 2, 0.5])
        right = max(box[7] + box[9] / 2 for box in boxes) + 10
        panels.append([name, 0, right, y + 10, boxes, edges])
    return {"kinds": ["call"], "panels": panels, "open": []}


def some_paths(chance, data):
    """Paths of boxes that open, each open or not, those inside closed ones too."""
    waiting, paths = [((), 0)], []
    while waiting:
        path, panel = waiting.pop()
        doors = [(n, box[4]) for n, box in enumerate(data["panels"][panel][4]) if box[4] > 0]
        waiting += [((*path, n), inner) for n, inner in doors]
        paths += [(*path, n) for n, _ in doors]
    return [path for path in paths if chance.random() < 0.6]


def overlap(a, b):
    wide, high = (a[W] + b[W]) / 2 - CLOSE, (a[H] + b[H]) / 2 - CLOSE
    return abs(a[X] - b[X]) < wide and abs(a[Y] - b[Y]) < high


def holds(outer, inner):
    return (
        abs(inner[X] - outer[X]) + inner[W] / 2 <= outer[W] / 2 + CLOSE
        and abs(inner[Y] - outer[Y]) + inner[H] / 2 <= outer[H] / 2 + CLOSE
    )


def check(w, h, shown):
    """Boxes are apart unless one holds the other; all are on the page."""
    boxes = [box for layer, _ in shown for box in layer]
    by_path = {box[PATH]: box for box in boxes}
    for a, b in combinations(boxes, 2):
        if a[PATH].startswith(f"{b[PATH]}."):
            assert holds(b, a), (a, b)
        elif b[PATH].startswith(f"{a[PATH]}."):
            assert holds(a, b), (a, b)
        else:
            assert not overlap(a, b), (a, b)
    for box in boxes:
        assert box[X] - box[W] / 2 >= -CLOSE
        assert box[Y] - box[H] / 2 >= -CLOSE
        assert box[X] + box[W] / 2 <= w + CLOSE
        assert box[Y] + box[H] / 2 <= h + CLOSE
        outer = box[PATH].rpartition(".")[0]
        assert not outer or by_path[outer][OPEN]


def test_no_set_of_openings_makes_boxes_overlap(scenes):
    chance = random.Random(7)
    cases = [(data, some_paths(chance, data)) for data in (ragged(chance) for _ in range(150))]
    answers = scenes([*cases, *real()])
    drawn = [box for _, _, shown in answers for boxes, _ in shown for box in boxes]
    assert sum(box[OPEN] for box in drawn) > 300
    for answer in answers:
        check(*answer)


def test_edges_end_on_the_borders_of_their_boxes(scenes):
    for _, _, shown in scenes(real()):
        for boxes, wires in shown:
            for tail, head, points in wires:
                for box, at in ((boxes[tail], points[:2]), (boxes[head], points[-2:])):
                    across = abs(at[0] - box[X]) - box[W] / 2
                    down = abs(at[1] - box[Y]) - box[H] / 2
                    assert max(across, down) == pytest.approx(0, abs=1.5)


def test_one_panel_in_two_places_is_drawn_twice(scenes):
    drawn = figure(branching())
    ((_, _, shown),) = scenes([(graph_data(drawn, budget=10**9), open_paths(drawn, 9))])
    assert sum(box[-1] == "e21" for boxes, _ in shown for box in boxes) == 4


def test_an_edge_keeps_its_label_and_a_closed_drawing_its_layout(scenes):
    boxes = (Box("a", "a"), Box("b", "b", inside="inner"))
    inner = Panel("inner", "inner", (Box("c", "c"),), ())
    drawn = Figure((Panel("top", "top", boxes, (Edge("a", "b", "f32[2]"),)), inner))
    data = graph_data(drawn)
    ((w, h, shown),) = scenes([(data, [])])
    assert [w, h] == data["panels"][0][2:4]
    assert [box[X : H + 1] for box in shown[0][0]] == [box[7:11] for box in data["panels"][0][4]]
