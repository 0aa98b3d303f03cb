"""Renders a figure as DOT, a `graphviz.Digraph`, for use with Graphviz's own tools.

Open panels are clusters. Names in the program are data: node ids are generated numbers, and every
label is quoted with its backslashes doubled, so that Graphviz does not parse `<...>` as HTML,
`\\N` as a node's name or `a:b` as a port.
"""

from typing import TYPE_CHECKING, Any

from jaxlens.errors import missing_package
from jaxlens.render.graph.figure import Box, BoxKind, Figure, Panel, Path, open_paths
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
    """Returns the figure with the levels of its depth open, each open panel a cluster.

    An edge into or out of an open box ends at the cluster's border (`lhead`, `ltail`).

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

    text = _escaped(figure.panels[0].title)
    graph = graphviz.Digraph(
        graph_attr={"compound": "true", "bgcolor": LIGHT.card, "label": text, "labelloc": "t"},
        node_attr={"fontname": "Courier", "fontsize": "12", "color": LIGHT.line},
        edge_attr={"fontname": "Courier", "fontsize": "10", "color": LIGHT.line},
    )
    panels = figure.named
    open_places = open_paths(figure, figure.depth)
    # A cluster is written after its inner clusters: deepest paths first.
    frames: dict[Path, Panel] = {(): figure.panels[0]}
    for path in sorted(open_places, key=len):
        frames[path] = panels[frames[path[:-1]].boxes[path[-1]].inside]
    inner: dict[Path, list[Any]] = {}
    for path in sorted(frames, key=lambda path: (-len(path), path)):
        target = graph if not path else _cluster(path, frames[path[:-1]].boxes[path[-1]])
        _fill(target, path, frames[path], frames)
        for part in inner.pop(path, ()):
            target.subgraph(part)
        if path:
            inner.setdefault(path[:-1], []).append(target)
    return graph


def _fill(target: Any, path: Path, panel: Panel, frames: dict[Path, Panel]) -> None:
    """Adds a panel's closed boxes and its edges to a graph or cluster."""
    index = {box.id: n for n, box in enumerate(panel.boxes)}
    for n, box in enumerate(panel.boxes):
        if (*path, n) not in frames:
            target.node(_name((*path, n)), **_node(box))
    for edge, label in zip(panel.edges, edge_labels(panel), strict=True):
        tail, head = (*path, index[edge.tail]), (*path, index[edge.head])
        attrs = {"label": _escaped(label)} if label else {}
        if tail in frames:
            attrs["ltail"] = f"cluster_{_name(tail)}"
        if head in frames:
            attrs["lhead"] = f"cluster_{_name(head)}"
        target.edge(_innermost(tail, frames, last=True), _innermost(head, frames), **attrs)


def _cluster(path: Path, box: Box) -> Any:
    import graphviz

    return graphviz.Digraph(
        name=f"cluster_{_name(path)}",
        graph_attr={
            "label": _escaped(f"{box_label(box)} {box_detail(box)}".strip()),
            "labeljust": "l",
            "style": "rounded,filled",
            "fillcolor": LIGHT.panel,
            "color": FAMILIES[box.kind].light,
            "fontname": "Courier",
            "tooltip": _escaped(box_hint(box)),
        },
    )


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


def _innermost(path: Path, frames: dict[Path, Panel], last: bool = False) -> str:
    """Returns the name of the node at the end of an edge, which in an open box is one inside.

    An edge into the box ends at its first innermost box, one out of it starts at its last.
    """
    while path in frames:
        path = (*path, len(frames[path].boxes) - 1 if last else 0)
    return _name(path)


def _name(path: Path) -> str:
    return "n" + "_".join(map(str, path))


def _escaped(*lines: str) -> str:
    """Returns a label that Graphviz renders as exactly these lines.

    The result is a string of a type of the `graphviz` package, which it quotes even if it looks
    like HTML. Joining or formatting it would give a plain `str` again.
    """
    import graphviz

    label: str = graphviz.nohtml("\\n".join(graphviz.escape(line) for line in lines))
    return label
