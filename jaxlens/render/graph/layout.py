"""Computes the layout of one panel with Graphviz.

Graphviz's input has boxes of fixed size and labels of known width and no text of the program, so
a name cannot inject DOT, and the layout is the same on all machines. Each panel is laid out once,
with its inner panels closed; in a page `graph/stretch.js` opens them. Panels that differ only in
their words, such as a model's layers, share one layout (`arranged` is cached by sizes and edges).
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jaxlens.errors import GraphError
from jaxlens.render.graph.figure import Panel
from jaxlens.render.graph.graphviz_run import run
from jaxlens.render.graph.text_width import EDGE_SIZE, box_size, columns, edge_labels

MARGIN = 10.0
_MOST_BOXES = 600  # Graphviz's time is superlinear in its input; larger panels must be folded
_GAP = 3.0  # between an edge and its label
_POINTS = 72.0  # points per inch: Graphviz reads inches and writes points; 1 point is 1 pixel


@dataclass(frozen=True, slots=True)
class Spot:
    """The centre and size of a box, in pixels, y downwards."""

    x: float
    y: float
    w: float
    h: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The path of an edge.

    Attributes:
        tail: Index of the box it leaves.
        head: Index of the box it enters.
        points: x, y alternately: a start, then three control points per cubic piece, then the tip
            of the arrow.
        label: Text of its label; "" for none.
        x: x of the label's centre.
        y: y of the label's centre.
        at: Parameter of the curve's point nearest to the label: index of the piece plus a
            multiple of 1/8.
    """

    tail: int
    head: int
    points: tuple[float, ...]
    label: str = ""
    x: float = 0.0
    y: float = 0.0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a panel: a spot for each box and a curve for each edge, in their order."""

    w: float
    h: float
    spots: tuple[Spot, ...]
    curves: tuple[Curve, ...]


@lru_cache(maxsize=256)
def layout(panel: Panel) -> Layout:
    """Returns the positions of the panel's boxes and edges.

    Raises:
        GraphError: Graphviz cannot run here, or takes too long.
    """
    if not panel.edges:
        return _grid(panel)
    if len(panel.boxes) > _MOST_BOXES:
        raise GraphError(
            f"the panel {panel.title[:40]!r} has {len(panel.boxes):,} boxes, more than the "
            f"{_MOST_BOXES} that are laid out at once; make the figure with max_boxes=60"
        )
    index = {box.id: n for n, box in enumerate(panel.boxes)}
    ends = tuple((index[edge.tail], index[edge.head]) for edge in panel.edges)
    return arranged(tuple(map(box_size, panel.boxes)), ends, edge_labels(panel))


@lru_cache(maxsize=256)
def arranged(
    sizes: tuple[tuple[float, float], ...],
    ends: tuple[tuple[int, int], ...],
    labels: tuple[str, ...],
) -> Layout:
    """Returns the positions for boxes of given sizes, whatever their text.

    Args:
        sizes: Width and height of each box.
        ends: Tail and head of each edge, as indices of boxes.
        labels: Label of each edge; "" for none.

    Raises:
        GraphError: Graphviz cannot run here, or takes too long.
    """
    return _read(sizes, ends, labels, json.loads(_place(sizes, ends, labels)))


def _place(
    sizes: Sequence[tuple[float, float]], ends: Sequence[tuple[int, int]], labels: Sequence[str]
) -> bytes:
    """Returns Graphviz's JSON, with straight edges if curved ones take too long (dense graphs)."""
    try:
        return run(_source(sizes, ends, labels, "splines=true"))
    except TimeoutError:
        pass
    try:
        straight = "splines=line,nslimit=1,nslimit1=1,mclimit=0.1"
        return run(_source(sizes, ends, labels, straight))
    except TimeoutError as error:
        raise GraphError(
            f"Graphviz gave up on {len(sizes)} boxes with {len(ends)} edges: "
            f"{error}; show less (--depth 1), or the text (--text)"
        ) from None


