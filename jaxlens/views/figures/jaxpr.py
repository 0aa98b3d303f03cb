"""Builds the figure of a module: the jaxpr as a DAG whose nested jaxprs open in place.

Each region is one panel, however often it is called; a region too long for one panel is
folded into runs (`fold.py`), each a panel too. A panel is made on first access. Designed for
jaxprs, but accepts any module. The time is linear in the program's size.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.lazy import LazyMapping, lazy
from jaxlens.program.counted import EquationSums
from jaxlens.render.document import GraphPane
from jaxlens.render.graph.figure import Box, Edge, Figure, Heat, Panel, Panels, Path, open_paths
from jaxlens.report import amount, count
from jaxlens.views.figures.body import DrawnRegion, bodies_of, plain
from jaxlens.views.figures.box_kinds import alike, detail, family, hint, label
from jaxlens.views.figures.folded import fold_box, fold_name, fold_title
from jaxlens.views.figures.ports import Ports, inputs_of, outputs_of
from jaxlens.views.figures.runs import StepRange
from jaxlens.views.listings.equation import equation

AUTO = 0
_COMFORTABLE = 30
_FIRST = 30  # boxes of a folded program's first panel, including inputs and results
_ROOM = 14  # of those, maximum number of boxes of equations
_DEEPEST = 6
flop = partial(amount, unit="flop")


def figure(
    module: Module,
    *,
    depth: int = 1,
    max_boxes: int = 60,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    called: Callable[[str], Mapping[int, str]] = lambda _: {},
    costs: EquationSums | None = None,
) -> Figure:
    """Returns the figure of a module.

    Args:
        module: The module.
        depth: Number of levels that are open at first; `AUTO` (0) opens as many as fit into 30
            boxes.
        max_boxes: A body with more equations than this is folded; its own panel then has at
            most about half as many boxes.
        inputs: Names of the entry's inputs, without captured constants ("params['w']").
        outputs: Names of the entry's results.
        called: Returns what the user's code calls the values of a region, by number.
        costs: Estimates the flops of folded runs; None for none.

    Returns:
        Every panel that can be opened, the whole program first.
    """
    bodies = bodies_of(module, max(8, max_boxes), inputs, outputs, called, costs)
    panels = Panels(_DrawnPanels(bodies))
    body = bodies[module.entry]
    shown = sum(box.kind not in ("input", "output", "constant") for box in panels[0].boxes)
    folded = f"{len(body):,} {body.nouns[1]} folded into {shown} boxes"
    after = tuple(b.columns.ids[n] for b in bodies.values() for n in sorted(b.after))
    heat = Heat([("flops", flop)], lambda box: (box.flops,)) if costs else Heat()
    drawing = Figure(panels, max(1, depth), folded if body.folded else "", after=after, heat=heat)
    return drawing if depth != AUTO else replace(drawing, depth=fitting_depth(drawing))


def pane(name: str, draw: Callable[[], Figure]) -> GraphPane:
    """Returns the graph of a program, made on first use: the text form has no graph."""

    def describe(pane: GraphPane) -> str:
        boxes = count(len(pane.figure.panels[0].boxes), "box", "boxes")
        return f"Graph of {name}: {boxes} at the top level."

    return lazy(GraphPane, {"figure": lambda _: draw(), "alt": describe})


def fitting_depth(figure: Figure) -> int:
    """Returns the greatest depth at which the picture is not too large, at least 1."""
    panels = figure.named
    top = figure.panels[0].boxes
    if len(top) + sum(box.inside in panels for box in top) > _COMFORTABLE:
        return 1  # an open box adds at least one more
    for depth in range(2, _DEEPEST + 1):
        frames: dict[Path, Panel] = {(): figure.panels[0]}
        for path in sorted(open_paths(figure, depth), key=len):
            frames[path] = panels[frames[path[:-1]].boxes[path[-1]].inside]
        if sum(len(panel.boxes) for panel in frames.values()) > _COMFORTABLE:
            return depth - 1
    return _DEEPEST


class _DrawnPanels(LazyMapping[Panel]):
    """The panels of a program's regions, of their folds, and of the lists inside them, by name.

    The inner panels of a panel are known once that one is made.
    """

    def __init__(self, bodies: Mapping[str, DrawnRegion]) -> None:
        super().__init__()
        self._bodies = bodies
        self._lists: dict[str, Callable[[], Panel]] = {}
        self._folds: dict[str, tuple[DrawnRegion, StepRange]] = {}

    def _value(self, key: str) -> Panel:
        lists = self._lists.pop(key, None)
        return lists() if lists is not None else self._draw(key)

    def __contains__(self, name: object) -> bool:
        return any(name in m for m in (self._kept, self._lists, self._folds, self._bodies))

    def __iter__(self) -> Iterator[str]:
        """Yields the names region by region, each panel before those inside it."""
        for region in self._bodies:
            waiting = [region]
            while waiting:
                name = waiting.pop()
                yield name
                inner = (box.inside for box in reversed(self[name].boxes))
                waiting += [door for door in inner if door and door not in self._bodies]

    def _draw(self, name: str) -> Panel:
        """Returns a panel; records its lists of inputs and outputs, its folds and inner bodies."""
        sides = None
        if name in self._bodies:
            body = self._bodies[name]
            run, title, results = StepRange(0, len(body)), body.title, body.columns.results
            sides = inputs_of(body, name, (), True), outputs_of(body, name, results, True)
            ports = sum(len(side.boxes) for side in sides)
            parts = body.top(max(_ROOM // 2, min(_ROOM, _FIRST - ports)))
        else:
            body, run = self._folds[name]
            parts = body.folding.children(run, body.shown, _ROOM)
            title = fold_title(body, run)
        panel, lists = _panel(body, name, title, run, parts, sides)
        self._lists |= lists
        for part in parts:
            if len(part) > 1:
                self._folds[fold_name(body, part)] = body, part
            elif len(body.columns.calls.get(part.low, ())) > 1:
                node = body.node(part.low)
                self._kept[_bodies_name(node)] = _bodies_panel(node)
        return panel


def _panel(
    body: DrawnRegion,
    name: str,
    title: str,
    run: StepRange,
    parts: Sequence[StepRange],
    sides: tuple[Ports, Ports] | None,
) -> tuple[Panel, Mapping[str, Callable[[], Panel]]]:
    """Returns the panel of a run, and the lists that open in it."""
    boxes = [_box(body, part, run) for part in parts]
    flow, outside = _flow(body, run, parts)
    leaving = list(body.columns.results) if sides else _leaving(body, run)
    ins, outs = sides or (
        inputs_of(body, name, outside, False),
        outputs_of(body, name, leaving, False),
    )

    starts = [body.columns.first_result[part.low] for part in parts]
    types = body.columns.types
    carried: dict[tuple[str, str], list[int]] = {}
    ways = [(value, boxes[reader].id) for value, reader in flow]
    ways += [(value, outs.box_of[n]) for n, value in enumerate(leaving) if value >= 0]
    for value, head in ways:
        tail = ins.box_of.get(value) or boxes[bisect_right(starts, value) - 1].id
        carried.setdefault((tail, head), []).append(types[value])
    edges = tuple(
        Edge(tail, head, alike([body.printed[n] for n in values]))
        for (tail, head), values in carried.items()
    )
    shown = (*_with_unused(ins.boxes, edges), *boxes, *outs.boxes)
    return Panel(name, title, shown, edges), {**ins.panels, **outs.panels}


def _flow(
    body: DrawnRegion, run: StepRange, parts: Sequence[StepRange]
) -> tuple[list[tuple[int, int]], list[int]]:
    """Returns pairs of a value and a part that reads it, and the values from outside the run."""
    pairs: list[tuple[int, int]] = []
    outside: dict[int, None] = {}
    first_result, read = body.columns.first_result, body.columns.first_operand
    start = first_result[run.low]
    for n, part in enumerate(parts):
        own = first_result[part.low]  # values of the part, and literals, have numbers from here on
        values = dict.fromkeys(body.reads[read[part.low] : read[part.high]])
        pairs += [(value, n) for value in values if value < own]
        outside.update(dict.fromkeys(value for value in values if value < start))
    return pairs, list(outside)


def _leaving(body: DrawnRegion, run: StepRange) -> list[int]:
    """Returns the values made in the run and read after it."""
    first = body.columns.first_result
    return [v for v in range(first[run.low], first[run.high]) if body.last.get(v, -1) >= run.high]


def _with_unused(boxes: Sequence[Box], edges: Sequence[Edge]) -> tuple[Box, ...]:
    """Returns the input boxes; those without an edge have their type in the second line."""
    tails = {edge.tail for edge in edges}
    return tuple(
        box
        if box.id in tails or box.inside
        else replace(box, detail=f"{box.hint.rpartition(': ')[2]}, unused")
        for box in boxes
    )


def _box(body: DrawnRegion, part: StepRange, run: StepRange) -> Box:
    """Returns the box of a step, or of a run that opens."""
    if len(part) > 1:
        return fold_box(body, part, run)
    node, variables = body.node(part.low), body.variables(part.low)
    inside = ""
    if node.regions:
        inside = node.regions[0] if len(node.regions) == 1 else _bodies_name(node)
    owner = str(node.owner or "")
    names = [body.names.get(value, "") for value in body.columns.values(part.low)]
    own = f"{', '.join(names)} = " if all(names) and names else ""
    return Box(
        node.id,
        own + label(node, variables),
        detail(node, variables),
        family(node, variables),
        inside,
        hint(equation(node, owner)) + ("; after the gradients" if part.low in body.after else ""),
        owner,
        flops=body.flops(part),
    )


def _bodies_name(node: Node) -> str:
    return f"bodies of {node.id}"


def _bodies_panel(node: Node) -> Panel:
    """Returns the panel of one equation's bodies: branches, or a loop's condition and body."""
    boxes = []
    for region in node.regions:
        role = plain(region).removeprefix(f"{node.opcode} ")  # `body` for "while body"
        boxes.append(Box(f"{node.id} {region}", role, "", "control", region))
    return Panel(_bodies_name(node), node.opcode, tuple(boxes), (), through=True)
