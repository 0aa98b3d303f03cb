"""Rows of the table: the program without a pass, or with a flag."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jaxlens.question import About, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.views.view import View


def _without(verb: str, capture: Capture, options: Any) -> View:
    from jaxlens.questions.compare.document import compare
    from jaxlens.stages.child.recompile import without
    from jaxlens.views.view import View

    other, run = without(capture, options.without, getattr(options, "run", 0))
    return View(other, lambda: compare(capture, other, run=run, full=options.full))


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


ROWS = (
    WITHOUT,
    WITHOUT_HLO,
)
