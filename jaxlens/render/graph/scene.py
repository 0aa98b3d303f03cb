"""Computes the position of every box and edge of a figure with some of its boxes open."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from jaxlens.render.graph.figure import Box, Figure, Panel, Path
from jaxlens.render.graph.layout import Layout
from jaxlens.render.graph.stretch import Placed, Wire, draw_wires, stretch
from jaxlens.render.graph.text_width import title_width

PAD = 8.0  # pixels between an open box's border and its panel
HEADER = 26.0  # pixels above the panel for the open box's title


@dataclass(frozen=True, slots=True)
class Drawn:
    """A box on the page. `x`, `y` is its centre; `w`, `h` its size, open or closed."""

    path: Path
    box: Box
    x: float
    y: float
    w: float
    h: float
    open: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """Boxes and wires in order of painting: outer panels before inner ones.

    `order` has the number of boxes and of wires of each panel on the page.
    """

    w: float
    h: float
    boxes: tuple[Drawn, ...]
    wires: tuple[Wire, ...]
    order: tuple[tuple[int, int], ...]


def scene(figure: Figure, open: Collection[Path], layout: Callable[[Panel], Layout]) -> Scene:
    """Returns the figure with the boxes at the paths `open` opened.

    Args:
        figure: The figure.
        open: Paths of boxes; one inside a closed box has no effect.
        layout: Returns the positions of one panel with all its boxes closed.

    Raises:
        GraphError: From `layout`.
    """
    panels = figure.named
    frames = _frames(figure.panels[0], panels, set(open))
    placed = {path: Placed(layout(panel)) for path, panel in frames.items()}
    for path in sorted(frames, key=len, reverse=True):
        _grow(path, placed, frames)
    origins: dict[Path, tuple[float, float]] = {(): (0.0, 0.0)}
    boxes: list[Drawn] = []
    wires: list[Wire] = []
    order = []
    for path, panel in frames.items():
        new_boxes = _draw_boxes(path, panel, placed[path], origins)
        new_wires = draw_wires(path, panel, placed[path], origins[path])
        boxes += new_boxes
        wires += new_wires
        order.append((len(new_boxes), len(new_wires)))
    page = placed[()]
    return Scene(page.w, page.h, tuple(boxes), tuple(wires), tuple(order))


def _frames(first: Panel, panels: Mapping[str, Panel], open: Collection[Path]) -> dict[Path, Panel]:
    """Returns the panels on the page by path, outer before inner, in program order."""
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


def _grow(path: Path, placed: Mapping[Path, Placed], frames: Mapping[Path, Panel]) -> None:
    """Computes the panel's maps and size from those of its inner panels.

    The size is also set in `inner` of the outer panel.
    """
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


def _draw_boxes(
    path: Path, panel: Panel, placed: Placed, origins: dict[Path, tuple[float, float]]
) -> list[Drawn]:
    """Returns the panel's boxes at their positions; sets the origins of its open inner panels."""
    left, top = origins[path]
    boxes = []
    for n, (box, spot) in enumerate(zip(panel.boxes, placed.layout.spots, strict=True)):
        x, y = left + placed.map_x(spot.x), top + placed.map_y(spot.y)
        w, h = placed.sizes.get(n, (spot.w, spot.h))
        boxes.append(Drawn((*path, n), box, x, y, w, h, n in placed.sizes))
        if n in placed.sizes:
            inner_w, _ = placed.inner[n]
            origins[(*path, n)] = x - inner_w / 2, y - h / 2 + HEADER
    return boxes
