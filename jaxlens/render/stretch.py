"""Opens boxes in place without laying anything out again: the plane is stretched.

When a box grows from w0 x h0 to w1 x h1, the strip of the plane that it stands in is
stretched, in x and in y each, by a map that is monotone and linear by pieces: slope w1 / w0
across the box's own interval, 1 elsewhere. Where strips of several open boxes overlap, the
steepest counts. Other boxes keep their size and move with their centre.

Boxes that were apart stay apart: the maps never bring two points nearer; the image of an
open box's interval, to either side of its centre, has room for half of the grown box; and
images of disjoint intervals are disjoint.

`static/graph_stretch.js` does the same arithmetic in the same order; a test compares the two.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxlens.render.figure import Box, Edge, Figure, Panel
from jaxlens.render.figure_text import title_width
from jaxlens.render.layout import Curve, Layout, Spot, label_size, sample

Path = tuple[int, ...]  # indices of boxes from the outermost panel inwards: one open place

PAD = 8.0  # between an open box's border and its panel
HEADER = 26.0  # room for the open box's own title
FREE = 8  # levels that open by themselves, because they only lead on
_PIECE = 40.0  # pixels of an edge that are bent as one cubic
_REACH = 6  # points over which an edge's end finds its border


@dataclass(frozen=True, slots=True)
class Drawn:
    """A box on the page. `x`, `y` is its centre; `w`, `h` its size as it is drawn."""

    path: Path
    box: Box
    x: float
    y: float
    w: float
    h: float
    open: bool


@dataclass(frozen=True, slots=True)
class Wire:
    """An edge on the page: points as in `Curve`, and its label's centre."""

    path: Path
    edge: Edge
    points: tuple[float, ...]
    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be drawn, in order of painting: outer panels before inner ones.

    `order` holds, for each panel on the page, how many boxes and wires it contributes.
    """

    w: float
    h: float
    boxes: tuple[Drawn, ...]
    wires: tuple[Wire, ...]
    order: tuple[tuple[int, int], ...]


def open_paths(figure: Figure, depth: int) -> frozenset[Path]:
    """Places that stand open when `depth` levels are shown; 1 shows the program alone.

    A panel that only lists the bodies of one equation (branches) takes no level, nor does one
    that holds a single box, up to `FREE` times.
    """
    panels = figure.named
    found: set[Path] = set()
    waiting: list[tuple[Path, Panel, int]] = [((), figure.panels[0], depth)]
    while waiting:
        path, panel, left = waiting.pop()
        doors = [n for n, box in enumerate(panel.boxes) if box.inside in panels]
        free = (panel.through or lone(panel)) and len(path) <= FREE
        left -= 0 if free else 1
        if left > 0:
            for n in doors:
                found.add((*path, n))
                waiting.append(((*path, n), panels[panel.boxes[n].inside], left))
    return frozenset(found)


def lone(panel: Panel) -> bool:
    """Whether the panel has one box besides what goes in and out."""
    return sum(box.kind not in ("input", "output", "constant") for box in panel.boxes) == 1


def scene(
    figure: Figure, open: Collection[Path], layout: Callable[[Panel], Layout]
) -> Scene:  # fmt: skip
    """The figure with the places `open` standing open.

    Args:
        figure: What is drawn.
        open: Places; one whose outer place is closed does not show.
        layout: Positions of one panel with everything in it closed.

    Raises:
        GraphError: From `layout`.
    """
    panels = figure.named
    frames = _frames(figure.panels[0], panels, set(open))
    placed = {path: _Placed(layout(panel)) for path, panel in frames.items()}
    for path in sorted(frames, key=len, reverse=True):
        _grow(path, placed, frames)
    origins: dict[Path, tuple[float, float]] = {(): (0.0, 0.0)}
    boxes: list[Drawn] = []
    wires: list[Wire] = []
    order = []
    for path, panel in frames.items():
        new_boxes = _draw_boxes(path, panel, placed[path], origins)
        new_wires = _draw_wires(path, panel, placed[path], origins[path])
        boxes += new_boxes
        wires += new_wires
        order.append((len(new_boxes), len(new_wires)))
    page = placed[()]
    return Scene(page.w, page.h, tuple(boxes), tuple(wires), tuple(order))


def _frames(
    first: Panel, panels: Mapping[str, Panel], open: Collection[Path]
) -> dict[Path, Panel]:  # fmt: skip
    """The panels on the page by place, outer before inner, in program order."""
    frames: dict[Path, Panel] = {(): first}
    waiting: list[Path] = [()]
    while waiting:
        path = waiting.pop()
        inner = [
            ((*path, n), panels[box.inside])
            for n, box in enumerate(frames[path].boxes)
            if (*path, n) in open and box.inside in panels
        ]
        frames.update(inner)
        waiting += [place for place, _ in reversed(inner)]
    return frames


class _Placed:
    """A panel on the page while its size is being found: its layout and its two maps."""

    __slots__ = ("h", "inner", "layout", "map_x", "map_y", "sizes", "w")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.inner: dict[int, tuple[float, float]] = {}  # sizes of open panels, by box
        self.sizes: dict[int, tuple[float, float]] = {}  # sizes of open boxes
        self.map_x = self.map_y = stretch(())
        self.w, self.h = layout.w, layout.h


def _grow(path: Path, placed: Mapping[Path, _Placed], frames: Mapping[Path, Panel]) -> None:
    """Finds the panel's maps and size, its inner panels being done, and tells the outer one."""
    own = placed[path]
    for n, (w, h) in own.inner.items():
        spot, title = own.layout.spots[n], title_width(frames[path].boxes[n])
        own.sizes[n] = max(spot.w, w + 2 * PAD, title), max(spot.h, h + HEADER + PAD)
    spots = own.layout.spots
    own.map_x = stretch((spots[n].x, spots[n].w, w) for n, (w, _) in own.sizes.items())
    own.map_y = stretch((spots[n].y, spots[n].h, h) for n, (_, h) in own.sizes.items())
    own.w, own.h = own.map_x(own.layout.w), own.map_y(own.layout.h)
    if path:
        placed[path[:-1]].inner[path[-1]] = own.w, own.h


