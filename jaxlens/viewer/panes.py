"""The panes of each verb as `Question` rows, and the options of each verb.

Panes are shown where no question is asked, or beside one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from jaxlens.ir.needs import Needs
from jaxlens.options import (
    CheckPanes,
    CompilePanes,
    ExplorePanes,
    HloPanes,
    JaxprPanes,
    option,
)
from jaxlens.question import About, Lens, Option, Question, jaxpr_web
from jaxlens.questions import of_verb, rows

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.viewer.check import CheckFacts
    from jaxlens.viewer.compile import Overview
    from jaxlens.viewer.explore import ExploreFacts
    from jaxlens.viewer.hlo import Change, HloFacts
    from jaxlens.viewer.jaxpr import JaxprFacts


def overview(capture: Capture) -> Overview:
    """Returns the facts of a compiled program; those of its kernels are computed on first use."""
    from jaxlens.program.closed_over import closed_over
    from jaxlens.program.counted import counted
    from jaxlens.program.kernel_cost import cost_by_instruction
    from jaxlens.program.kernels import works
    from jaxlens.program.subject import Given
    from jaxlens.viewer.compile import Overview

    counts = Given(lambda: counted(capture))
    found = Overview(
        Given(lambda: capture.verdict),
        Given(lambda: works(capture)),
        Given(
            lambda: cost_by_instruction(capture.optimized.module, capture.program.target.platform)
        ),
        counts,
        Given(lambda: closed_over(capture)),
        capture,
        tuple(row.pane(capture, counts) for row in rows() if row.pane),
    )
    capture.links.known_fates()  # now, while XLA generates machine code
    return found


def _jaxpr() -> Lens[JaxprFacts]:
    from jaxlens.viewer.jaxpr import JaxprFacts, blocks

    def facts(capture: Capture, **options: Any) -> JaxprFacts:
        return JaxprFacts(capture, JaxprPanes(**options))

    return Lens(facts, blocks=blocks, web=jaxpr_web)


def _hlo() -> Lens[HloFacts]:
    from jaxlens.program.subject import Given
    from jaxlens.viewer.hlo import HloFacts, blocks, linked
    from jaxlens.views.links import weave
    from jaxlens.views.passes.pane import beside

    def facts(capture: Capture, **options: Any) -> HloFacts:
        links, panes, web = capture.links, HloPanes(**options), None
        if panes == HloPanes():  # few fates are known without the dumps of all passes
            web = weave(links, _HLO_LINKED, fates=capture.has_all_passes)
        return HloFacts(
            capture,
            panes,
            _change(capture),
            Given(lambda: capture.kernels),
            web,
            beside(links, web) if web else None,
            links.programs(),
        )

    return Lens(
        facts, blocks=blocks, web=lambda links, facts: linked(facts.web, facts.atoms, facts.change)
    )


def _change(capture: Capture) -> Change:
    """Returns the change across fusion, which is computed on first use."""
    from jaxlens.program.fusion_change import GLANCE_LIMIT, across_fusion
    from jaxlens.program.subject import Given
    from jaxlens.views.passes.hlo_programs import fusing

    return Given(lambda: across_fusion(capture, GLANCE_LIMIT, fusing(capture)))


def _for_panes(capture: Capture, stage: str, **passes: Any) -> Needs:
    """Returns what `hlo` needs: nothing in advance for one stage, all passes for pass options."""
    if any(passes.values()):
        return Needs(passes=True)
    return Needs(compiled=not stage)


def _compile() -> Lens[Overview]:
    from jaxlens.viewer.compile import blocks
    from jaxlens.views.links import LINKED, weave

    return Lens(overview, blocks=blocks, web=lambda links, facts: weave(links, LINKED))


def _explore() -> Lens[ExploreFacts]:
    from jaxlens.viewer.explore import ExploreFacts, blocks
    from jaxlens.viewer.hlo import linked
    from jaxlens.views.links import weave
    from jaxlens.views.passes.pane import beside

    def facts(capture: Capture) -> ExploreFacts:
        web = weave(capture.links, (*_HLO_LINKED, "kernels"))
        atoms = beside(capture.links, web) if web else None
        return ExploreFacts(overview(capture), web, atoms, _change(capture))

    return Lens(
        facts, blocks=blocks, web=lambda links, facts: linked(facts.web, facts.atoms, facts.change)
    )


def _check() -> Lens[tuple[CheckFacts, ...]]:
    from jaxlens.viewer.check import blocks, checks

    return Lens(checks, blocks=blocks, web=jaxpr_web)


def _for_checks(capture: Capture) -> Needs:
    rows = (row for row in of_verb("check") if not row.alone)
    return reduce(or_, (row.needed(capture, {}) for row in rows))


_HLO_LINKED = ("jaxpr", "stablehlo", "hlo", "optimized")
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
        Needs(compiled=True),
    ),
    "check": Question(
        "check", About("Can the results be trusted?"), _check, _for_checks, runs=True
    ),
}
"""Panes by verb; their options are the verb's own."""


def with_questions(panes: type[Any], full: str) -> type[Any]:
    """Returns the options of a verb: those of its panes, then those of the questions it shows.

    Args:
        panes: A dataclass named after the verb: `JaxprPanes` gives `JaxprOptions`.
        full: The help text of the option `full`, which is the last one.
    """
    verb = panes.__name__.removesuffix("Panes")
    rows = [field for question in of_verb(verb.lower()) for field in question.fields()]
    rows.append(("full", bool, option(False, full)))
    options = make_dataclass(f"{verb}Options", rows, bases=(panes,), frozen=True, slots=True)
    options.__doc__ = panes.__doc__
    return options


OPTIONS: Mapping[str, type[Any]] = {
    "jaxpr": with_questions(JaxprPanes, "show every equation and attribute; nothing folded or cut"),
    "hlo": with_questions(HloPanes, "show metadata, layouts and every instruction; nothing folded"),
    "compile": with_questions(CompilePanes, "show every row and line; nothing folded or cut"),
    "explore": with_questions(
        ExplorePanes, "show metadata, layouts and every line; nothing folded or cut"
    ),
    "check": with_questions(CheckPanes, "show every row; nothing folded or cut"),
}
"""Option dataclasses by verb."""
