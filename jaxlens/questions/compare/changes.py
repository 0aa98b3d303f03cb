"""Draws two jaxprs as one graph: what is new, gone and changed, among what is the same.

The two are merged into one module, which is drawn like any other: a body after, with the equations
that are gone put back where the values that they read exist.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jaxlens.ir.graph import Module, Node, Region, Value, callers_first
from jaxlens.ir.lazy import LazyMapping, lazy
from jaxlens.links.match.across_edits import Pairs
from jaxlens.render.document import GraphPane
from jaxlens.render.graph.figure import Box, BoxKind, Edge, Figure, Panel, Panels
from jaxlens.report import count
from jaxlens.views.figures import jaxpr

Change = Literal["new", "gone", "changed"]
_SIGNS: Mapping[Change, str] = {"new": "+", "gone": "−", "changed": "~"}
_KINDS: Mapping[Change, BoxKind] = {
    "new": "added",
    "gone": "removed",
    "changed": "edited",
}
_GONE = "was "  # before the names and ids of the program before, which the one after may use too
_RANGE = re.compile(r"e(\d+)-e(\d+)")
_PORTS = frozenset({"input", "output", "constant"})


@dataclass(frozen=True, slots=True)
class Merged:
    """Two jaxprs in one module.

    Attributes:
        module: The jaxpr after, with the equations that are gone.
        changes: What became of an equation, by its id in `module`; missing for the same.
        read: Pairs of an equation that is gone and one that read it before and is still there.
    """

    module: Module
    changes: Mapping[str, Change]
    read: Sequence[tuple[str, str]]


def pane(pairs: Pairs) -> GraphPane:
    """Returns the graph of both programs, made on first use: the text form has no graph."""

    def draw(_: GraphPane) -> Figure:
        return figure(pairs)

    def describe(pane: GraphPane) -> str:
        return f"Graph of both programs: {summary(pairs)}."

    return lazy(GraphPane, {"figure": draw, "alt": describe})


def figure(pairs: Pairs) -> Figure:
    """Returns the graph of two paired jaxprs."""
    both = merged(pairs)
    plain = jaxpr.figure(both.module, inputs=pairs.inputs[1])
    drawing = Figure(Panels(_MarkedPanels(plain.named, both)), 1, summary(pairs))
    return replace(drawing, depth=jaxpr.fitting_depth(drawing))


def summary(pairs: Pairs) -> str:
    """Returns the number of equations that are new, gone, changed and the same."""
    sizes: Mapping[Change, int] = {
        "new": len(pairs.new),
        "gone": len(pairs.gone),
        "changed": len(pairs.changed),
    }
    parts = [f"{_SIGNS[name]} {n:,} {name}" for name, n in sizes.items() if n]
    return f"{', '.join(parts)}; {count(len(pairs.same), 'equation')} the same on both sides"


def merged(pairs: Pairs) -> Merged:
    """Merges both programs into one module."""
    before, after = pairs.before, pairs.after
    changes: dict[str, Change] = dict.fromkeys(pairs.new, "new")
    changes |= dict.fromkeys(pairs.changed.values(), "changed")
    changes |= {_GONE + id: "gone" for id in pairs.gone}
    regions = dict(after.regions)
    read: list[tuple[str, str]] = []
    pending = deque([(before.entry, after.entry)])
    waiting, drawn = set(before.regions), set[str]()
    while pending:
        old, new = pending.popleft()
        if old not in waiting or new in drawn:
            continue  # a body that several calls share is merged once
        waiting.remove(old)
        drawn.add(new)
        body = _Body(pairs, before.regions[old], after.regions[new])
        regions[new] = body.merged()
        read += body.read()
        pending += body.inner()
    for name in waiting:
        nodes = tuple(map(_gone, _removed(pairs, before.regions[name])))
        if nodes:
            regions[_GONE + name] = _copied(before.regions[name], nodes)
    regions = {name: _with_calls(region, regions) for name, region in regions.items()}
    ordered = callers_first(regions, after.entry)
    module = Module(after.name, after.stage, after.entry, ordered, after.attrs)
    return Merged(module, changes, read)


@dataclass(frozen=True)
class _Body:
    """A body on both sides."""

    pairs: Pairs
    before: Region
    after: Region

    def merged(self) -> Region:
        """Returns the body after, with the equations that are gone."""
        place = {node.id: n for n, node in enumerate(self.after.nodes)}
        made: dict[str, int] = {}  # place after of the values before
        names: dict[str, str] = dict(self._parameters())
        added: defaultdict[int, list[Node]] = defaultdict(list)
        at = -1
        for node in self.before.nodes:
            image = self.pairs.images.get(node.id)
            if image is None:
                made_at = max((made.get(name, -1) for name in node.operands), default=-1)
                at = max(at, made_at)
                operands = tuple(names.get(name, name) for name in node.operands)
                copy = replace(_gone(node), operands=operands)
                added[at].append(copy)
                pairs = zip(node.results, copy.results, strict=True)
            elif image in place:
                at = max(at, place[image])
                pairs = zip(node.results, self.after.nodes[place[image]].results, strict=False)
            else:
                continue
            for old, new in pairs:
                names[old.name] = new.name
                made[old.name] = at if image is None else place[image]
        nodes = list(added[-1])
        for n, node in enumerate(self.after.nodes):
            nodes += [node, *added.get(n, ())]
        return replace(self.after, nodes=tuple(nodes))

    def _parameters(self) -> Iterator[tuple[str, str]]:
        """Yields the parameters before with the same input after; by position where unnamed."""
        old, new = self.before.parameters, self.after.parameters
        inputs = self.pairs.inputs
        if self.before.name == self.pairs.before.entry and any(inputs):
            # Captured constants come first and have no names.
            tails = dict(zip(reversed(inputs[0]), reversed(old), strict=False))
            heads = dict(zip(reversed(inputs[1]), reversed(new), strict=False))
            yield from ((tails[n].name, heads[n].name) for n in tails if n in heads)
        elif len(old) == len(new):
            yield from ((tail.name, head.name) for tail, head in zip(old, new, strict=True))

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields pairs of an equation that is gone and one that read it and is still there."""
        makers = {
            value.name: node.id
            for node in _removed(self.pairs, self.before)
            for value in node.results
        }
        for node in self.before.nodes:
            image = self.pairs.images.get(node.id)
            for name in dict.fromkeys(node.operands) if image else ():
                if name in makers:
                    yield _GONE + makers[name], str(image)

    def inner(self) -> Iterator[tuple[str, str]]:
        """Yields the bodies of paired calls."""
        after = {node.id: node for node in self.after.nodes}
        for node in self.before.nodes:
            image = after.get(self.pairs.images.get(node.id, ""))
            if image is not None:
                yield from zip(node.regions, image.regions, strict=False)


