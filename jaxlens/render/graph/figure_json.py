"""Renders a figure as JSON for `graph/drawing.js`: panels with the positions from Graphviz.

Boxes and edges are arrays, not objects, because there are many: see `graph_data` for the columns.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from jaxlens.errors import GraphError
from jaxlens.render.graph.figure import Box, Figure, Panel, lone, open_paths
from jaxlens.render.graph.layout import Layout, layout
from jaxlens.render.graph.palette import FAMILIES
from jaxlens.render.graph.text_width import (
    HINT_CHARACTERS,
    box_detail,
    box_hint,
    box_label,
    clean,
    columns,
    shorten,
)

KINDS = tuple(FAMILIES)
_BUDGET = 80_000  # a third of it when packed
ANY = 1 << 30
_SHUT = -1
_LISTED = ("input", "output", "constant")  # kinds of boxes that open into a plain list
_STRUCTURE = ("call", "control")  # folds, calls, loops; a fusion has the kind of its contents
_REPEAT = "×"  # in the name of a panel of copies
_MISSES = 8  # panels that do not fit, after which no smaller one is tried
_BOX_BYTES = 60  # numbers and punctuation of a box, and of an edge
_EDGE_BYTES = 120
_NUMBERED = re.compile(r"e(0|[1-9]\d*)")


def graph_data(
    figure: Figure,
    *,
    budget: int = _BUDGET,
    most: int = 100,
    edges: int = ANY,
    hues: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Returns the data of an interactive drawing.

    Args:
        figure: The figure to render.
        budget: Approximate maximum size of the JSON in bytes. Panels are included breadth first:
            repeats (the first copy right after), other calls, loops and folds, then fusions,
            then boxes with the text of an earlier one, plain lists last. A box whose panel is
            left out opens only with a running kernel, and `locked` counts such boxes.
        most: Maximum number of panels; to make one and lay it out takes some 4 ms.
        edges: Maximum number of edges of a panel other than the first: many take long to lay out.
        hues: Index of the hue of each source line.

    Returns:
        - `kinds`: names of the families; a box has an index of this list.
        - `panels`: rows `[title, free, w, h, boxes, edges, heat]`, the first being the program;
          `free` is 1 where opening it opens its inner panels too.
          A box is `[id, label, detail, kind, inside, hint, line, x, y, w, h, columns of the
          label, columns of the detail]`; `inside` is an index of a panel or -1. Where it
          represents other nodes than its id, `[..., nodes]`: "e3" for one, "e12-e40" for a range
          of numbers. A fold that opens represents none itself: `[..., [], nodes inside it]`.
          The heat has a list for each of the figure's measures, by name: for each box its figure as
          text and its share, 0 to 1, of the largest in the first panel; 0 for none.
          An edge is `[tail, head, type, points]`, and `[..., label's columns, x, y, place on
          the curve, label]` where its label is shown; the label is left out where it is the
          type.
        - `open`: paths of the boxes that are open at first, "3.1" for box 1 of the panel of box 3.
        - `note`: what was folded.
        - `locked`: how many boxes do not open without a running kernel.
        - `stage`: the stage whose ids these are.
        - `hues`: index of the hue of each source line that has one.
        - `links`: `Box.link` of the first panel's boxes, by id; left out where none has one.
        - `after`: ids of equations after the gradients, as ranges; left out where there are none.
        - `shut`: boxes whose panel is left out, as `[panel, box, name of its panel]`; a running
          kernel serves them (`panel_data`).

    Raises:
        GraphError: The first panel could not be laid out.
    """
    rows, shut, left_out = _fitting(figure, budget, most, edges)
    lines = {box[6] for row in rows for box in row[4]}
    places = ".".join
    paths = sorted(open_paths(figure, figure.depth), key=lambda path: (len(path), path))
    noun = "box does" if left_out == 1 else "boxes do"
    locked = f"{left_out:,} {noun} not open in this output, to keep it small" if left_out else ""
    links = {clean(box.id): box.link for box in figure.panels[0].boxes if box.link}
    return {
        **({"links": links} if links else {}),
        **({"after": _runs(figure.after)} if figure.after else {}),
        "kinds": list(KINDS),
        "panels": rows,
        "open": [places(map(str, path)) for path in paths],
        "note": clean(figure.note),
        "locked": locked,
        "stage": figure.stage,
        "hues": {line: hues[line] for line in sorted(lines) if hues and line in hues},
        "shut": shut,
    }


def panel_data(figure: Figure, name: str) -> dict[str, Any]:
    """Returns the data of one panel that `graph_data` left out.

    Args:
        figure: The figure.
        name: The panel's name, from `shut` of the data.

    Returns:
        - `row`: as in `graph_data`, with no inner panels.
        - `shut`: its boxes that have an inner panel, as `[box, name of its panel]`.

    Raises:
        GraphError: There is no such panel, or it could not be laid out.
    """
    panels = figure.named
    if name not in panels:
        raise GraphError(f"no panel {name!r} in the drawing {figure.panels[0].title!r}")
    panel = panels[name]
    row = _row(figure, panel)
    for box, shown in zip(panel.boxes, row[4], strict=True):
        if box.nodes:
            shown.append(_runs(box.nodes))
    doors = [[n, box.inside] for n, box in enumerate(panel.boxes) if box.inside in panels]
    return {"row": row, "shut": doors}


