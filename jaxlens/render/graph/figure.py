"""A graph as data: nested boxes and the edges between them, before layout.

`views/figures/jaxpr.py` makes one from a module; `dot.py` renders it as DOT, `layout.py` computes
positions, `svg.py` renders it as SVG.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jaxlens.ir.lazy import ComputedSequence

BoxKind = str
"""A family: one of `palette.FAMILIES`."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of the figure.

    Attributes:
        id: Unique in the figure; the node's id if it represents one node.
        label: First line: the primitive, or the input's name.
        detail: Second line, small ("2.0", "axes=(0,)", "x 12"); "" for none.
        kind: Family, which determines colour and outline; never the only carrier of meaning.
        inside: Name of the panel that opens in its place; "" for a plain box.
        hint: Full text for a tooltip.
        line: Source line that owns the node, as `Line.line`.
        nodes: Ids of the nodes that it represents, unless that is `id` alone: a folded run.
            Consecutive numbers may be written as an inclusive range: "e120-e480".
        flops: What it costs, estimated; None where unknown.
        link: Address of the notebook that it opens, relative to the one with the output; "" for
            none.
    """

    id: str
    label: str
    detail: str = ""
    kind: BoxKind = "other"
    inside: str = ""
    hint: str = ""
    line: str = ""
    nodes: tuple[str, ...] = ()
    link: str = ""
    flops: float | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A value from the box that makes it to one that reads it; `label` is its dtype and shape."""

    tail: str
    head: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """The boxes and edges of one body. Jaxprs are closed, so no edge leaves a panel.

    `through` marks a panel that only lists the bodies of one equation (branches of a cond); when
    it opens, they open too.
    """

    name: str
    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    through: bool = False


class Panels(ComputedSequence[Panel]):
    """Panels that are made on first access: a program has far more than are shown.

    Args:
        named: The panels by name, in order.
    """

    def __init__(self, named: Mapping[str, Panel]) -> None:
        self.named = named

    def __len__(self) -> int:
        return len(self.named)

    def __getitem__(self, index: Any) -> Any:
        """A panel; the first without the length, for which every panel would be made."""
        return self._item(0) if index == 0 else super().__getitem__(index)

    def _item(self, index: int) -> Panel:
        return self.named[next(islice(self.named, index, None))]

    def __iter__(self) -> Iterator[Panel]:
        return map(self.named.__getitem__, self.named)


@dataclass(frozen=True, slots=True)
class Heat:
    """What boxes can be shaded by.

    Attributes:
        measures: Its names, with the unit where that is more than the text says ("flops"), each
            with what writes a figure as text.
        figures: Returns the figures of a box in this order; None for those unknown.
    """

    measures: Sequence[tuple[str, Callable[[float], str]]] = ()
    figures: Callable[[Box], Sequence[float | None]] = lambda box: ()


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels by name; the first is the whole program's.

    Attributes:
        panels: Every panel that can be opened.
        depth: Number of levels that are open at first in a page.
        note: What was folded or left out.
        stage: The stage whose ids the boxes carry.
        after: Ids of the equations that come after the gradients.
        heat: What boxes can be shaded by.
    """

    panels: Sequence[Panel]
    depth: int = 1
    note: str = ""
    stage: str = "jaxpr"
    after: Sequence[str] = ()
    heat: Heat = Heat()

    @property
    def named(self) -> Mapping[str, Panel]:
        """The panels by name."""
        if isinstance(self.panels, Panels):
            return self.panels.named
        return {panel.name: panel for panel in self.panels}


Path = tuple[int, ...]  # indices of boxes from the outermost panel inwards, of one box

FREE = 8  # nesting up to which a panel of a single box does not count as a level


def open_paths(figure: Figure, depth: int) -> frozenset[Path]:
    """Returns the paths of the boxes that are open at `depth` levels; 1 is the first panel alone.

    A panel that only lists the bodies of one equation (branches) does not count as a level, nor
    does one with a single box, up to a nesting of `FREE`.
    """
    panels = figure.named
    paths: set[Path] = set()
    waiting: list[tuple[Path, Panel, int]] = [((), figure.panels[0], depth)]
    while waiting:
        path, panel, left = waiting.pop()
        free = (panel.through or lone(panel)) and len(path) <= FREE
        left -= 0 if free else 1
        for n, box in enumerate(panel.boxes if left > 0 else ()):
            if box.inside in panels:
                paths.add((*path, n))
                waiting.append(((*path, n), panels[box.inside], left))
    return frozenset(paths)


def lone(panel: Panel) -> bool:
    """Returns whether the panel has exactly one box besides inputs, outputs and constants."""
    return sum(box.kind not in ("input", "output", "constant") for box in panel.boxes) == 1


def pictured(figure: Figure) -> Panel:
    """Returns the panel that a picture shows: the first, or that of the call which is all of it."""
    panels, panel = figure.named, figure.panels[0]
    for _ in range(FREE):
        inside = next((box.inside for box in panel.boxes if box.kind == "call"), "")
        if inside not in panels or not lone(panel) or not panels[inside].edges:
            break
        panel = panels[inside]
    return panel
