"""Opens boxes in place without a new layout, by stretching the plane.

When a box grows from w0 x h0 to w1 x h1, each axis is mapped by a monotone piecewise linear
function: slope w1 / w0 across the box's own interval (h1 / h0 in y), 1 elsewhere. Where intervals
of several open boxes overlap, the greatest slope applies. Other boxes keep their size and move
with their centre.

    closed   |--[2  4]--[5 6]--|           box 2..4 grows from 2 to 6 wide: slope 3 on 2..4
    map      2 -> 2,  4 -> 8,  5 -> 9      its centre 3 -> 5
    open     |--[2        8]--[9 10]--|    the box is 5 - 3 .. 5 + 3, the other moved by 4

Boxes that do not overlap before do not overlap after: every slope is at least 1, so no distance
shrinks; the image of an open box's interval, on each side of its centre, is at least half the
grown box; and images of disjoint intervals are disjoint.

`graph/stretch.js` does the arithmetic of this file and of `scene.py` in the same order, so that
results are equal; a test compares them.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxlens.render.graph.figure import Edge, Panel, Path
from jaxlens.render.graph.layout import Curve, Layout, Spot, label_size, sample


def stretch(grown: Iterable[tuple[float, float, float]]) -> Callable[[float], float]:
    """Returns the map of one axis, for open boxes given as (centre, closed size, open size)."""
    strips = [(c - a / 2, c + a / 2, b / a) for c, a, b in grown if b > a]
    marks = sorted({end for low, high, _ in strips for end in (low, high)})
    images = marks[:1]
    for low, high in pairwise(marks):
        slope = max((s for a, b, s in strips if a <= low and high <= b), default=1.0)
        images.append(images[-1] + slope * (high - low))

    def image(t: float) -> float:
        n = bisect_right(marks, t) - 1
        if n < 0:
            return t
        if n == len(marks) - 1:
            return images[n] + (t - marks[n])
        share = (t - marks[n]) / (marks[n + 1] - marks[n])
        return images[n] + share * (images[n + 1] - images[n])

    return image


class Placed:
    """A panel on the page: its layout, and the maps and sizes that `scene` computes."""

    __slots__ = ("h", "inner", "layout", "map_x", "map_y", "sizes", "w")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.inner: dict[int, tuple[float, float]] = {}  # sizes of open panels, by box
        self.sizes: dict[int, tuple[float, float]] = {}  # sizes of open boxes
        self.map_x = self.map_y = stretch(())
        self.w, self.h = layout.w, layout.h


_PIECE = 40.0  # pixels of an edge per mapped cubic piece
_REACH = 6  # points over which the shift of an edge's end is distributed


@dataclass(frozen=True, slots=True)
class Wire:
    """An edge on the page: points as in `Curve`, and the label's centre."""

    path: Path
    edge: Edge
    points: tuple[float, ...]
    label: str
    x: float
    y: float


def draw_wires(path: Path, panel: Panel, placed: Placed, origin: tuple[float, float]) -> list[Wire]:
    """Returns the panel's edges, each end on the border of its box, open or closed."""
    left, top = origin
    wires = []
    for edge, curve in zip(panel.edges, placed.layout.curves, strict=True):
        points: Sequence[float] = curve.points
        x, y = curve.x, curve.y
        if placed.sizes:
            parts = _parts(points)
            points = _bend(_cut(points, parts), curve, placed)
            x, y = _label_at(curve, points, parts, placed)
        shifted = tuple(p + (left if n % 2 == 0 else top) for n, p in enumerate(points))
        wires.append(Wire(path, edge, shifted, curve.label, left + x, top + y))
    return wires


