"""Draws the jaxpr after with what changed: what is new, and what is of another type or form.

What is gone has no place in it: the diff lists that, and the note counts it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.lazy import LazyMapping, lazy
from jaxlens.links.match.across_edits import Pairs
from jaxlens.render.document import GraphPane
from jaxlens.render.graph.figure import Box, BoxKind, Figure, Panel, Panels
from jaxlens.report import count
from jaxlens.views.figures import jaxpr

Change = Literal["new", "changed"]
_SIGNS: Mapping[Change, str] = {"new": "+", "changed": "~"}
_KINDS: Mapping[Change, BoxKind] = {"new": "added", "changed": "edited"}
_RANGE = re.compile(r"e(\d+)-e(\d+)")
_PORTS = frozenset({"input", "output", "constant"})


def pane(pairs: Pairs) -> GraphPane:
    """Returns the graph of what changed, made on first use: the text form has no graph."""

    def draw(_: GraphPane) -> Figure:
        return figure(pairs)

    def describe(pane: GraphPane) -> str:
        return f"Graph of what changed: {summary(pairs)}."

    return lazy(GraphPane, {"figure": draw, "alt": describe})


def figure(pairs: Pairs) -> Figure:
    """Returns the graph of the jaxpr after, with the sign of each change."""
    plain = jaxpr.figure(pairs.after, inputs=pairs.inputs[1])
    changes: dict[str, Change] = dict.fromkeys(pairs.new, "new")
    changes |= dict.fromkeys(pairs.changed.values(), "changed")
    panels = Panels(_MarkedPanels(plain.named, pairs.after, changes))
    drawing = Figure(panels, 1, summary(pairs))
    return replace(drawing, depth=jaxpr.fitting_depth(drawing))


def summary(pairs: Pairs) -> str:
    """Returns the number of equations that are new, changed, gone and the same."""
    sizes = {"+ {} new": pairs.new, "~ {} changed": pairs.changed, "{} gone": pairs.gone}
    parts = [text.format(f"{len(ids):,}") for text, ids in sizes.items() if ids]
    return f"{', '.join(parts)}; {count(len(pairs.same), 'equation')} the same on both sides"


class _MarkedPanels(LazyMapping[Panel]):
    """Panels whose boxes have the sign of their change."""

    def __init__(
        self, plain: Mapping[str, Panel], module: Module, changes: Mapping[str, Change]
    ) -> None:
        super().__init__()
        self._plain, self._changes = plain, changes
        self._inside: dict[str, Counter[Change]] = {}
        self._nodes = {node.id: node for node in module.nodes()}
        for name in reversed(tuple(module.regions)):  # callees first
            self._inside[name] = self._within(module.regions[name].nodes)

    def _within(self, nodes: Sequence[Node]) -> Counter[Change]:
        """Returns the number of changes in equations and their bodies."""
        found: Counter[Change] = Counter()
        for node in nodes:
            if node.id in self._changes:
                found[self._changes[node.id]] += 1
            for name in node.regions:
                found += self._inside.get(name, Counter())
        return found

    def _value(self, key: str) -> Panel:
        panel = self._plain[key]
        return replace(panel, boxes=tuple(map(self._box, panel.boxes)))

    def __contains__(self, name: object) -> bool:
        return name in self._plain

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain)

    def _box(self, box: Box) -> Box:
        if box.kind in _PORTS:
            return box
        change = self._changes.get(box.id)
        if change is not None:
            sign = _SIGNS[change]
            hint = f"{change}: {box.hint}"
            return replace(box, label=f"{sign} {box.label}", kind=_KINDS[change], hint=hint)
        inside = self._inside.get(box.inside) or self._folded(box)
        words = ", ".join(f"{_SIGNS[name]}{inside[name]}" for name in _SIGNS if inside[name])
        detail = f"{words} inside" if words else box.detail
        return replace(box, kind="other", detail=detail)

    def _folded(self, box: Box) -> Counter[Change]:
        """Returns the changes in a run that is folded into a box."""
        return self._within([self._nodes[id] for id in _ids(box) if id in self._nodes])


def _ids(box: Box) -> Iterator[str]:
    """Yields the ids of the equations that a box stands for."""
    for id in box.nodes or (box.id,):
        if match := _RANGE.fullmatch(id):
            yield from (f"e{n}" for n in range(int(match[1]), int(match[2]) + 1))
        else:
            yield id
