"""Draws a module as boxes and edges: the jaxpr as a DAG whose nested bodies open in place.

Each region is one panel, however often it is called; a region too long for one panel is
folded into runs (`figure_fold.py`), each a panel too. A panel is drawn when it is asked for.
Made for jaxprs; any module will do. The work is linear in the program's size.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxlens.ir.graph import Module, Node, Span
from jaxlens.render.figure import Box, Edge, Figure, Panel, Panels
from jaxlens.render.figure_body import Body, bodies_of, plain
from jaxlens.render.figure_family import alike, detail, family, hint, label
from jaxlens.render.figure_fold import Run
from jaxlens.render.figure_ports import inputs_of, outputs_of
from jaxlens.render.stretch import Path, open_paths

AUTO = 0
_COMFORTABLE = 40
_DEEPEST = 6


def figure(
    module: Module,
    *,
    depth: int = 1,
    max_boxes: int = 60,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
) -> Figure:
    """The program as panels of boxes.

    Args:
        module: What to draw.
        depth: How many levels stand open in the static picture; `AUTO` (0) opens as many as
            make a picture of at most 40 boxes.
        max_boxes: A body with more equations than this is folded; its own panel then has at
            most about half as many boxes.
        inputs: Names of the entry's inputs, captured constants not counted ("params['w']").
        outputs: Names of the entry's results.

    Returns:
        Every panel that can be opened, the whole program first.
    """
    bodies = bodies_of(module, max(8, max_boxes), inputs, outputs)
    panels = ProgramPanels(bodies)
    note = _note(bodies[module.entry], panels[0])
    drawn = Figure(panels, max(1, depth), note)
    return drawn if depth != AUTO else Figure(panels, fitting_depth(drawn), note)


def fitting_depth(figure: Figure, boxes: int = _COMFORTABLE) -> int:
    """The greatest depth at which the picture has at most that many boxes, at least 1."""
    panels = figure.named
    for depth in range(2, _DEEPEST + 1):
        frames: dict[Path, Panel] = {(): figure.panels[0]}
        for path in sorted(open_paths(figure, depth), key=len):
            frames[path] = panels[frames[path[:-1]].boxes[path[-1]].inside]
        if sum(len(panel.boxes) for panel in frames.values()) > boxes:
            return depth - 1
    return _DEEPEST


def _note(body: Body, top: Panel) -> str:
    if not body.folded:
        return ""
    shown = sum(box.kind not in ("input", "output", "constant") for box in top.boxes)
    return f"{len(body.nodes):,} equations folded into {shown} boxes; every box opens"


class ProgramPanels(Panels):
    """The panels of a program's regions, of their folds, and of the lists that open in them."""

    def __init__(self, bodies: Mapping[str, Body]) -> None:
        self.named = _Drawn(bodies)
        self._first = next(iter(bodies))
        self._all: tuple[Panel, ...] | None = None

    def __getitem__(self, index: Any) -> Any:
        if index == 0:
            return self.named[self._first]
        if self._all is None:
            self._all = tuple(self.named[name] for name in self.named)
        return self._all[index]

    def __iter__(self) -> Iterator[Panel]:
        return map(self.named.__getitem__, self.named)

    def __len__(self) -> int:
        return len(self.named)


class _Drawn(Mapping[str, Panel]):
    """Panels by name. The panels inside another one are known once that one is drawn."""

    def __init__(self, bodies: Mapping[str, Body]) -> None:
        self._bodies = bodies
        self._drawn: dict[str, Panel] = {}
        self._folds: dict[str, tuple[Body, Run]] = {}

    def __getitem__(self, name: str) -> Panel:
        if name not in self._drawn:
            self._draw(name)
        return self._drawn[name]

    def __contains__(self, name: object) -> bool:
        return name in self._drawn or name in self._folds or name in self._bodies

    def __iter__(self) -> Iterator[str]:
        """Region by region, each panel before those inside it."""
        for region in self._bodies:
            waiting = [region]
            while waiting:
                name = waiting.pop()
                yield name
                inner = (box.inside for box in reversed(self[name].boxes))
                waiting += [door for door in inner if door and door not in self._bodies]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _draw(self, name: str) -> None:
        """The panel, the lists of its inputs and outputs, and doors to what is folded."""
        if name in self._bodies:
            body = self._bodies[name]
            title, run, parts = body.title, Run(0, len(body.nodes)), body.top()
        else:
            body, run = self._folds[name]
            title, parts = _fold_title(body, run), body.folding.children(run, body.most)
        self._drawn.update((panel.name, panel) for panel in _panel(body, name, title, run, parts))
        for part in parts:
            node = body.nodes[part.low]
            if part.high - part.low > 1:
                self._folds[_fold_name(body, part)] = body, part
            elif len(node.regions) > 1:
                self._drawn[_bodies_name(node)] = _bodies_panel(node)


