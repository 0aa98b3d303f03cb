"""Rows of the table: what changed, since then or by leaving out a pass or setting a flag."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jaxlens.question import About, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.views.view import View


def _changed(verb: str, capture: Capture, options: Any) -> View[Any]:
    from jaxlens.questions.compare.view import changed
    from jaxlens.views.view import View

    return View(capture, lambda: changed(verb, options.against, capture, options))


def _without(verb: str, capture: Capture, options: Any) -> View[Any]:
    from jaxlens.questions.compare.view import compare
    from jaxlens.stages.child.recompile import without
    from jaxlens.views.view import View

    other, run = without(capture, options.without, getattr(options, "run", 0))
    return View(other, lambda: compare(capture, other, run=run, full=options.full))


AGAINST: Question[Any] = Question(
    "against",
    About(
        "What changed since then?",
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


WITHOUT: Question[Any] = Question(
    "without",
    About(
        "What does a pass or a flag do for this program?",
        measured="with --run N: seconds of both programs, turn by turn in a process of their own",
        xla="memory and bytes accessed of both programs",
        counted="which instructions are the same; the second program is compiled by XLA all the "
        "same",
    ),
    verb="compile",
    help="what changes when a pass is left out (fusion) or a flag set (xla_flag=value); compiles "
    "in another process",
    metavar="NAME",
    values="pass",
    python='jaxlens.without(cap, "fusion")',
    place=100,
    several=_without,
)


WITHOUT_HLO = replace(WITHOUT, verb="hlo", python="", place=110)


USES = ("memory",)
ROWS = (
    AGAINST,
    AGAINST_JAXPR,
    WITHOUT,
    WITHOUT_HLO,
)
