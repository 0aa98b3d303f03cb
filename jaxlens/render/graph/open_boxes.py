"""Which boxes of a figure stand open, by the place they stand at."""

from jaxlens.render.graph.figure import Figure, Panel

Path = tuple[int, ...]  # indices of boxes from the outermost panel inwards: one open place

FREE = 8  # levels that open by themselves, because they only lead on


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
