"""Builds the boxes of a panel's inputs and outputs; many of one root share a box that opens.

A model has a hundred parameter arrays: with more than a dozen inputs, those of one root of the
pytree ("params") share one box, whose inner panel lists them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jaxlens.render.graph.figure import Box, BoxKind, Panel
from jaxlens.views.figures.body import DrawnRegion

_SINGLE = 12  # more inputs than these are grouped
_SINGLE_OUT = 6
_PAGE = 400  # boxes of one list
_ROOT = re.compile(r"^(?:[^\[.]+|\[[^\]]*\])")


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a panel.

    Attributes:
        name: Unique among the panel's ports.
        label: What its box says.
        type: Its type.
        kind: Its family.
        letter: What JAX calls it, where the label is another name.
    """

    name: str
    label: str
    type: str
    kind: BoxKind
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Ports:
    """The boxes of a panel's ports, the box of each port by key, and the lists that open.

    Lists are made on demand: a train step has hundreds of arrays.
    """

    boxes: tuple[Box, ...]
    box_of: Mapping[int, str]
    panels: Mapping[str, Callable[[], Panel]]


@dataclass(frozen=True, slots=True)
class _Side:
    """The inputs or the outputs of a panel.

    Attributes:
        prefix: Prefix of the ids of its boxes.
        keys: A number per port, in order.
        port: Returns the port of a key.
        single: Maximum number of ports that are not grouped.
    """

    prefix: str
    keys: Sequence[int]
    port: Callable[[int], Port]
    single: int


def inputs_of(body: DrawnRegion, panel: str, values: Iterable[int], whole: bool) -> Ports:
    """Returns the boxes of a panel's inputs.

    Args:
        body: The region that the panel shows, or a part of it.
        panel: The panel's name.
        values: Values read in the panel and made outside it, in the order of reading.
        whole: Whether the panel is the region's own: then all parameters are shown, in order.
    """

    def port(value: int) -> Port:
        name = body.name(value)
        kind: BoxKind = "constant" if value in body.constants else "input"
        label = body.names.get(value, name)
        return Port(name, label, body.type(value), kind, name if label != name else "")

    def root(value: int) -> str:
        """Returns the group of an input: inputs of one group may share a box."""
        if value in body.constants:
            return "constants"
        if value >= body.columns.parameters:
            return "values"
        match = _ROOT.match(body.names.get(value, ""))
        return match[0] if match else "inputs"

    numbers = range(body.columns.parameters) if whole else list(values)
    return _boxes(_Side(f"{panel} in", numbers, port, _SINGLE), root)


def outputs_of(body: DrawnRegion, panel: str, values: Sequence[int], whole: bool) -> Ports:
    """Returns the boxes of a panel's outputs; keys are positions in `values`."""

    def port(n: int) -> Port:
        value = values[n]
        label = (body.results[n] if whole and body.results else "") or (
            ("out" if len(values) == 1 else f"out {n}") if whole else body.name(value)
        )
        return Port(str(n), label, "" if value < 0 else body.type(value), "output")

    side = _Side(f"{panel} out", range(len(values)), port, _SINGLE_OUT)
    return _boxes(side, lambda value: "outputs")


def _boxes(side: _Side, root: Callable[[int], str]) -> Ports:
    if len(side.keys) <= side.single:
        boxes = tuple(_single(side.port(key), side.prefix) for key in side.keys)
        return Ports(boxes, {k: b.id for k, b in zip(side.keys, boxes, strict=True)}, {})
    groups: dict[str, list[int]] = {}
    for key in side.keys:
        groups.setdefault(root(key), []).append(key)
    if len(groups) > side.single:
        groups = {"inputs": list(side.keys)}
    shown: list[Box] = []
    box_of: dict[int, str] = {}
    panels: dict[str, Callable[[], Panel]] = {}
    for title, members in groups.items():
        if len(members) == 1:
            box = _single(side.port(members[0]), side.prefix)
        else:
            name = f"{side.prefix} {title}"
            kind = side.port(members[0]).kind
            box = Box(name, title, f"{len(members):,} arrays", kind, name)
            panels[name] = partial(_list, side, name, title, members)
        shown.append(box)
        box_of.update(dict.fromkeys(members, box.id))
    return Ports(tuple(shown), box_of, panels)


def _single(port: Port, prefix: str, detail: str = "") -> Box:
    hint = f"{port.letter} = {port.label}" if port.letter else port.label
    hint += f": {port.type}" if port.type else ""
    return Box(f"{prefix} {port.name}", port.label, detail, port.kind, hint=hint)


def _list(side: _Side, name: str, title: str, members: Sequence[int]) -> Panel:
    """Returns a panel with a box for each member; of many, the last box counts the others."""
    prefix = f"{side.prefix} each"
    boxes = [_single(port, prefix, port.type) for port in map(side.port, members[:_PAGE])]
    if (left := len(members) - _PAGE) > 0:
        boxes.append(Box(f"{prefix} more", f"{left:,} more", "", boxes[-1].kind))
    return Panel(name, title, tuple(boxes), ())
