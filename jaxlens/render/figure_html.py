"""A figure as HTML: a picture that shows everywhere, and the data that brings it to life.

Where no script runs (an untrusted notebook, GitHub) the `<img>` stays. Where one does,
`static/graph.js` reads the JSON beside it and puts the live drawing in its place.
"""

import base64
import json
from html import escape

from jaxlens.render.figure import Figure
from jaxlens.render.figure_data import graph_data
from jaxlens.render.figure_text import clean
from jaxlens.render.svg import svg


def graph_html(figure: Figure, alt: str) -> str:
    """The container of one drawing.

    Args:
        figure: What to draw.
        alt: What it shows, in words.

    Returns:
        HTML; its style and script are the page's (`page.py`).

    Raises:
        GraphError: The graph could not be laid out.
    """
    words = escape(clean(alt), quote=True)
    picture = base64.b64encode(svg(figure, form="image", title=alt).encode()).decode()
    note = f'<div class="note">{escape(clean(figure.note))}</div>' if figure.note else ""
    return (
        f'<div class="jaxlens-graph"><img alt="{words}" style="max-width:100%;height:auto"'
        f' src="data:image/svg+xml;base64,{picture}">{note}'
        f'<script type="application/json">{_in_script(graph_data(figure))}</script></div>'
    )


def _in_script(data: object) -> str:
    """JSON that cannot end its `<script>` nor open a comment in it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
