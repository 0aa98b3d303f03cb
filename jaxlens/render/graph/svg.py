"""Renders a figure as SVG, the same on every machine.

- Each text of the program is one escaped text node or attribute value, so none acts as markup.
- An `<img>` inherits no theme, so a drawing has a light background of its own.
- Families differ in outline and border as well as in colour.
- All boxes are closed: they open in the interactive drawing, where `graph/paint.js` draws the same
  shapes.
"""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Literal

from jaxlens.render.graph.figure import Box, Figure, Panel, pictured
from jaxlens.render.graph.layout import Layout, Spot, layout
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
    panel = pictured(figure)
    placed = layout(panel)
    # An `<img>` has only the rules that it uses.
    kinds = frozenset(kind_class(box.kind) for box in panel.boxes)
    rules = style("alone", kinds) if form == "image" else style(form)
    name = _quoted(clean(title or figure.panels[0].title))
    w, h = _n(placed.w), _n(placed.h)
    return "".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="jaxlens-figure"',
            f' width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label={name}>',
            f"<style>{rules}</style>",
            f'<rect class="card" width="{w}" height="{h}" rx="8"/>',
            *_edges(panel, placed, form == "image"),
            *(
                _box(box, spot, form == "image")
                for box, spot in zip(panel.boxes, placed.spots, strict=True)
            ),
            "</svg>",
        ]
    )


def _edges(panel: Panel, placed: Layout, bare: bool) -> Iterator[str]:
    """Yields the SVG of each edge, then of each label."""
    if bare and placed.curves:  # all edges as one path, and all arrowheads as another
        paths = [curve.points for curve in placed.curves]
        yield _edge("", "".join(_curve(points, None) for points in paths), paths)
    for edge, curve in () if bare else zip(panel.edges, placed.curves, strict=True):
        hint = f"<title>{_escaped(clean(edge.label))}</title>" if edge.label else ""
        yield _edge(hint, _curve(curve.points), [curve.points])
    for curve in placed.curves:
        if curve.label:
            length = _n(columns(curve.label) * EDGE_SIZE * ADVANCE)
            yield (
                f'<text class="edge-label" x="{_n(curve.x)}" y="{_n(curve.y + 3.5)}" '
                f'textLength="{length}">{_escaped(curve.label)}</text>'
            )


def _box(box: Box, spot: Spot, bare: bool) -> str:
    shape = outline(box.kind, spot.w, spot.h)
    about, hint, kind = "", "", kind_class(box.kind)
    if bare:
        shape = shape.replace(' class="shape"', "")  # each byte of an `<img>` costs 4/3 in the page
    if not bare:
        line = f" data-line={_quoted(clean(box.line))}" if box.line else ""
        about, kind = f" data-id={_quoted(clean(box.id))}{line}", f"graph-box {kind}"
        hint = f"<title>{_escaped(box_hint(box))}</title>"
    drawn = (
        f'<g class="{kind}"{about} transform="translate({_n(spot.x)} {_n(spot.y)})">'
        f"{hint}{shape}{_label(box, spot, bare)}</g>"
    )
    return f"<a href={_quoted(clean(box.link))}>{drawn}</a>" if box.link and not bare else drawn


def _label(box: Box, spot: Spot, bare: bool) -> str:
    """Returns label and detail; those of an `<img>` have no `textLength`, to save bytes."""
    label, detail = box_label(box), box_detail(box)
    small = is_small(box)
    size = DETAIL_SIZE if small else LABEL_SIZE
    x = 7.0 if box.inside else 0.0
    first, second = (-2.0 if small else -3.0, 10.5 if small else 12.0)
    opens = f'<path class="marker" d="M{_n(9 - spot.w / 2)} -4v8l6-4z"/>' if box.inside else ""
    return (
        opens
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


def outline(kind: str, w: float, h: float) -> str:
    """Returns the shape of a box, centred at the origin."""
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


def _edge(hint: str, curves: str, paths: Iterable[tuple[float, ...]]) -> str:
    arrows = "".join(map(_arrow, paths))
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