def _panel(
    body: Body, name: str, title: str, run: Run, parts: Sequence[Run]
) -> Iterator[Panel]:  # fmt: skip
    whole = name == body.region.name
    boxes = [_box(body, part, run) for part in parts]
    flow, outside = _flow(body, run, parts)
    ins = inputs_of(body, name, outside, whole)
    leaving = list(body.region.results) if whole else _leaving(body, run)
    outs = outputs_of(body, name, leaving, whole)

    def origin(value: str) -> str:
        """The box that a value comes from: "" for a literal."""
        if value in ins.box_of:
            return ins.box_of[value]
        if value not in body.maker:
            return ""
        return boxes[_part_of(body.maker[value], parts)].id

    carried: dict[tuple[str, str], dict[str, str]] = {}
    for value, reader in flow:
        ends = origin(value), boxes[reader].id
        carried.setdefault(ends, {})[value] = body.types[value]
    for n, value in enumerate(leaving):
        if tail := origin(value):
            ends = tail, outs.box_of[str(n)]
            carried.setdefault(ends, {})[f"{n} {value}"] = body.types[value]
    edges = tuple(
        Edge(tail, head, alike(list(values.values()))) for (tail, head), values in carried.items()
    )
    yield Panel(name, title, (*_told(ins.boxes, edges), *boxes, *outs.boxes), edges)
    yield from ins.panels
    yield from outs.panels


def _flow(
    body: Body, run: Run, parts: Sequence[Run]
) -> tuple[list[tuple[str, int]], list[str]]:  # fmt: skip
    """Values and the parts that read them, each pair once, and the values from outside."""
    pairs: dict[tuple[str, int], None] = {}
    outside: dict[str, None] = {}
    for n, part in enumerate(parts):
        for step in range(part.low, part.high):
            for value in body.nodes[step].operands:
                maker = body.maker.get(value)
                if maker is None or part.low <= maker:
                    continue  # a literal, or made within the same part
                pairs[value, n] = None
                if maker < run.low:
                    outside[value] = None
    return list(pairs), list(outside)


def _part_of(step: int, parts: Sequence[Run]) -> int:
    return bisect_right(parts, step, key=lambda part: part.low) - 1


def _leaving(body: Body, run: Run) -> list[str]:
    """Values made in the run and read behind it."""
    return [
        value.name
        for node in body.nodes[run.low : run.high]
        for value in node.results
        if body.last.get(value.name, PAST) >= run.high
    ]


PAST = -1  # "last read by step -1": never


def _told(boxes: Sequence[Box], edges: Sequence[Edge]) -> tuple[Box, ...]:
    """Inputs that no edge leaves say their type themselves."""
    tails = {edge.tail for edge in edges}
    return tuple(
        box if box.id in tails or box.inside else _with_detail(box, box.hint.rpartition(": ")[2])
        for box in boxes
    )


def _with_detail(box: Box, words: str) -> Box:
    return Box(box.id, box.label, f"{words}, unused", box.kind, box.inside, box.hint, box.line)


def _box(body: Body, part: Run, run: Run) -> Box:
    """A step's own box, or the box of a run that opens."""
    if part.high - part.low > 1:
        return _fold_box(body, part, run)
    node = body.nodes[part.low]
    inside = ""
    if node.regions:
        inside = node.regions[0] if len(node.regions) == 1 else _bodies_name(node)
    owner = node.owner
    return Box(
        node.id,
        label(node, body.maker),
        detail(node, body.maker),
        family(node, body.maker),
        inside,
        hint(node),
        str(owner) if owner else "",
    )


def _fold_box(body: Body, part: Run, run: Run) -> Box:
    steps = part.high - part.low
    title = _fold_title(body, part)
    transform = str(body.folding.steps[part.low].path[0])
    outer = run.level > 0 or body.folding.common(run) > 0
    words = [] if outer or not transform or title == transform else [transform]
    if part.copies > 1:
        each = steps // part.copies
        words.append(f"× {part.copies:,}")
        if each > 1:
            words.append(f"{each:,} eqns each")
    else:
        words.append(f"{steps:,} eqns")
    first, last = body.nodes[part.low], body.nodes[part.high - 1]
    text = f"{title}: equations {first.id} to {last.id}, {', '.join(words)}"
    owner = first.owner
    return Box(
        _fold_name(body, part), title, " · ".join(words), "call", _fold_name(body, part),
        f"{text}  (from {owner})" if owner else text,
    )  # fmt: skip


def _fold_name(body: Body, part: Run) -> str:
    times = f"×{part.copies}" if part.copies > 1 else ""
    return f"{body.nodes[part.low].id}..{body.nodes[part.high - 1].id}{times}"


def _fold_title(body: Body, part: Run) -> str:
    """The function that all the run's steps are in; else the line, scope or transform."""
    steps = body.folding.steps
    level = body.folding.common(part)
    deeper = {
        place.function if isinstance(place, Span) else place
        for step in steps[part.low : part.high]
        for place in (step.path[level] if len(step.path) > level else "",)
    }
    if len(deeper) == 1 and (name := deeper.pop()) and level:
        return name.rpartition(".")[2]
    path = steps[part.low].path
    for place in reversed(path[:level]):
        if isinstance(place, Span):
            if place.function:
                return f"{place.function.rpartition('.')[2]}:{place.line}"
            return str(place)
        if place:
            return place
    return f"{body.nodes[part.low].opcode} …" if part.copies == 1 else body.nodes[part.low].opcode


def _bodies_name(node: Node) -> str:
    return f"bodies of {node.id}"


def _bodies_panel(node: Node) -> Panel:
    """The bodies of one equation side by side: branches, or a loop's condition and body."""
    boxes = tuple(
        Box(f"{node.id} {region}", _short(node, region), "", "control", region)
        for region in node.regions
    )
    return Panel(_bodies_name(node), node.opcode, boxes, (), through=True)


def _short(node: Node, region: str) -> str:
    """`body` for "while body"."""
    return plain(region).removeprefix(f"{node.opcode} ")
