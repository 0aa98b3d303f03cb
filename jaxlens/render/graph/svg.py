"""Renders a figure as SVG, the same on every machine.

- Each text of the program is one escaped text node or attribute value, so none acts as markup.
- An `<img>` inherits no theme, so a drawing has a light background of its own.
- Families differ in outline and border as well as in colour.

`graph/paint.js` draws the same shapes in the interactive drawing.
"""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Literal

from jaxlens.render.graph.figure import Figure, open_paths
from jaxlens.render.graph.layout import layout
from jaxlens.render.graph.scene import HEADER, Drawn, Scene, scene
from jaxlens.render.graph.stretch import Wire
from jaxlens.render.graph.style import kind_class, style
from jaxlens.render.graph.text_width import (
    ADVANCE,
    DETAIL_SIZE,
    EDGE_SIZE,
    LABEL_SIZE,
    box_detail,
    box_hint,
    box_label,
    clean,
    columns,
    is_small,
)

Form = Literal["card", "image"]


def svg(figure: Figure, *, form: Form = "card", title: str = "") -> str:
    """Returns the figure as a standalone SVG document.

    Args:
        figure: The figure to render.
        form: "card" for a file or a paper; "image" for an `<img>`, which has no pointer events:
            the same picture without ids and tooltips.
        title: Accessible name, for screen readers; "" for the first panel's title.

    Returns:
        The text of the document, without an XML declaration.

    Raises:
        GraphError: The graph could not be laid out.
    """
    shown = scene(figure, open_paths(figure, figure.depth), layout)
    # An `<img>` has only the rules that it uses.
    kinds = frozenset(kind_class(placed.box.kind) for placed in shown.boxes)
    rules = style("alone", kinds) if form == "image" else style(form)
    name = _quoted(clean(title or figure.panels[0].title))
    w, h = _n(shown.w), _n(shown.h)
    return "".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="jaxlens-figure"',
            f' width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label={name}>',
            f"<style>{rules}</style>",
            f'<rect class="card" width="{w}" height="{h}" rx="8"/>',
            *_panels(shown, form == "image"),
            "</svg>",
        ]
    )


def _panels(shown: Scene, bare: bool) -> Iterator[str]:
    """Yields the SVG of each panel, outer first: open boxes' backgrounds, edges, closed boxes."""
    box_at = wire_at = 0
    for boxes, wires in shown.order:
        own = shown.boxes[box_at : box_at + boxes]
        lines = shown.wires[wire_at : wire_at + wires]
        yield from (_box(box, bare) for box in own if box.open)
        if bare and lines:  # all edges as one path, and all arrowheads as another
            yield _edge("", "".join(_curve(wire.points, None) for wire in lines), lines)
        for wire in () if bare else lines:
            hint = f"<title>{_escaped(clean(wire.edge.label))}</title>" if wire.edge.label else ""
            yield _edge(hint, _curve(wire.points), [wire])
        for wire in lines:
            if wire.label:
                length = _n(columns(wire.label) * EDGE_SIZE * ADVANCE)
                yield (
                    f'<text class="edge-label" x="{_n(wire.x)}" y="{_n(wire.y + 3.5)}" '
                    f'textLength="{length}">{_escaped(wire.label)}</text>'
                )
        yield from (_box(box, bare) for box in own if not box.open)
        box_at, wire_at = box_at + boxes, wire_at + wires


def _box(placed: Drawn, bare: bool) -> str:
    box = placed.box
    shape = outline(box.kind, placed.w, placed.h, placed.open)
    about, hint, kind = "", "", kind_class(box.kind)
    if bare:
        shape = shape.replace(' class="shape"', "")  # each byte of an `<img>` costs 4/3 in the page
    if not bare:
        line = f" data-line={_quoted(clean(box.line))}" if box.line else ""
        about, kind = f" data-id={_quoted(clean(box.id))}{line}", f"graph-box {kind}"
        hint = f"<title>{_escaped(box_hint(box))}</title>"
    inside = f"{hint}{shape}{_label(placed, bare)}"
    drawn = (
        f'<g class="{kind}{" open" if placed.open else ""}"{about}'
        f' transform="translate({_n(placed.x)} {_n(placed.y)})">{inside}</g>'
    )
    return f"<a href={_quoted(clean(box.link))}>{drawn}</a>" if box.link and not bare else drawn


def _label(placed: Drawn, bare: bool) -> str:
    """Returns label and detail; those of an `<img>` have no `textLength`, to save bytes."""
    box = placed.box
    label, detail = box_label(box), box_detail(box)
    if placed.open:
        x, y = -placed.w / 2 + 24, -placed.h / 2 + HEADER / 2 + 5
        beside = x + columns(label) * LABEL_SIZE * ADVANCE + 10
        return (
            _marker(x - 14, y - 4.5, True)
            + _text(label, LABEL_SIZE, x, y, "start", bare)
            + _text(detail, DETAIL_SIZE, beside, y, "start detail", bare)
        )
    small = is_small(box)
    size = DETAIL_SIZE if small else LABEL_SIZE
    x = 7.0 if box.inside else 0.0
    first, second = (-2.0 if small else -3.0, 10.5 if small else 12.0)
    marker = _marker(-placed.w / 2 + 9, 0, False) if box.inside else ""
    return (
        marker
        + _text(label, size, x, first if detail else size * 0.35, "", bare)
        + _text(detail, DETAIL_SIZE, x, second, "detail", bare)
    )


