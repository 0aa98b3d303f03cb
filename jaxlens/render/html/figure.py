"""A figure as HTML: a picture that shows everywhere, and the data that brings it to life.

Where no script runs (an untrusted notebook, GitHub) the `<img>` stays. Where one does,
`graph/drawing.js` reads the data beside it, deflated JSON, and puts the live drawing in its place.
"""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from jaxlens.render.graph.figure import Figure
from jaxlens.render.graph.figure_json import ANY, graph_data
from jaxlens.render.graph.svg import svg
from jaxlens.render.graph.text_width import clean
from jaxlens.render.html.marks import image
from jaxlens.render.html.packing import packed, stepped

_PANELS = 10  # that one output holds, 4 ms each; a live kernel has the others
_EDGES = 80  # of a panel that opens: 91 between 63 boxes take 300 ms
# A traced program that had to be folded is to be seen a tenth of its trace later, and 40 edges take
# 15 ms: its repeats open, and the first copy if it is no denser.
_FOLDED_PANELS, _FOLDED_EDGES = 7, 36
_WHOLE_PANELS, _WHOLE_BYTES = 1_000, 20_000_000  # of a page that is saved


def graph_html(
    figure: Figure,
    alt: str,
    hues: Mapping[str, int] | None = None,
    *,
    picture: bool = True,
    whole: bool = False,
) -> str:
    """The container of one drawing.

    Args:
        figure: What to draw.
        alt: What it shows, in words.
        hues: Index of the hue of each source line, as in the panes beside it.
        picture: Whether it shows where no script runs; else its words stand there.
        whole: Whether every box opens, but for those of a program with very many.

    Returns:
        HTML; its style and script are the page's (`assets.py`).

    Raises:
        GraphError: The graph could not be laid out.
    """
    alt = clean(alt)
    shown = f"<p>{escape(alt)}</p>"
    if picture:
        shown = image(svg(figure, form="image", title=alt), alt)
    note = f'<div class="drawing-note">{escape(clean(figure.note))}</div>' if figure.note else ""
    folded = bool(figure.note) and figure.stage == "jaxpr"
    most, edges = (_FOLDED_PANELS, _FOLDED_EDGES) if folded else (_PANELS, _EDGES)
    size = {"budget": _WHOLE_BYTES} if whole else {}
    most, edges = (_WHOLE_PANELS, ANY) if whole else (most, edges)
    data = _stepped(graph_data(figure, most=most, edges=edges, hues=hues, **size))
    text = packed(stepped(json.dumps(data, ensure_ascii=False, separators=(",", ":"))))
    return (
        f'<div class="jaxlens-drawing">{shown}{note}'
        f'<script type="application/json">"{text}"</script></div>'
    )


def _stepped(data: dict[str, Any]) -> dict[str, Any]:
    """The data with the points of edges in tenths, each as the step from the one before."""
    for panel in data["panels"]:
        for edge in panel[5]:
            tenths = [round(value * 10) for value in edge[3]]
            steps = [now - was for was, now in zip(tenths, tenths[2:], strict=False)]
            edge[3] = [*tenths[:2], *steps]
    return data