def _removed(pairs: Pairs, region: Region) -> Iterator[Node]:
    return (node for node in region.nodes if node.id not in pairs.images)


def _gone(node: Node) -> Node:
    """Returns an equation of the program before under names of its own."""
    results = tuple(Value(_GONE + value.name, value.type) for value in node.results)
    inner = tuple(_GONE + name for name in node.regions)
    return replace(node, id=_GONE + node.id, results=results, regions=inner)


def _copied(region: Region, nodes: Sequence[Node]) -> Region:
    """Returns a body of the program before, of which only `nodes` are left."""
    parameters = tuple(Value(_GONE + value.name, value.type) for value in region.parameters)
    known = {value.name for node in nodes for value in node.results}
    known |= {value.name for value in parameters}

    def name(operand: str) -> str:
        return _GONE + operand if _GONE + operand in known else operand

    copies = tuple(replace(n, operands=tuple(map(name, n.operands))) for n in nodes)
    results = tuple(map(name, region.results))
    return replace(
        region, name=_GONE + region.name, parameters=parameters, nodes=copies, results=results
    )


def _with_calls(region: Region, regions: Mapping[str, Region]) -> Region:
    """Returns a body whose calls lead to bodies that exist."""
    nodes = tuple(
        replace(node, regions=tuple(name for name in node.regions if name in regions))
        if any(name not in regions for name in node.regions)
        else node
        for node in region.nodes
    )
    return replace(region, nodes=nodes)


class _MarkedPanels(LazyMapping[Panel]):
    """Panels whose boxes have the sign of their change."""

    def __init__(self, plain: Mapping[str, Panel], merged: Merged) -> None:
        super().__init__()
        self._plain, self._merged = plain, merged
        self._inside: dict[str, Counter[Change]] = {}
        self._nodes = {node.id: node for node in merged.module.nodes()}
        for name in reversed(tuple(merged.module.regions)):  # callees first
            self._inside[name] = self._within(merged.module.regions[name].nodes)

    def _within(self, nodes: Sequence[Node]) -> Counter[Change]:
        """Returns the number of changes in equations and their bodies."""
        found: Counter[Change] = Counter()
        for node in nodes:
            if node.id in self._merged.changes:
                found[self._merged.changes[node.id]] += 1
            for name in node.regions:
                found += self._inside.get(name, Counter())
        return found

    def _value(self, key: str) -> Panel:
        panel = self._plain[key]
        boxes = tuple(map(self._box, panel.boxes))
        home = {id: box.id for box in panel.boxes for id in _ids(box)}
        ends = ((home.get(tail), home.get(head)) for tail, head in self._merged.read)
        there = {(edge.tail, edge.head) for edge in panel.edges}
        extra = (
            Edge(tail, head, "before")
            for tail, head in dict.fromkeys(ends)
            if tail and head and tail != head and (tail, head) not in there
        )
        return replace(panel, boxes=boxes, edges=(*panel.edges, *extra))

    def __contains__(self, name: object) -> bool:
        return name in self._plain

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain)

    def _box(self, box: Box) -> Box:
        if box.kind in _PORTS:
            return box
        change = self._merged.changes.get(box.id)
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
