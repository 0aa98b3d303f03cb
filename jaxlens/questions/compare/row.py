"""Rows of the table: what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jaxlens.question import About, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.views.view import View


def _changed(verb: str, capture: Capture, options: Any) -> View:
    from jaxlens.questions.compare.document import changed
    from jaxlens.views.view import View

    return View(capture, lambda: changed(verb, options.against, capture, options))


AGAINST: Question[Any] = Question(
    "against",
    About(
        "What changed since then?",
        measured="seconds of each step, once each",
        xla="memory and bytes accessed of both programs",
        counted="which equations and instructions are the same: by what they compute, then by the "
        "text of their line; flops of the equations",
    ),
    verb="compile",
    help="what changed since what -o NAME stored",
    metavar="NAME",
    values="capture",
    panel=10,
    python="jaxlens.compare(a, b)`, `receipt(f, x)",
    place=120,
    several=_changed,
)


AGAINST_JAXPR = replace(AGAINST, verb="jaxpr", panel=0, python="", place=130)


USES = ("memory",)
ROWS = (
    AGAINST,
    AGAINST_JAXPR,
)
