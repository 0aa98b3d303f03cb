"""Determines which boxes of a figure are open, each given by its path."""

from jaxlens.render.graph.figure import Figure, Panel

Path = tuple[int, ...]  # indices of boxes from the outermost panel inwards, of one box

FREE = 8  # nesting up to which a panel of a single box does not count as a level


def open_paths(figure: Figure, depth: int) -> frozenset[Path]:
    """Returns the paths of the boxes that are open at `depth` levels; 1 is the first panel alone.

    A panel that only lists the bodies of one equation (branches) does not count as a level, nor
    does one with a single box, up to a nesting of `FREE`.
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
    """Returns whether the panel has exactly one box besides inputs, outputs and constants."""
    return sum(box.kind not in ("input", "output", "constant") for box in panel.boxes) == 1
