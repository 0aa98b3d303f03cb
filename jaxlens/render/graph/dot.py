"""Renders a figure as DOT, a `graphviz.Digraph`, for use with Graphviz's own tools.

Names in the program are data: node ids are generated numbers, and every label is quoted with its
backslashes doubled, so that Graphviz does not parse `<...>` as HTML, `\\N` as a node's name or
`a:b` as a port.
"""

from typing import TYPE_CHECKING

from jaxlens.errors import missing_package
from jaxlens.render.graph.figure import Box, BoxKind, Figure, pictured
from jaxlens.render.graph.palette import FAMILIES, LIGHT
from jaxlens.render.graph.text_width import box_detail, box_hint, box_label, edge_labels

if TYPE_CHECKING:
    import graphviz

_SHAPES: dict[BoxKind, tuple[str, str]] = {
    "input": ("box", "rounded,filled,bold"),
    "output": ("box", "rounded,filled,bold"),
    "constant": ("box", "rounded,filled,dashed"),
    "quiet": ("plaintext", ""),
    "elementwise": ("box", "rounded,filled"),
    "matmul": ("box", "filled,bold"),
    "reduce": ("invtrapezium", "filled"),
    "move": ("parallelogram", "filled"),
    "control": ("hexagon", "filled"),
    "call": ("component", "filled"),
    "random": ("box", "rounded,filled,dashed"),
    "collective": ("octagon", "filled"),
    "other": ("box", "filled"),
}


def dot(figure: Figure) -> "graphviz.Digraph":
    """Returns the panel that a picture shows, each box closed, as in `svg.py`.

    Args:
        figure: The figure to render.

    Returns:
        A graph that `graphviz` renders if a `dot` binary is installed, and whose `.source` other
        tools can read.
    """
    try:
        import graphviz
    except ImportError as error:
        raise missing_package("DOT source", error) from None

    panel = pictured(figure)
    title = _escaped(figure.panels[0].title)
    graph = graphviz.Digraph(
        graph_attr={"bgcolor": LIGHT.card, "label": title, "labelloc": "t"},
        node_attr={"fontname": "Courier", "fontsize": "12", "color": LIGHT.line},
        edge_attr={"fontname": "Courier", "fontsize": "10", "color": LIGHT.line},
    )
    names = {box.id: f"n{n}" for n, box in enumerate(panel.boxes)}
    for box in panel.boxes:
        graph.node(names[box.id], **_node(box))
    for edge, label in zip(panel.edges, edge_labels(panel), strict=True):
        attrs = {"label": _escaped(label)} if label else {}
        graph.edge(names[edge.tail], names[edge.head], **attrs)
    return graph


def _node(box: Box) -> dict[str, str]:
    shape, style = _SHAPES[box.kind]
    lines = [line for line in (box_label(box), box_detail(box)) if line]
    tint = FAMILIES[box.kind]
    attrs = {
        "label": _escaped(*lines),
        "shape": shape,
        "style": style,
        "color": tint.light,
        "fillcolor": tint.light_fill,
        "tooltip": _escaped(box_hint(box)),
    }
    if box.kind == "output":
        attrs["peripheries"] = "2"
    if box.kind == "quiet":
        attrs["fontcolor"] = LIGHT.dim
    return attrs


def _escaped(*lines: str) -> str:
    """Returns a label that Graphviz renders as exactly these lines.

    The result is a string of a type of the `graphviz` package, which it quotes even if it looks
    like HTML. Joining or formatting it would give a plain `str` again.
    """
    import graphviz

    label: str = graphviz.nohtml("\\n".join(graphviz.escape(line) for line in lines))
    return label
