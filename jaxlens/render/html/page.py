"""A document as a page of its own, which needs no notebook, no kernel and no network."""

from jaxlens.render.document import Document
from jaxlens.render.html.document_html import html
from jaxlens.render.html.marks import escaped

_STYLE = (
    "body{background:light-dark(#fff,#14171b);margin:0 auto;max-width:1900px;padding:8px 16px}"
    ":root{color-scheme:light dark}"
)


def page(document: Document) -> str:
    """The page; its address may end in what to pin (`page.html#e12`, `static/page/page.js`)."""
    title = escaped(document.taken.partition(" with ")[0])
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body>{html(document, extra=['page'])}</body></html>\n"
    )
