"""Answers a viewer's requests for data that its output does not contain.

An output contains a bounded amount of data; the viewer requests the rest when the reader scrolls,
steps or clicks. Requests and answers are plain data: a request is one kind with its arguments.
Text in an answer is escaped as in the output. No answer compiles again or runs anything. The
requests that may, `{"further": KEY}` for a stage that was not made, `{"question": NAME}` and
`{"transform": [NAME, VALUE]}`, are answered in `explorer.py` by the HTML of a view that takes the
place of the output.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from jaxlens.answers import ask
from jaxlens.captures import Capture
from jaxlens.errors import LensError, OptionError, ReadError, nearest
from jaxlens.questions import askable
from jaxlens.render.document import (
    Block,
    Document,
    Findings,
    GraphPane,
    Listing,
    PassSteps,
    Tab,
    Tabs,
    walk,
)
from jaxlens.render.html import passes
from jaxlens.render.html.payload import lines_data
from jaxlens.render.link_data import Web
from jaxlens.report import Finding
from jaxlens.views.passes.pane import beside as atoms_beside
from jaxlens.views.passes.pane import step
from jaxlens.views.view import View

NOT_SAVED = Finding("This is not saved with the notebook, which keeps what the cell showed.")
_LINES = 20_000  # lines in one answer
_ROOT = re.compile(r"<div class=jaxlens data-key=(\w+)")


def key_of(html: str) -> str:
    """Returns the `data-key` of a view's HTML, by which a live kernel serves its outputs."""
    match = _ROOT.search(html)
    if match is None:
        raise ReadError("expected the HTML of a view, got HTML without a key")
    return match[1]


def answer(capture: Capture, document: Document, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answers one request.

    Args:
        capture: The program.
        document: The output that sends the request.
        request: `{"lines": {"listing": n, "from": i, "to": j}}` for lines of the nth listing
            (`data-listing`), counted from its first; `{"row": {"listing": n, "id": ID}}` for
            the number of a node's first line; `{"pass": INDEX}` for a step through the passes
            with its rows; `{"panel": {"graph": n, "name": NAME}}` for what opens in a box of the
            nth graph.

    Returns:
        `{"ok": data}`, or `{"error": a sentence}`.
    """
    kind = next(iter(request), "")
    try:
        if kind not in _ANSWERS:
            raise OptionError(f"no question {kind!r}; {nearest(kind, _ANSWERS)}")
        return {"ok": _ANSWERS[kind](capture, document, request[kind])}
    except LensError as why:
        return {"error": str(why)}
    except (LookupError, TypeError, ValueError) as why:
        return {"error": f"the question {kind!r} does not fit: {type(why).__name__} {why}"}


def with_answer(view: View[Any], name: str) -> View[Any]:
    """Returns a view with one more pane, which answers a question about its program.

    Args:
        view: A view of a program, with a chain of stages.
        name: One of `questions.askable()`.

    Raises:
        OptionError: There is no such question, or the view has no chain.
        LensError: The question cannot be answered.
    """
    rows, document = askable(), view.document
    if name not in rows or view.capture is None:
        raise OptionError(f"no question {name!r}; {nearest(name, rows)}")
    key, row = f"ask-{name}", rows[name]
    answered = ask(row, view.capture).document.blocks
    shown = (*answered[:1], Findings((NOT_SAVED,)), *answered[1:])
    tab = Tab(row.about.sentence, shown, help=row.about.sentence, key=key)

    def beside(block: Block) -> Block:
        if not (isinstance(block, Tabs) and block.chain):
            return block
        tabs = (*(tab for tab in block.tabs if tab.key != key), tab)
        *stages, aside = block.chain
        return replace(block, tabs=tabs, chain=(*stages, {**aside, key: f"{name}?"}))

    both = replace(document, blocks=tuple(map(beside, document.blocks)))
    return View(view.capture, lambda: both)


def _lines(capture: Capture, document: Document, request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a range of a listing's lines, counted from the listing's first line."""
    listing = _listing(document, int(request["listing"]))
    first, shown = int(request["from"]), len(listing.lines)
    total = shown + len(listing.more)
    end = min(int(request["to"]), first + _LINES, total)
    if not 0 <= first <= end:
        raise OptionError(f"no lines {first} to {end} in a listing of {total}")
    more = listing.more[max(first - shown, 0) : max(end - shown, 0)]
    return lines_data((*listing.lines[first:end], *more))


def _row(capture: Capture, document: Document, request: Mapping[str, Any]) -> int:
    """Returns the number of the first line with a node's id."""
    listing, id = _listing(document, int(request["listing"])), str(request["id"])
    lines = chain(listing.lines, listing.more)
    place = next((n for n, line in enumerate(lines) if line.id == id), None)
    if place is None:
        raise OptionError(f"no line of {id!r} in the listing of {listing.stage}")
    return place


def _listing(document: Document, place: int) -> Listing:
    """Returns the nth listing of a document, counted as in its HTML."""
    listings = [step.part for step in walk(document.blocks) if isinstance(step.part, Listing)]
    if not 0 <= place < len(listings):
        raise OptionError(f"no listing {place} in an output of {len(listings)}")
    return listings[place]


def step_rows(capture: Capture, index: int, web: Web | None = None) -> dict[str, Any]:
    """Returns one step through the passes with its rows, as `passes.data` writes it.

    Args:
        capture: The program.
        index: `PassStep.index`.
        web: The links of the output, whose numbering the rows use.

    Raises:
        OptionError: There is no such step.
        UnavailableError: The backend dumps no passes.
    """
    atoms = atoms_beside(capture.links, web) if web else None
    return passes.data(PassSteps((step(capture, index, atoms),), ()))


def _pass(capture: Capture, document: Document, index: Any) -> dict[str, Any]:
    """Returns one step through the passes with its rows."""
    return step_rows(capture, int(index), document.web)


def _panel(capture: Capture, document: Document, request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the panel that opens in a box of a graph."""
    from jaxlens.render.graph.figure_json import panel_data  # Graphviz is loaded when drawn

    graphs = [step.part for step in walk(document.blocks) if isinstance(step.part, GraphPane)]
    return panel_data(graphs[int(request["graph"])].figure, str(request["name"]))


_ANSWERS: Mapping[str, Callable[[Capture, Document, Any], Any]] = {
    "lines": _lines,
    "row": _row,
    "pass": _pass,
    "panel": _panel,
}
