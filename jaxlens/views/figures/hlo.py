"""Draws an HLO module: the entry computation as a DAG whose fusions and loops open in place.

The figure is made as for a jaxpr (`figures/jaxpr.py`): long computations fold into runs of one
scope and call path, and a panel is made on first access. This module gives the boxes labels of
HLO; `hlo_dataflow.py` removes instructions that only pack and unpack values.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo.instructions import input_names
from jaxlens.ir.lazy import LazyMapping
from jaxlens.render.document import GraphPane
from jaxlens.render.graph.figure import Box, Figure, Heat, Panel, Panels
from jaxlens.views.figures import hlo_labels
from jaxlens.views.figures import jaxpr as jaxpr_figure
from jaxlens.views.figures.hlo_dataflow import Plumbing

MOST = 60


def figure(
    module: Module,
    *,
    depth: int = jaxpr_figure.AUTO,
    max_boxes: int = MOST,
    outputs: Sequence[str] = (),
    program_inputs: Sequence[Input] = (),
) -> Figure:
    """Returns the figure of an HLO module.

    Args:
        module: An HLO module at any stage.
        depth: Number of levels that are open at first; 0 for as many as fit.
        max_boxes: A computation with more instructions than this is folded.
        outputs: Names of the program's results.
        program_inputs: The program's inputs, where they are known.

    Returns:
        Every panel that can be opened, the entry first.
    """
    plumbing, body = Plumbing(module, max_boxes), module.body()
    names = input_names(module, program_inputs)
    inputs = [names.get(value.name, value.name) for value in body.parameters]
    plain = jaxpr_figure.figure(
        plumbing.program(module.entry), max_boxes=max_boxes, inputs=inputs, outputs=outputs
    )
    panels = Panels(_WordedPanels(plain.named, plumbing, max_boxes))
    drawing = Figure(panels, max(1, depth), plain.note, module.stage)
    if depth != jaxpr_figure.AUTO:
        return drawing
    return replace(drawing, depth=jaxpr_figure.fitting_depth(drawing))


def pane(subject: Capture, stage: str = "optimized", heat: Callable[[], Heat] = Heat) -> GraphPane:
    """Returns the graph of a stage of HLO, made on first use: the text form has no graph.

    Args:
        subject: The program.
        stage: The stage.
        heat: Returns what boxes can be shaded by.

    Raises:
        UnavailableError: This backend does not give the stage.
    """
    module = subject.stage(stage).module
    when = "as it runs" if stage == "optimized" else "before optimisation"

    def draw() -> Figure:
        outputs = [leaf.name for leaf in subject.outputs]
        drawn = figure(module, outputs=outputs, program_inputs=subject.program.inputs)
        return replace(drawn, heat=heat())

    return jaxpr_figure.pane(f"{subject.program.name} {when}", draw)


class _WordedPanels(LazyMapping[Panel]):
    """A program's panels with labels of HLO; those of a fusion are made on first access."""

    def __init__(self, plain: Mapping[str, Panel], plumbing: Plumbing, max_boxes: int) -> None:
        super().__init__()
        self._main, self._plumbing, self._most = plain, plumbing, max_boxes
        self._fused = frozenset(plumbing.fused)
        self._other: dict[str, Mapping[str, Panel]] = {}  # panels that are not the entry's

    def _value(self, key: str) -> Panel:
        plain = self._plain(key)
        panel = plain[key]
        boxes = tuple(self._box(panel, box) for box in panel.boxes)
        if plain is not self._main:
            inner = (box.inside for box in panel.boxes if box.inside in plain)
            self._other.update((door, plain) for door in inner if door not in self._main)
        return replace(panel, boxes=boxes)

    def _plain(self, name: str) -> Mapping[str, Panel]:
        """Returns the figure's panels that include the one of this name."""
        if name in self._fused and name not in self._other:
            program = self._plumbing.program(name)
            self._other[name] = jaxpr_figure.figure(program, max_boxes=self._most).named
        return self._other.get(name, self._main)

    def __contains__(self, name: object) -> bool:
        return name in self._main or name in self._fused or name in self._other

    def __iter__(self) -> Iterator[str]:
        """Yields the entry's panels, then each fusion's, each panel before those inside it."""
        yield from self._main
        for fused in self._plumbing.fused:
            waiting = [fused]
            while waiting:
                name = waiting.pop()
                yield name
                inner = (box.inside for box in reversed(self[name].boxes))
                waiting += [d for d in inner if d in self._other and d not in self._fused]

    def _box(self, panel: Panel, old: Box) -> Box:
        plumbing, id = self._plumbing, old.id
        if id not in plumbing.shown:
            return self._port(panel, old)
        node = plumbing.whole[id]
        opens = node.opcode == "fusion" and node.regions[:1] and node.regions[0] in self._fused
        if opens and id not in plumbing.inner:
            old = replace(old, inside=node.regions[0])
        return hlo_labels.box(
            old,
            node,
            plumbing.shown[id],
            plumbing.inner.get(id),
            plumbing.module,
            plumbing.owners.get(id),
            tuple(dict.fromkeys(plumbing.aside.get(id, ()))),
        )

    def _port(self, panel: Panel, old: Box) -> Box:
        """Returns the box of an input with its parameter and that value's get-tuple-elements."""
        if old.inside and old.kind == "call":  # a folded run
            return old
        start = f"{panel.name} in "
        if old.kind != "input" or old.inside or not old.id.startswith(start):
            return old
        value = old.id.removeprefix(start)
        name = value.partition("[")[0]
        node = self._plumbing.whole.get(name)
        if node is None or node.opcode != "parameter":
            return old
        return replace(old, nodes=(name, *self._plumbing.aside.get(value, ())))