def _fitting(
    figure: Figure, budget: int, most: int, edges: int
) -> tuple[list[list[Any]], list[list[Any]], int]:
    """Returns the rows of the panels that fit, their boxes that do not open, and how many do not.

    The inner panels of a panel that fits wait by rank: the first copy of a repeat (0), repeats,
    then calls, loops and folds, then fusions, then boxes that read like an earlier one of their
    panel, then plain lists (5). So of two equal calls in a panel, the second comes after all
    fusions.
    """
    panels = figure.named
    first = figure.panels[0].name
    index: dict[str, int] = {first: 0}
    panels_shown: list[Panel] = []
    rows: list[list[Any]] = []
    refused: set[str] = set()
    size = measured = 0  # of the JSON of the first rows, and their number
    waiting = [(0, 0, first)]  # rank, arrival and name
    while waiting:
        _, _, name = heappop(waiting)
        if len(refused) >= _MISSES or len(rows) >= most:  # full: the rest is not even drawn
            refused.add(name)
            continue
        panel = panels[name]
        for latest in rows[measured:]:  # a drawing of one panel is not measured
            size += len(json.dumps(latest, separators=(",", ":")))
        measured = len(rows)
        # Estimated before layout, which is the expensive part.
        fits = not rows or (len(panel.edges) <= edges and size + _estimate(panel) <= budget)
        try:
            row = _row(figure, panel) if fits else None
        except GraphError:
            if not rows:
                raise
            row = None  # too dense to be laid out within the time limit: its box does not open
        if row is None:
            refused.add(name)
            continue
        index[panel.name] = len(rows)
        rows.append(row)
        panels_shown.append(panel)
        texts: set[tuple[str, str]] = set()
        shows_copies = _REPEAT in name  # all copies look like the first
        for box in panel.boxes:
            if box.inside in panels and box.inside not in index and box.inside not in refused:
                rank = 5 if box.kind in _LISTED else 2 if box.kind in _STRUCTURE else 3
                if (box.label, box.detail) in texts:
                    rank = max(rank, 4)
                elif rank == 2 and (shows_copies or _REPEAT in box.inside):
                    rank, shows_copies = 0 if shows_copies else 1, False
                heappush(waiting, (rank, len(index), box.inside))
                index[box.inside] = _SHUT
                texts.add((box.label, box.detail))
    shut: list[list[Any]] = []
    for place, (panel, row) in enumerate(zip(panels_shown, rows, strict=True)):
        for n, (box, shown) in enumerate(zip(panel.boxes, row[4], strict=True)):
            shown[4] = index.get(box.inside, _SHUT) if box.inside not in refused else _SHUT
            if box.inside in refused:
                shut.append([place, n, box.inside])
            if box.nodes:
                fold = box.id == box.inside and shown[4] != _SHUT
                shown += [[], _runs(box.nodes)] if fold else [_runs(box.nodes)]
    return rows, shut, len(refused)


def _estimate(panel: Panel) -> int:
    """Returns the approximate size of the panel's row in bytes."""
    texts = sum(len(b.id) + len(b.label) + len(b.detail) + len(b.line) for b in panel.boxes)
    hints = sum(min(len(box.hint), HINT_CHARACTERS) for box in panel.boxes)
    types = sum(len(edge.label) for edge in panel.edges)
    return texts + hints + types + _BOX_BYTES * len(panel.boxes) + _EDGE_BYTES * len(panel.edges)


def _row(figure: Figure, panel: Panel) -> list[Any]:
    placed = layout(panel)
    boxes = [
        [
            clean(box.id),
            box_label(box),
            box_detail(box),
            KINDS.index(box.kind),
            _SHUT,
            _hint(box),
            clean(box.line),
            spot.x,
            spot.y,
            spot.w,
            spot.h,
            columns(box_label(box)),
            columns(box_detail(box)),
        ]
        for box, spot in zip(panel.boxes, placed.spots, strict=True)
    ]
    free = int(panel.through or lone(panel))
    size = placed.w, placed.h
    edges = list(_edges(panel, placed))
    return [shorten(panel.title, 60), free, *size, boxes, edges, _heat(figure, panel)]


def _heat(figure: Figure, panel: Panel) -> dict[str, list[Any]]:
    heat: dict[str, list[Any]] = {}
    for n, (name, write) in enumerate(figure.heat.measures):
        firsts, own = (
            [figure.heat.figures(box)[n] or 0 for box in shown.boxes]
            for shown in (figure.panels[0], panel)
        )
        if most := max(firsts, default=0):
            heat[name] = [[write(x), min(round(x / most, 3), 1)] if x else 0 for x in own]
    return heat


def _hint(box: Box) -> str:
    """Returns the tooltip, or "" where it only repeats the box's label and detail."""
    hint, label, detail = box_hint(box), box_label(box), box_detail(box)
    return "" if hint in (label, f"{label} {detail}", f"{label}: {detail}") else hint


def _runs(ids: Sequence[str]) -> list[str]:
    """Returns the ids with consecutive numbers as one range: ["e3", "e12-e40"].

    An id that is a range already is kept.
    """
    runs: list[str] = []
    start = last = -1
    for id in ids:
        number = int(match[1]) if (match := _NUMBERED.fullmatch(id)) else -1
        if runs and number >= 0 and number == last + 1:
            runs[-1] = f"e{start}-e{number}"
        else:
            start = number
            runs.append(clean(id))
        last = number if number >= 0 else -2
    return runs


def _edges(panel: Panel, placed: Layout) -> Iterator[list[Any]]:
    for edge, curve in zip(panel.edges, placed.curves, strict=True):
        kind = clean(edge.label[:HINT_CHARACTERS])
        row = [curve.tail, curve.head, kind, list(map(_short, curve.points))]
        if curve.label:
            row += [columns(curve.label), _short(curve.x), _short(curve.y), curve.at]
            row += [] if curve.label == kind else [curve.label]
        yield row


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else value
