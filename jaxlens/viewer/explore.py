"""The view of `%%explore`: the user's lines and every stage, linked, in panes side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxlens.errors import UnavailableError
from jaxlens.ir.graph import Module
from jaxlens.program.kernels import Work
from jaxlens.program.subject import Subject
from jaxlens.questions.cost.report import report as cost_report
from jaxlens.questions.memory.report import report as memory_report
from jaxlens.render.document import Block, Tab, Tabs
from jaxlens.render.link_data import Web
from jaxlens.viewer import compile as compile_view
from jaxlens.viewer import jaxpr as jaxpr_view
from jaxlens.viewer.compile import Overview
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.machine import MOST, PAGE
from jaxlens.views.listings.panes import (
    jaxpr_tab,
    machine_pane,
    pane,
    shortened,
    stage_pane,
)
from jaxlens.views.passes.pane import Atoms, passes_blocks
from jaxlens.views.report_blocks import leading_blocks

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
    """

    overview: Overview
    web: Web | None
    atoms: Atoms | None


def blocks(facts: ExploreFacts, full: bool) -> list[Block]:
    """Returns the findings and all panes, untruncated if `full`."""
    overview, subject = facts.overview, facts.overview.subject
    try:
        module = subject.jaxpr.module
    except UnavailableError:  # a program opened from a later stage
        module = None
    first = jaxpr_view.findings(subject, module) if module else ()
    programs = [*_front(subject, module), *_middle(subject, full, facts.atoms)]
    overview.compute()  # what follows waits for the compile's end
    works, runs = compile_view.counted_works(overview)
    costs = compile_view.report_or_reason(lambda: cost_report(overview.counted.get()))
    memory = compile_view.report_or_reason(lambda: memory_report(overview.memory.get()))
    tabs = (
        compile_view.source_pane(overview, works, in_text=True),
        *programs,
        *_back(overview, module, works, full),
    )
    sentences = (*first, runs, *costs.findings[:1], *memory.findings[:1])
    shown = Tabs(tabs, open=("source", "optimized", "jaxpr"))
    return [*leading_blocks(sentences, full), shown]


def _front(subject: Subject, module: Module | None) -> list[Tab]:
    """Returns the panes of JAX: the jaxpr and its graph."""
    if module is None:
        return [pane("jaxpr", lambda: [stage_blocks.listing(subject.jaxpr)])]
    short = shortened(jaxpr_tab(subject, full=False, in_text=False), _HEAD)
    return [short, jaxpr_view.graph_tab(subject, module)]


def _middle(subject: Subject, full: bool, atoms: Atoms | None) -> list[Tab]:
    """Returns the panes of XLA, from StableHLO to optimised HLO and its graph."""
    return [
        stage_pane(subject, "stablehlo", full, head=_HEAD),
        stage_pane(subject, "hlo", full, "HLO", _HEAD),
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
        ),
        machine_pane(subject, works, "llvm", most, _HEAD, first),
        machine_pane(subject, works, "asm", most, _HEAD, first),
    ]
