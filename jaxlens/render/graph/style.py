"""The CSS of a drawing: for an image with its own background, and for a page with a theme.

All selectors start with `.jaxlens-figure`, so that a drawing in a page does not style the rest.
In a page, `light-dark()` selects the colour for the page's `color-scheme`; `graph/figure.css` is
this module's output (a test compares them).
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Literal

from jaxlens.render.graph.figure import BoxKind
from jaxlens.render.graph.palette import FAMILIES, light, themed
from jaxlens.render.graph.text_width import DETAIL_SIZE, EDGE_SIZE, FONT, LABEL_SIZE

_ROOT = ".jaxlens-figure"

Form = Literal["card", "page", "alone"]


@cache
def style(form: Form, kinds: frozenset[str] = frozenset()) -> str:
    """Returns the CSS rules of a drawing, on one line, without external resources.

    Args:
        form: "card" for a drawing with a background, "page" for a page with a theme, "alone" for
            an `<img>`, where no other CSS applies.
        kinds: Classes of the boxes in the drawing; the form "alone" has only their rules.
    """
    rules = _rules(themed if form == "page" else light)
    if form == "alone":
        families = {f".{kind_class(kind)}" for kind in FAMILIES}
        left_out = families - {f".{kind}" for kind in kinds}
        return "".join(
            f"{_alone(selector)}{{{rule}}}"
            for selector, rule in rules.items()
            if selector.lstrip().split(" ")[0] not in left_out
        )
    return "".join(f"{_ROOT}{selector}{{{rule}}}" for selector, rule in rules.items())


def _alone(selector: str) -> str:
    """Returns the selector for the form "alone", where shapes have no class (`svg.svg`)."""
    if selector == " .shape":
        return ":where(g:not(.edge))>:first-child"
    return re.sub(r"[ >]\.shape", ">:first-child", selector.strip()) or "svg"


def page_style() -> str:
    """Returns the CSS rules of the interactive drawing: the drawing and its controls."""
    root, line = ".jaxlens-drawing", themed("line")
    rules = {
        " .view": "overflow:auto;max-height:80vh;border-radius:8px",
        " .tools": "display:flex;gap:4px;justify-content:flex-end;padding:2px 4px",
        " button": f"font:12px/1 {FONT};min-width:26px;height:24px;padding:0 6px;cursor:pointer;"
        f"color:{themed('text')};background:{themed('panel')};border:1px solid {line};"
        "border-radius:5px",
        " svg": "display:block",
        " [aria-expanded]": "cursor:pointer",
        " .graph-box:focus": "outline:none",
        " .graph-box:focus-visible": f"outline:2.5px solid {themed('focus')};outline-offset:3px",
        " .edge.hot path": f"stroke:{themed('focus')};stroke-width:1.8",
        " .edge.hot .arrow": f"fill:{themed('focus')}",
    }
    return style("page") + "".join(f"{root}{name}{{{rule}}}" for name, rule in rules.items())


def kind_class(kind: BoxKind) -> str:
    """Returns the CSS class of a family; the viewer uses the class `call` for something else."""
    return "called" if kind == "call" else kind


def _rules(color: Callable[[str], str]) -> dict[str, str]:
    rules = {
        "": f"font:{LABEL_SIZE:g}px {FONT}",
        " .card": f"fill:{color('card')}",
        " text": f"fill:{color('text')};text-anchor:middle",
        " .small": f"font-size:{DETAIL_SIZE:g}px",
        " .detail": f"font-size:{DETAIL_SIZE:g}px;fill:{color('dim')}",
        " .start": "text-anchor:start",
        " .edge-label": f"font-size:{EDGE_SIZE:g}px;fill:{color('dim')};stroke:{color('card')};"
        "stroke-width:3px;stroke-linejoin:round;paint-order:stroke",
        " .edge path": f"fill:none;stroke:{color('line')}",
        " .edge .arrow": f"fill:{color('line')};stroke:none",
        " .marker": f"fill:{color('dim')}",
        " .shape": "stroke-width:1.2",
        " .inner": "fill:none;stroke-width:1",
    }
    for kind in FAMILIES:
        if kind == "quiet":
            rules[" .quiet .shape"] = "fill:none;stroke:none"
            continue
        name = kind_class(kind)
        rules[f" .{name} .shape"] = f"fill:{color(f'{kind}-fill')};stroke:{color(kind)}"
        if kind in ("output", "call"):
            rules[f" .{name} .inner"] = f"stroke:{color(kind)}"
    rules[" .matmul .shape"] += ";stroke-width:2.4"
    rules[" .input .shape"] += ";stroke-width:1.8"
    rules[" .constant .shape"] += ";stroke-dasharray:2 2"
    rules[" .random .shape"] += ";stroke-dasharray:6 3"
    rules[" .quiet text"] = f"fill:{color('dim')}"
    rules[" .open>.shape"] = f"fill:{color('panel')};stroke-dasharray:none"
    return rules
