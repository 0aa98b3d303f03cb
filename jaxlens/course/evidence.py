"""What a judgement or an answer rests on, as a pane of its own."""

from dataclasses import replace
from typing import Any

from jaxlens.render.document import Tab, Tabs
from jaxlens.views.view import View


def evidence_pane(evidence: View[Any], lead: str = "") -> Tabs:
    """Returns a view as a pane; a jaxpr shows its text, since equations are asked for.

    Args:
        evidence: The view.
        lead: Words before its first line, which becomes the title.
    """
    shown = evidence.document
    blocks = shown.blocks
    if shown.verb == "jaxpr":
        text = ("source", "jaxpr")
        blocks = tuple(
            replace(b, open=text, chain=()) if isinstance(b, Tabs) else b for b in blocks
        )
    return Tabs((Tab(f"{lead}{shown.taken}", blocks, key="evidence"),), shown.verb)
