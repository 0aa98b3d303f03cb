"""What goes into a panel and comes out of it, as boxes; many of one kind share one that opens.

A model has a hundred parameter arrays: beyond a dozen inputs, those under one root of the
pytree ("params") are one box, whose inside lists them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.render.figure import Box, BoxKind, Panel
from jaxlens.render.figure_body import PARAMETER, Body

_SINGLE = 12  # more inputs than these are grouped
_SINGLE_OUT = 6
_PAGE = 250  # boxes of one list
_ROOT = re.compile(r"^(?:[^\[.]+|\[[^\]]*\])")


@dataclass(frozen=True, slots=True)
class Port:
    """One value at the edge of a panel. `key` is unique among the panel's ports."""

    key: str
    label: str
    type: str
    kind: BoxKind
    root: str


@dataclass(frozen=True, slots=True)
class Ports:
    """The boxes of a panel's ports, the box of each port by key, and the lists that open."""

    boxes: tuple[Box, ...]
    box_of: Mapping[str, str]
    panels: tuple[Panel, ...]


def inputs_of(body: Body, panel: str, values: Iterable[str], whole: bool) -> Ports:
    """Boxes for what comes into a panel.

    Args:
        body: The region that the panel shows, or a part of it.
        panel: The panel's name.
        values: Values read in the panel and made outside it, in the order of reading.
        whole: Whether the panel is the region's own: then all parameters are shown, in order.
    """
    names = [value.name for value in body.region.parameters] if whole else list(values)
    return _boxes([_input(body, name) for name in names], f"{panel} in", _SINGLE)


def _input(body: Body, name: str) -> Port:
    if name in body.constants:
        return Port(name, name, body.types[name], "constant", "constants")
    shown = body.names.get(name, name)
    if body.maker[name] != PARAMETER:
        return Port(name, shown, body.types[name], "input", "values")
    found = _ROOT.match(shown) if name in body.names else None
    return Port(name, shown, body.types[name], "input", found[0] if found else "inputs")


def outputs_of(body: Body, panel: str, values: Sequence[str], whole: bool) -> Ports:
    """Boxes for what leaves a panel; keys are positions in `values`."""
    ports = []
    for n, value in enumerate(values):
        alone = "out" if len(values) == 1 else f"out {n}"
        label = (body.results[n] if whole and body.results else "") or (alone if whole else value)
        kind = body.types.get(value, "")
        ports.append(Port(str(n), label, kind, "output", "outputs"))
    return _boxes(ports, f"{panel} out", _SINGLE_OUT)


def _boxes(ports: Sequence[Port], prefix: str, single: int) -> Ports:
    if len(ports) <= single:
        boxes = tuple(_single(port, prefix) for port in ports)
        return Ports(boxes, {p.key: b.id for p, b in zip(ports, boxes, strict=True)}, ())
    groups: dict[str, list[Port]] = {}
    for port in ports:
        groups.setdefault(port.root, []).append(port)
    if len(groups) > single:
        groups = {"inputs": list(ports)}
    shown: list[Box] = []
    box_of: dict[str, str] = {}
    panels: list[Panel] = []
    for root, members in groups.items():
        box = _single(members[0], prefix) if len(members) == 1 else None
        if box is None:
            name = f"{prefix} {root}"
            box = Box(name, root, f"{len(members):,} arrays", members[0].kind, name)
            panels += _list(name, root, members, prefix)
        shown.append(box)
        box_of.update({port.key: box.id for port in members})
    return Ports(tuple(shown), box_of, tuple(panels))


def _single(port: Port, prefix: str, detail: str = "") -> Box:
    hint = f"{port.label}: {port.type}" if port.type else port.label
    return Box(f"{prefix} {port.key}", port.label, detail, port.kind, hint=hint)


def _list(name: str, title: str, members: Sequence[Port], prefix: str) -> list[Panel]:
    """A panel with a box for each; beyond a page, a panel of pages."""
    if len(members) <= _PAGE:
        boxes = tuple(_single(port, f"{prefix} each", port.type) for port in members)
        return [Panel(name, title, boxes, ())]
    size = _PAGE
    while len(members) > size * _PAGE:
        size *= _PAGE
    doors, panels = [], []
    for start in range(0, len(members), size):
        part = members[start : start + size]
        inner = f"{name} {start}"
        words = f"{part[0].label} … {part[-1].label}"
        doors.append(Box(inner, words, f"{len(part):,} arrays", part[0].kind, inner))
        panels += _list(inner, title, part, prefix)
    return [Panel(name, title, tuple(doors), ()), *panels]
