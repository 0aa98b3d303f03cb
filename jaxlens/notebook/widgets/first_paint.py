"""What a live front end shows of a large output while the rest of it is written.

The sentences and the open panes, without links, drawings and hidden programs, take a few
milliseconds. The complete output then takes their place in the same cell, and `first_paint.js` puts
back what the reader has chosen by then. A small output is complete at once.
"""

from dataclasses import replace
from importlib.resources import files
from itertools import islice

from jaxlens.render.document import Block, Document, Findings, Listing, Tab, Tabs
from jaxlens.render.html.document_html import html
from jaxlens.render.html.marks import ink
from jaxlens.render.link_data import Web
from jaxlens.report import Finding

_LARGE = 1_000  # lines of programs, which take some 50 ms to write
_LINES = 60  # of each program that is open: more than a pane shows


def first_paint(document: Document) -> str:
    """Returns the HTML of the sentences and open panes; "" for an output that is small."""
    if ink(document).lines < _LARGE:
        return ""
    blocks = tuple(map(_early, document.blocks))
    script = files("jaxlens.notebook").joinpath("first_paint.js").read_text("utf-8")
    unlinked = document.web and Web({"jaxpr": {}})  # which keeps the place of what is said of links
    early = html(replace(document, blocks=blocks, web=unlinked, asks=()))
    return f"{early}<script>{script}</script>"


def _early(block: Block) -> Block:
    """Returns what is shown of a block: panes that are not open say that they are made."""
    if isinstance(block, Listing):
        beyond = _LINES - len(block.lines)
        return replace(block, more=tuple(islice(block.more, beyond)) if beyond > 0 else ())
    if not isinstance(block, Tabs):
        return block
    shown = (*block.open, block.tabs[block.first].key)
    return replace(block, tabs=tuple(_pane(tab, tab.key in shown) for tab in block.tabs))


def _pane(tab: Tab, shown: bool) -> Tab:
    waits = Findings((Finding(f"{tab.title}: being made."),))
    return replace(tab, blocks=tuple(map(_early, tab.blocks)) if shown else (waits,))