def _source(
    sizes: Sequence[tuple[float, float]],
    ends: Sequence[tuple[int, int]],
    labels: Sequence[str],
    options: str,
) -> str:
    lines = [
        f"digraph {{ graph [rankdir=TB,nodesep=0.22,ranksep=0.3,{options}]",
        'node [shape=box,fixedsize=true,label=""]',
        f"edge [fontname=Courier,fontsize={EDGE_SIZE:g},arrowsize=0.6]",
    ]
    for n, (w, h) in enumerate(sizes):
        lines.append(f"{n} [width={w / _POINTS:.6f},height={h / _POINTS:.6f}]")
    for (tail, head), label in zip(ends, labels, strict=True):
        # Graphviz has built-in metrics of Courier: as many letters reserve as much space.
        room = f' [label="{"M" * (columns(label) + 1)}"]' if label else ""
        lines.append(f"{tail} -> {head}{room}")
    return "\n".join([*lines, "}"])


def _read(
    sizes: Sequence[tuple[float, float]],
    ends: Sequence[tuple[int, int]],
    labels: Sequence[str],
    placed: dict[str, Any],
) -> Layout:
    left, low, right, high = map(float, placed["bb"].split(","))
    spots: dict[int, Spot] = {}
    for item in placed.get("objects", []):
        x, y = map(float, item["pos"].split(","))
        n = int(item["name"])
        spots[n] = Spot(_px(x - left), _px(high - y), *sizes[n])
    # Graphviz reorders edges, but keeps the order of edges between the same two boxes.
    waiting: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for item in reversed(placed.get("edges", [])):
        waiting.setdefault((int(item["tail"]), int(item["head"])), []).append(item)
    curves = []
    for pair, label in zip(ends, labels, strict=True):
        item = waiting[pair].pop()
        points = _points(item["pos"], left, high)
        if not label:
            curves.append(Curve(*pair, points))
            continue
        label_x, label_y = map(float, item["lp"].split(","))
        at = _px(label_x - left + _GAP), _px(high - label_y)
        curves.append(Curve(*pair, points, label, *at, _nearest(points, at)))
    w, h = math.ceil(right - left + 2 * MARGIN), math.ceil(high - low + 2 * MARGIN)
    return Layout(w, h, tuple(spots[n] for n in range(len(sizes))), tuple(curves))


def _px(value: float) -> float:
    return float(f"{value + MARGIN:.1f}")  # twice as quick as `round`, and the same


def _points(pos: str, left: float, high: float) -> tuple[float, ...]:
    """Converts Graphviz's `e,tip start control control end ...` to start, controls, end, tip."""
    pairs = [pair for pair in pos.split() if pair[0] not in "es"]
    tip = [pair[2:] for pair in pos.split() if pair[0] == "e"]
    flat = []
    for pair in pairs + (tip or pairs[-1:]):
        x, y = pair.split(",")
        flat += [_px(float(x) - left), _px(high - float(y))]
    return tuple(flat)


def sample(points: Sequence[float], piece: int, t: float) -> tuple[float, float]:
    """Returns the point of a cubic Bézier piece at `t` in 0..1."""
    n, u = 6 * piece, 1 - t
    a, b, c, d = u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t
    return (
        a * points[n] + b * points[n + 2] + c * points[n + 4] + d * points[n + 6],
        a * points[n + 1] + b * points[n + 3] + c * points[n + 5] + d * points[n + 7],
    )


def _nearest(points: Sequence[float], label: tuple[float, float]) -> float:
    eighths = (n / 8 for n in range((len(points) - 4) // 6 * 8))
    return min(eighths, key=lambda at: math.dist(sample(points, int(at), at % 1), label))


def _grid(panel: Panel) -> Layout:
    """Returns a layout of boxes without edges: rows of about a page's width."""
    sizes = [box_size(box) for box in panel.boxes]
    area = sum((w + 16) * (h + 14) for w, h in sizes)
    wrap = max(480.0, math.sqrt(area) * 1.4)
    spots = []
    x, y, row, widest = MARGIN, MARGIN, 0.0, 0.0
    for w, h in sizes:
        if x > MARGIN and x + w > wrap:
            x, y, row = MARGIN, y + row + 14, 0.0
        spots.append(Spot(x + w / 2, y + h / 2, w, h))
        widest, row = max(widest, x + w), max(row, h)
        x += w + 16
    return Layout(widest + MARGIN, y + row + MARGIN, tuple(spots), ())