def _text(text: str, size: float, x: float, y: float, kind: str, bare: bool) -> str:
    if not text:
        return ""
    kind = kind or ("small" if size == DETAIL_SIZE else "")
    name = f' class="{kind}"' if kind else ""
    at = f' x="{_n(x)}"' if x or not bare else ""
    length = "" if bare else f' textLength="{_n(columns(text) * size * ADVANCE)}"'
    return f'<text{name}{at} y="{_n(y)}"{length}>{_escaped(text)}</text>'


def _marker(x: float, y: float, open: bool) -> str:
    """Returns the triangle of a box that can be opened or closed."""
    points = f"M{_n(x)} {_n(y - 3)}h8l-4 6z" if open else f"M{_n(x)} {_n(y - 4)}v8l6-4z"
    return f'<path class="marker" d="{points}"/>'


def outline(kind: str, w: float, h: float, open: bool) -> str:
    """Returns the shape of a box, centred at the origin."""
    if open:
        return f'<rect class="shape" {_frame(w, h)} rx="8"/>'
    if kind in ("input", "output", "constant", "quiet"):
        inner = ""
        if kind == "output":
            inner = f'<rect class="inner" {_frame(w - 6, h - 6)} rx="{_n((h - 6) / 2)}"/>'
        return f'<rect class="shape" {_frame(w, h)} rx="{_n(h / 2)}"/>{inner}'
    corners = _corners(kind, w / 2, h / 2)
    if corners:
        path = "L".join(f"{_n(x)} {_n(y)}" for x, y in corners)
        return f'<path class="shape" d="M{path}z"/>'
    radius = {"elementwise": 6, "random": 6, "matmul": 0}.get(kind, 2)
    bars = ""
    if kind == "call":
        x, y = w / 2 - 4, h / 2
        bars = f'<path class="inner" d="M{_n(x)} {_n(-y)}v{_n(h)}M{_n(-x)} {_n(-y)}v{_n(h)}"/>'
    return f'<rect class="shape" {_frame(w, h)} rx="{radius}"/>{bars}'


def _corners(kind: str, x: float, y: float) -> tuple[tuple[float, float], ...]:
    """Returns the corners of a family's polygon; () for a rectangle."""
    match kind:
        case "reduce":
            return (-x, -y), (x, -y), (x - 8, y), (-x + 8, y)
        case "move":
            return (-x + 8, -y), (x, -y), (x - 8, y), (-x, y)
        case "control":
            return (-x + 8, -y), (x - 8, -y), (x, 0), (x - 8, y), (-x + 8, y), (-x, 0)
        case "collective":
            left = (x - 7, y), (-x + 7, y), (-x, y - 7), (-x, -y + 7)
            return (-x + 7, -y), (x - 7, -y), (x, -y + 7), (x, y - 7), *left
        case _:
            return ()


def _frame(w: float, h: float) -> str:
    return f'x="{_n(-w / 2)}" y="{_n(-h / 2)}" width="{_n(w)}" height="{_n(h)}"'


def _edge(hint: str, curves: str, wires: Iterable[Wire]) -> str:
    arrows = "".join(_arrow(wire.points) for wire in wires)
    return f'<g class="edge">{hint}<path d="{curves}"/><path class="arrow" d="{arrows}"/></g>'


def _curve(p: tuple[float, ...], digits: int | None = 1) -> str:
    """Returns path data with an absolute start and relative pieces, which is shortest.

    Args:
        p: The points.
        digits: Decimals of the coordinates; None for whole pixels, which is quick.
    """
    written = str if digits is None else _n
    x, y = round(p[0], digits), round(p[1], digits)
    parts = [f"M{_n(x)} {_n(y)}c"]
    for n in range(2, len(p) - 2, 6):
        # Coordinates are rounded, so the next piece is relative to this one's rounded end.
        steps = [round(p[k] - (x, y)[k % 2], digits) for k in range(n, n + 6)]
        parts.append(" ".join(map(written, steps)) + " ")
        x, y = x + steps[4], y + steps[5]
    return "".join(parts).replace(" -", "-").rstrip()


def _arrow(p: tuple[float, ...]) -> str:
    """Returns the arrowhead, a triangle from the curve's end to the tip."""
    x, y, tip_x, tip_y = p[-4:]
    dx, dy = tip_x - x, tip_y - y
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    sx, sy = -dy / length * 2.6, dx / length * 2.6
    return f"M{_n(tip_x)} {_n(tip_y)}L{_n(x + sx)} {_n(y + sy)} {_n(x - sx)} {_n(y - sy)}z"


def _n(value: float) -> str:
    """Returns a number with at most one decimal."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _quoted(text: str) -> str:
    return '"' + _escaped(text).replace('"', "&quot;") + '"'
