"""The view of `%%explore`: the user's lines and every stage, linked, in panes side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.graph import Module
from jaxlens.links.match.instruction_fates import ProgramChange
from jaxlens.program.fusion_change import again
from jaxlens.program.kernels import Work
from jaxlens.program.sentences import quoter
from jaxlens.render.document import Block, Tab
from jaxlens.render.link_data import Web
from jaxlens.viewer import compile as compile_view
from jaxlens.viewer import jaxpr as jaxpr_view
from jaxlens.viewer.compile import Overview
from jaxlens.viewer.hlo import Change, change_pane
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.machine import MOST, PAGE
from jaxlens.views.listings.panes import (
    chained,
    jaxpr_tab,
    machine_pane,
    pane,
    shortened,
    stage_pane,
)
from jaxlens.views.passes.pane import Atoms, passes_blocks
from jaxlens.views.report_blocks import leading_blocks, report_blocks

# Lines of LLVM IR and of machine code in the page of a small program, to keep it small; %%compile
# has more, --full all.
_CODE = 100
_LARGE = 1_000  # equations
_HEAD = 3  # lines of each program in the page as markup; the rest is deflated


@dataclass(frozen=True, slots=True)
class ExploreFacts:
    """The facts that `%%explore` shows.

    Attributes:
        overview: The program.
        web: Links between all panes.
        atoms: Atoms of the instructions in pass dumps.
        change: Change from just before fusion to the optimised program.
    """

    overview: Overview
    web: Web | None
    atoms: Atoms | None
    change: Change


def blocks(facts: ExploreFacts, full: bool) -> list[Block]:
    """Returns the findings and all panes, untruncated if `full`."""
    overview, subject = facts.overview, facts.overview.subject
    module = compile_view.jaxpr_module(subject)
    programs = [*_front(subject, module), *_middle(facts, full)]
    overview.compute()  # what follows waits for the compile's end
    works, runs = compile_view.counted_works(overview)
    reports = overview.reports()
    tabs = (
        compile_view.source_pane(overview, works, in_text=True),
        *programs,
        *_back(overview, module, works, full),
        *(
            Tab(question.title, tuple(report_blocks(report)), False, question.help, question.key)
            for question, report in reports
        ),
    )
    change = _change(facts)
    sentences = (
        *compile_view.story(module, works, runs, change),
        *(f for f in (jaxpr_view.findings(subject, module)[1:] if module else ()) if f.weight),
        *(again(change, quoter(subject)) if change else ()),
        *(f for question, report in reports if question.is_told() for f in report.findings[:1]),
    )
    first = "graph" if module and jaxpr_view.is_small(module) else "change"
    shown = chained(tabs, open=("source", first, "optimized"))
    return [*leading_blocks(sentences, full), shown]


def _change(facts: ExploreFacts) -> ProgramChange | None:
    """Returns the change across fusion; None where the backend does not give it."""
    try:
        return facts.change.get()[0]
    except LensError:
        return None


def _front(subject: Capture, module: Module | None) -> list[Tab]:
    """Returns the panes of JAX: the jaxpr and its graph."""
    if module is None:
        return [pane("jaxpr", lambda: [stage_blocks.listing(subject.jaxpr)])]
    short = shortened(jaxpr_tab(subject, full=False, in_text=False), _HEAD)
    return [short, jaxpr_view.graph_tab(subject, module)]


def _middle(facts: ExploreFacts, full: bool) -> list[Tab]:
    """Returns the panes of XLA, from StableHLO to optimised HLO and its graph."""
    subject, atoms = facts.overview.subject, facts.atoms
    return [
        stage_pane(subject, "stablehlo", full, head=_HEAD),
        stage_pane(subject, "hlo", full, "HLO", _HEAD),
        change_pane(subject, facts.change, full),
        pane(
            "passes", lambda: passes_blocks(subject, everything=full, atoms=atoms), title="Passes"
        ),
        stage_pane(subject, "optimized", full, head=_HEAD),
        pane(
            "hlo-graph",
            lambda: [hlo_figure.pane(subject)],
            title="HLO graph",
            help="Instructions of the optimised program as boxes; a fusion opens in place.",
        ),
    ]


def _back(
    overview: Overview, module: Module | None, works: Sequence[Work], full: bool
) -> list[Tab]:
    """Returns the panes of what runs: kernels, LLVM IR and machine code."""
    subject = overview.subject
    regions = module.regions.values() if module else ()
    large = module is None or sum(len(region.nodes) for region in regions) > _LARGE
    most = MOST if full else PAGE if large else _CODE
    ranked = compile_view.costliest(works, overview)
    first = ranked if large else ()  # the costliest of a small program can be most of its page
    return [
        pane(
            "kernels",
            lambda: compile_view.kernels(ranked, overview),
            title="Kernels",
            in_text=True,
            help="What each kernel computes, from which lines, and the bytes it moves.",
            count=compile_view.kernel_count(works),
        ),
        machine_pane(subject, works, "llvm", most, _HEAD, first),
        machine_pane(subject, works, "asm", most, _HEAD, first),
    ]