def stretch(grown: Iterable[tuple[float, float, float]]) -> Callable[[float], float]:
    """The map of one axis for boxes given as (centre, closed size, open size)."""
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


def _draw_boxes(
    path: Path, panel: Panel, placed: _Placed, origins: dict[Path, tuple[float, float]]
) -> list[Drawn]:
    """The panel's boxes where they stand now; open ones learn where their panel begins."""
    left, top = origins[path]
    drawn = []
    for n, (box, spot) in enumerate(zip(panel.boxes, placed.layout.spots, strict=True)):
        x, y = left + placed.map_x(spot.x), top + placed.map_y(spot.y)
        w, h = placed.sizes.get(n, (spot.w, spot.h))
        drawn.append(Drawn((*path, n), box, x, y, w, h, n in placed.sizes))
        if n in placed.sizes:
            inner_w, _ = placed.inner[n]
            origins[(*path, n)] = x - inner_w / 2, y - h / 2 + HEADER
    return drawn


def _draw_wires(
    path: Path, panel: Panel, placed: _Placed, origin: tuple[float, float]
) -> list[Wire]:
    """The panel's edges, each end on the border that its box has now."""
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


def _bend(
    old: Sequence[float], curve: Curve, placed: _Placed
) -> list[float]:  # fmt: skip
    """A curve's points under the maps, its ends on the borders of their boxes.

    How far an end has to move from its image to the border fades out over the next points.
    """
    tip, base = len(old) - 2, len(old) - 4
    new = [placed.map_x(p) if n % 2 == 0 else placed.map_y(p) for n, p in enumerate(old)]
    new[tip], new[tip + 1] = _on_border(old[tip], old[tip + 1], curve.head, placed)
    start_x, start_y = _on_border(old[0], old[1], curve.tail, placed)
    # The arrow keeps its size.
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
    """The same curve with piece `n` cut into `parts[n]` equal stretches.

    Control points far from the curve would be stretched away from it; those of short pieces
    lie close to it.
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
    """The curve's point at `t` plus `step` times its derivative there."""
    u = 1 - t
    x, y = sample(points, n // 6, t)
    p, q, r = 3 * u * u * step, 6 * u * t * step, 3 * t * t * step
    return (
        x + p * (points[n + 2] - points[n]) + q * (points[n + 4] - points[n + 2])
        + r * (points[n + 6] - points[n + 4]),
        y + p * (points[n + 3] - points[n + 1]) + q * (points[n + 5] - points[n + 3])
        + r * (points[n + 7] - points[n + 5]),
    )  # fmt: skip


def _parts(points: Sequence[float]) -> list[int]:
    """Into how many parts each piece is cut: one per `_PIECE` pixels, 8 at most."""
    counts = []
    for n in range(0, len(points) - 4, 6):
        length = sum(
            abs(points[k + 2] - points[k]) + abs(points[k + 3] - points[k + 1])
            for k in (n, n + 2, n + 4)
        )
        counts.append(min(8, 1 + int(length / _PIECE)))
    return counts


def _on_border(x: float, y: float, n: int, placed: _Placed) -> tuple[float, float]:
    """Where a point on the border of box `n` goes: the same share along the new border."""
    spot: Spot = placed.layout.spots[n]
    w, h = placed.sizes.get(n, (spot.w, spot.h))
    across = min(1.0, max(-1.0, (x - spot.x) / (spot.w / 2)))
    down = min(1.0, max(-1.0, (y - spot.y) / (spot.h / 2)))
    return placed.map_x(spot.x) + across * (w / 2), placed.map_y(spot.y) + down * (h / 2)


def _label_at(
    curve: Curve, points: Sequence[float], parts: Sequence[int], placed: _Placed
) -> tuple[float, float]:
    """The label's centre: as far from its place on the curve as before.

    Where an open box would cover it, its image, which is always beside all boxes.
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
