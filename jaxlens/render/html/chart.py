"""A chart as HTML: a picture that shows everywhere, which `chart/chart.js` brings to life."""

import base64

from jaxlens.render.document import Picture
from jaxlens.render.html.marks import attr, escaped, note


def chart_html(picture: Picture) -> str:
    """The picture under its title, on a card of its own; its words for who cannot see it."""
    drawn = base64.b64encode(picture.svg.encode(errors="replace")).decode()
    stage = attr("data-stage", picture.stage) if picture.stage else ""
    return (
        f"<figure class=chart-figure data-own{stage}>"
        f"<figcaption>{escaped(picture.title)}</figcaption>"
        f'<img{attr("alt", picture.alt)} style="max-width:100%;height:auto" '
        f'src="data:image/svg+xml;base64,{drawn}"></figure>{note(picture.note)}'
    )
