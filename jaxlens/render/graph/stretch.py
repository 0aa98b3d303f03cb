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

`graph/stretch.js` does the arithmetic of this file, of `wires.py` and of `scene.py` in the
same order, so that results are equal; a test compares them.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise

from jaxlens.render.graph.layout import Layout


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
