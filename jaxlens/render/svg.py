"""Draws a placed figure as SVG: the saved picture, the same on every machine.

- One text of the program is one text node or attribute value, escaped; nothing is markup.
- An `<img>` inherits no theme, so the "card" form has a light card of its own; the "page"
  form takes colours from CSS variables and follows the page that it stands in.
- Families differ in outline and border as well as in colour.

`static/graph.js` draws the same shapes live.
"""

from collections.abc import Collection
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from jaxlens.render.figure import Figure
from jaxlens.render.figure_style import style
from jaxlens.render.figure_text import (
    ADVANCE,
    DETAIL_SIZE,
    EDGE_SIZE,
    LABEL_SIZE,
    box_detail,
    box_hint,
    box_label,
    clean,
    columns,
)
from jaxlens.render.layout import layout
from jaxlens.render.stretch import HEADER, Drawn, Path, Scene, Wire, open_paths, scene

Form = Literal["card", "page"]


def svg(
    figure: Figure,
    *,
    open: int | Collection[Path] | None = None,
    form: Form = "card",
    title: str = "",
) -> str:
    """The figure as a standalone SVG document.

    Args:
        figure: What to draw.
        open: How many levels stand open, or which places do (`stretch.Path`); the figure's
            own depth where None.
        form: "card" for an `<img>`, a file or a paper; "page" for HTML that has a theme.
        title: What a screen reader says; the first panel's title where "".

    Returns:
        The text of the document, without an XML declaration.

    Raises:
        GraphError: The graph could not be laid out.
    """
    if open is None or isinstance(open, int):
        open = open_paths(figure, figure.depth if open is None else open)
    drawn = scene(figure, open, layout)
    name = quoteattr(clean(title or figure.panels[0].title))
    w, h = _n(drawn.w), _n(drawn.h)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="jaxlens-figure" width="{w}" height="{h}"'
        f' viewBox="0 0 {w} {h}" role="img" aria-label={name}>',
        f"<style>{style(form)}</style>",
        f'<rect class="card" width="{w}" height="{h}" rx="8"/>',
        *_panels(drawn),
        "</svg>",
    ]
    return "".join(parts)


def _panels(drawn: Scene) -> list[str]:
    """Panel by panel, outer first; in each the open boxes' ground, then edges, then boxes."""
    parts: list[str] = []
    box_at = wire_at = 0
    for boxes, wires in drawn.order:
        own = drawn.boxes[box_at : box_at + boxes]
        lines = drawn.wires[wire_at : wire_at + wires]
        parts += [_box(box) for box in own if box.open]
        parts += [_wire(wire) for wire in lines]
        parts += [_label(wire) for wire in lines if wire.label]
        parts += [_box(box) for box in own if not box.open]
        box_at, wire_at = box_at + boxes, wire_at + wires
    return parts


def _box(drawn: Drawn) -> str:
    box = drawn.box
    line = f" data-line={quoteattr(clean(box.line))}" if box.line else ""
    words = "".join(_texts(drawn))
    shape = _outline(box.kind, drawn.w, drawn.h, drawn.open)
    state = " open" if drawn.open else ""
    return (
        f'<g class="b {box.kind}{state}" data-id={quoteattr(clean(box.id))}{line}'
        f' transform="translate({_n(drawn.x)} {_n(drawn.y)})">'
        f"<title>{escape(box_hint(box))}</title>{shape}{words}</g>"
    )


def _texts(drawn: Drawn) -> list[str]:
    box = drawn.box
    label, detail = box_label(box), box_detail(box)
    small = box.kind in ("quiet", "constant") and not box.inside
    size = DETAIL_SIZE if small else LABEL_SIZE
    if drawn.open:
        x, y = -drawn.w / 2 + 24, -drawn.h / 2 + HEADER / 2 + 5
        texts = [_text(label, LABEL_SIZE, x, y, "s")]
        if detail:
            x += columns(label) * LABEL_SIZE * ADVANCE + 10
            texts.append(_text(detail, DETAIL_SIZE, x, y, "s d"))
        return [_marker(-drawn.w / 2 + 10, y - 4.5, True), *texts]
    shift = 7 if box.inside else 0
    up = (-3 if not small else -2) if detail else size * 0.35
    texts = [_text(label, size, shift, up, "")]
    if detail:
        texts.append(_text(detail, DETAIL_SIZE, shift, 12 if not small else 10.5, "d"))
    marker = [_marker(-drawn.w / 2 + 9, 0, False)] if box.inside else []
    return [*marker, *texts]


