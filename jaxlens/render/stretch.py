"""Opens boxes in place without laying anything out again: the plane is stretched.

When a box grows from w0 x h0 to w1 x h1, the strip of the plane that it stands in is
stretched, in x and in y each, by a map that is monotone and linear by pieces: slope w1 / w0
across the box's own interval, 1 elsewhere. Where strips of several open boxes overlap, the
steepest counts. Other boxes keep their size and move with their centre.

Boxes that were apart stay apart: the maps never bring two points nearer; the image of an
open box's interval, to either side of its centre, has room for half of the grown box; and
images of disjoint intervals are disjoint.

`static/graph.js` does the same arithmetic in the same order; a test compares the two.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from jaxlens.render.figure import Box, Edge, Figure, Panel
from jaxlens.render.layout import Curve, Layout, Spot

Path = tuple[int, ...]  # indices of boxes from the outermost panel inwards: one open place

PAD = 8.0  # between an open box's border and its panel
HEADER = 26.0  # room for the open box's own title


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

    A panel that only lists the bodies of one equation (branches) opens with them, and so does
    a panel that holds a single box.
    """
    panels = {panel.name: panel for panel in figure.panels}
    found: set[Path] = set()
    waiting: list[tuple[Path, Panel, int]] = [((), figure.panels[0], depth)]
    while waiting:
        path, panel, left = waiting.pop()
        doors = [n for n, box in enumerate(panel.boxes) if box.inside in panels]
        left -= 0 if panel.through or lone(panel) else 1
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
    panels = {panel.name: panel for panel in figure.panels}
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
        spot = own.layout.spots[n]
        own.sizes[n] = max(spot.w, w + 2 * PAD), max(spot.h, h + HEADER + PAD)
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
    for low, high in zip(marks, marks[1:], strict=False):
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
        points = _bend(curve, placed)
        shifted = tuple(p + (left if n % 2 == 0 else top) for n, p in enumerate(points))
        x, y = left + placed.map_x(curve.x), top + placed.map_y(curve.y)
        wires.append(Wire(path, edge, shifted, curve.label, x, y))
    return wires


def _bend(curve: Curve, placed: _Placed) -> list[float]:
    """The curve's points under the maps; what lies at an end moves with the end's box."""
    old = curve.points
    new = [placed.map_x(p) if n % 2 == 0 else placed.map_y(p) for n, p in enumerate(old)]
    last = len(old) - 2
    x, y = _on_border(old[0], old[1], curve.tail, placed)
    _shift(new, (0, 2), x - new[0], y - new[1])
    x, y = _on_border(old[last], old[last + 1], curve.head, placed)
    _shift(new, (last - 4, last - 2, last), x - new[last], y - new[last + 1])
    return new


def _on_border(x: float, y: float, n: int, placed: _Placed) -> tuple[float, float]:
    """Where a point on the border of box `n` goes: the same share along the new border."""
    spot: Spot = placed.layout.spots[n]
    w, h = placed.sizes.get(n, (spot.w, spot.h))
    return (
        placed.map_x(spot.x) + (x - spot.x) * (w / spot.w),
        placed.map_y(spot.y) + (y - spot.y) * (h / spot.h),
    )


def _shift(points: list[float], starts: Iterable[int], dx: float, dy: float) -> None:
    for n in starts:
        points[n] += dx
        points[n + 1] += dy
