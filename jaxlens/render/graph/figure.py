"""A drawing as data: boxes in boxes and the edges between them, before any layout.

`figures/jaxpr.py` makes one from a module; `dot.py` writes it as DOT, `layout.py` places it,
`svg.py` draws it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, overload

BoxKind = Literal[
    "input",
    "output",
    "constant",
    "quiet",
    "elementwise",
    "matmul",
    "reduce",
    "move",
    "control",
    "call",
    "random",
    "collective",
    "other",
]


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the drawing.

    Attributes:
        id: Unique in the figure; the node's id where it stands for one.
        label: First line, the primitive or the input's name.
        detail: Second line, small ("2.0", "axes=(0,)", "x 12"); "" for none.
        kind: Family, which picks colour and border; never the only carrier of meaning.
        inside: Name of the panel that opens in its place; "" for a plain box.
        hint: Full text for a tooltip.
        line: Owner of the node, as `Line.line`.
        nodes: Ids of the nodes that it stands for, where that is not `id` alone: a folded run.
            Neighbours that are numbered through may stand as one, both ends in it: "e120-e480".
    """

    id: str
    label: str
    detail: str = ""
    kind: BoxKind = "other"
    inside: str = ""
    hint: str = ""
    line: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that flows. `label` is its shape and dtype."""

    tail: str
    head: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One body: its boxes and edges. Bodies are closed, so no edge leaves a panel.

    `through` marks a panel that only lists the bodies of one equation (branches of a cond):
    it opens together with them.
    """

    name: str
    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    through: bool = False


class Panels(Sequence[Panel]):
    """Panels that are drawn when they are first asked for: a program has far more than are shown.

    Attributes:
        named: They by name, the first one first; asking for one draws no other.
    """

    def __init__(self, named: Mapping[str, Panel]) -> None:
        self.named = named

    @cached_property
    def _all(self) -> tuple[Panel, ...]:
        return tuple(map(self.named.__getitem__, self.named))

    @overload
    def __getitem__(self, index: int) -> Panel: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Panel, ...]: ...
    def __getitem__(self, index: int | slice) -> Panel | tuple[Panel, ...]:
        return self.named[next(iter(self.named))] if index == 0 else self._all[index]

    def __iter__(self) -> Iterator[Panel]:
        return map(self.named.__getitem__, self.named)

    def __len__(self) -> int:
        return len(self.named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels by name; the first is the whole program's.

    Attributes:
        panels: Every panel that can be opened.
        depth: How many levels stand open in the static picture.
        note: What was folded or left out.
        stage: The stage whose ids the boxes carry.
    """

    panels: Sequence[Panel]
    depth: int = 1
    note: str = ""
    stage: str = "jaxpr"

    @property
    def named(self) -> Mapping[str, Panel]:
        """The panels by name."""
        if isinstance(self.panels, Panels):
            return self.panels.named
        return {panel.name: panel for panel in self.panels}