def _text(words: str, size: float, x: float, y: float, kind: str) -> str:
    if not words:
        return ""
    small = "z " if size == DETAIL_SIZE else ""
    name = f' class="{(small + kind).strip()}"' if small or kind else ""
    length = _n(columns(words) * size * ADVANCE)
    return f'<text{name} x="{_n(x)}" y="{_n(y)}" textLength="{length}">{escape(words)}</text>'


def _marker(x: float, y: float, open: bool) -> str:
    """The triangle that says "there is more inside"."""
    points = f"M{_n(x)} {_n(y - 3)}h8l-4 6z" if open else f"M{_n(x)} {_n(y - 4)}v8l6 -4z"
    return f'<path class="m" d="{points}"/>'


def _outline(kind: str, w: float, h: float, open: bool) -> str:
    if open:
        return f'<rect class="o" {_frame(w, h)} rx="8"/>'
    if kind in ("input", "output", "constant", "quiet"):
        inner = ""
        if kind == "output":
            inner = f'<rect class="i" {_frame(w - 6, h - 6)} rx="{_n((h - 6) / 2)}"/>'
        return f'<rect class="o" {_frame(w, h)} rx="{_n(h / 2)}"/>{inner}'
    x, y = w / 2, h / 2
    corners = {
        "reduce": ((-x, -y), (x, -y), (x - 8, y), (-x + 8, y)),
        "move": ((-x + 8, -y), (x, -y), (x - 8, y), (-x, y)),
        "control": ((-x + 8, -y), (x - 8, -y), (x, 0.0), (x - 8, y), (-x + 8, y), (-x, 0.0)),
        "collective": (
            (-x + 7, -y), (x - 7, -y), (x, -y + 7), (x, y - 7),
            (x - 7, y), (-x + 7, y), (-x, y - 7), (-x, -y + 7),
        ),
    }.get(kind)  # fmt: skip
    if corners:
        path = "L".join(f"{_n(a)} {_n(b)}" for a, b in corners)
        return f'<path class="o" d="M{path}z"/>'
    radius = {"elementwise": 6, "random": 6, "matmul": 0}.get(kind, 2)
    bars = ""
    if kind == "call":
        bars = f'<path class="i" d="M{_n(x - 4)} {_n(-y)}v{_n(h)}M{_n(-x + 4)} {_n(-y)}v{_n(h)}"/>'
    return f'<rect class="o" {_frame(w, h)} rx="{radius}"/>{bars}'


def _frame(w: float, h: float) -> str:
    return f'x="{_n(-w / 2)}" y="{_n(-h / 2)}" width="{_n(w)}" height="{_n(h)}"'


def _wire(wire: Wire) -> str:
    p = wire.points
    pairs = [f"{_n(p[n])} {_n(p[n + 1])}" for n in range(0, len(p) - 2, 2)]
    path = f"M{pairs[0]}C{' '.join(pairs[1:])}"
    hint = f"<title>{escape(clean(wire.edge.label))}</title>" if wire.edge.label else ""
    return f'<g class="e">{hint}<path d="{path}"/><path class="a" d="{_arrow(p)}"/></g>'


def _arrow(p: tuple[float, ...]) -> str:
    """A triangle from the curve's end to the tip."""
    bx, by, tx, ty = p[-4:]
    dx, dy = tx - bx, ty - by
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    sx, sy = -dy / length * 2.6, dx / length * 2.6
    return f"M{_n(tx)} {_n(ty)}L{_n(bx + sx)} {_n(by + sy)} {_n(bx - sx)} {_n(by - sy)}z"


def _label(wire: Wire) -> str:
    words = wire.label
    length = _n(columns(words) * EDGE_SIZE * ADVANCE)
    return (
        f'<text class="l" x="{_n(wire.x)}" y="{_n(wire.y + 3.5)}" textLength="{length}">'
        f"{escape(words)}</text>"
    )


def _n(value: float) -> str:
    """A number in at most one decimal."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"
