"""The panes of each verb as `Question` rows: shown without a question, or beside one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jaxlens.ir.driver import Needs
from jaxlens.questions.question import About, Lens, Option, Question
from jaxlens.questions.table import LINKED

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.report import Report
    from jaxlens.views.verbs.explore import ExploreFacts
    from jaxlens.views.verbs.hlo import HloFacts
    from jaxlens.views.verbs.jaxpr import JaxprFacts
    from jaxlens.views.verbs.overview import Overview


def _no_report(facts: object) -> Report:
    """Returns an empty report: panes are not summarised in sentences and tables."""
    from jaxlens.report import Report

    return Report("", ())


def _jaxpr() -> Lens[JaxprFacts]:
    from jaxlens.views.links import weave
    from jaxlens.views.verbs.jaxpr import blocks, facts

    return Lens(facts, _no_report, blocks, lambda links, facts: weave(links, ("jaxpr",)))


def _hlo() -> Lens[HloFacts]:
    from jaxlens.views.verbs.hlo import blocks, facts

    return Lens(facts, _no_report, blocks, lambda links, facts: facts.web)


def _for_panes(capture: Capture, stage: str, **others: Any) -> Needs:
    """Returns what `hlo` needs: nothing in advance for one stage, all passes for pass options."""
    if any(others.values()):
        return Needs(passes="all")
    return Needs() if stage else Needs(passes="fusing")


def _compile() -> Lens[Overview]:
    from jaxlens.views.links import weave
    from jaxlens.views.verbs.compile import blocks
    from jaxlens.views.verbs.overview import facts

    return Lens(facts, _no_report, blocks, lambda links, facts: weave(links, LINKED))


def _explore() -> Lens[ExploreFacts]:
    from jaxlens.views.verbs.explore import blocks, facts

    return Lens(facts, _no_report, blocks, lambda links, facts: facts.web)


_PASSES = About("What did the compiler make of it?")
PANES: Mapping[str, Question[Any]] = {
    "jaxpr": Question(
        "jaxpr",
        About("Which equations does tracing record?"),
        _jaxpr,
        options=(Option("text", False), Option("graph", False), Option("depth", 1)),
    ),
    "hlo": Question(
        "hlo",
        _PASSES,
        _hlo,
        _for_panes,
        options=(
            Option("stage", "", about=_PASSES),
            Option("diff", (), about=_PASSES),
            Option("passes", False, about=_PASSES),
            Option("pass_name", "", about=_PASSES),
        ),
    ),
    "compile": Question(
        "compile",
        About("What did compiling do?"),
        _compile,
        Needs(verdict=True, compiled=True),
    ),
    "explore": Question(
        "explore",
        About("What became of each line?"),
        _explore,
        Needs(passes="fusing"),
    ),
}
"""Panes by verb; their options are the verb's own."""