def _bend(old: Sequence[float], curve: Curve, placed: Placed) -> list[float]:
    """Returns a curve's points under the maps, its ends on the borders of their boxes.

    The image of an end may lie off the border of its box. The shift to the border is applied to
    the end in full, and to the next points with linearly decreasing weight.
    """
    tip, base = len(old) - 2, len(old) - 4
    new = [placed.map_x(p) if n % 2 == 0 else placed.map_y(p) for n, p in enumerate(old)]
    new[tip], new[tip + 1] = _on_border(old[tip], old[tip + 1], curve.head, placed)
    start_x, start_y = _on_border(old[0], old[1], curve.tail, placed)
    # The arrowhead keeps its size.
    end_x, end_y = new[tip] + old[base] - old[tip], new[tip + 1] + old[base + 1] - old[tip + 1]
    start_x, start_y = start_x - new[0], start_y - new[1]
    end_x, end_y = end_x - new[base], end_y - new[base + 1]
    reach = min(base // 2, _REACH)
    for n in range(reach):
        share = 1 - n / reach
        new[2 * n] += start_x * share
        new[2 * n + 1] += start_y * share
        new[base - 2 * n] += end_x * share
        new[base - 2 * n + 1] += end_y * share
    return new


def _cut(points: Sequence[float], parts: Sequence[int]) -> list[float]:
    """Returns the same curve with piece `n` split into `parts[n]` equal pieces.

    Control points far from the curve would be mapped by other slopes than the curve itself;
    those of short pieces are close to it.
    """
    cut = list(points[:2])
    for piece, count in enumerate(parts):
        n = 6 * piece
        for part in range(count):
            a, b = part / count, (part + 1) / count
            cut += _ahead(points, n, a, (b - a) / 3)
            cut += _ahead(points, n, b, (a - b) / 3)
            cut += sample(points, piece, b)
    return [*cut, *points[-2:]]


def _ahead(points: Sequence[float], n: int, t: float, step: float) -> tuple[float, float]:
    """Returns the curve's point at `t` plus `step` times its derivative there."""
    u = 1 - t
    x, y = sample(points, n // 6, t)
    p, q, r = 3 * u * u * step, 6 * u * t * step, 3 * t * t * step
    return (
        x
        + p * (points[n + 2] - points[n])
        + q * (points[n + 4] - points[n + 2])
        + r * (points[n + 6] - points[n + 4]),
        y
        + p * (points[n + 3] - points[n + 1])
        + q * (points[n + 5] - points[n + 3])
        + r * (points[n + 7] - points[n + 5]),
    )


def _parts(points: Sequence[float]) -> list[int]:
    """Returns how many parts to split each piece into: one per `_PIECE` pixels, at most 8."""
    counts = []
    for n in range(0, len(points) - 4, 6):
        length = sum(
            abs(points[k + 2] - points[k]) + abs(points[k + 3] - points[k + 1])
            for k in (n, n + 2, n + 4)
        )
        counts.append(min(8, 1 + int(length / _PIECE)))
    return counts


def _on_border(x: float, y: float, n: int, placed: Placed) -> tuple[float, float]:
    """Returns the image of a border point of box `n`: at the same fraction of the new border."""
    spot: Spot = placed.layout.spots[n]
    w, h = placed.sizes.get(n, (spot.w, spot.h))
    across = min(1.0, max(-1.0, (x - spot.x) / (spot.w / 2)))
    down = min(1.0, max(-1.0, (y - spot.y) / (spot.h / 2)))
    return placed.map_x(spot.x) + across * (w / 2), placed.map_y(spot.y) + down * (h / 2)


def _label_at(
    curve: Curve, points: Sequence[float], parts: Sequence[int], placed: Placed
) -> tuple[float, float]:
    """Returns the label's centre: at the same offset from its point on the curve as before.

    Where an open box would cover it there, its image under the maps, which is outside all boxes.
    """
    if not curve.label:
        return curve.x, curve.y
    piece, share = int(curve.at), curve.at % 1
    part = int(share * parts[piece])
    old_x, old_y = sample(curve.points, piece, share)
    new_x, new_y = sample(points, sum(parts[:piece]) + part, share * parts[piece] - part)
    x, y = new_x + (curve.x - old_x), new_y + (curve.y - old_y)
    label_w, label_h = label_size(curve.label)
    for n, (w, h) in placed.sizes.items():
        spot = placed.layout.spots[n]
        near_x = abs(x - placed.map_x(spot.x)) < (label_w + w) / 2
        if near_x and abs(y - placed.map_y(spot.y)) < (label_h + h) / 2:
            return placed.map_x(curve.x), placed.map_y(curve.y)
    return x, y
