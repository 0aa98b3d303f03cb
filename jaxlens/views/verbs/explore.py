"""The view of `%%explore`: the user's lines and every stage, linked, in panes side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.graph import Module
from jaxlens.lenses.cost.report import report as cost_report
from jaxlens.lenses.memory.report import report as memory_report
from jaxlens.lenses.program.kernels import Work
from jaxlens.lenses.subject import Subject
from jaxlens.render.document import Block, Findings, Tab, Tabs
from jaxlens.render.link_data import Web
from jaxlens.report import Finding, Report
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.links import weave
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.machine import MOST
from jaxlens.views.listings.panes import jaxpr_tab, machine_pane, pane, shortened, stage_pane
from jaxlens.views.passes.pane import Atoms, beside, passes_blocks
from jaxlens.views.verbs import compile as compile_view
from jaxlens.views.verbs import jaxpr as jaxpr_view
from jaxlens.views.verbs import overview
from jaxlens.views.verbs.overview import Overview

# Lines of LLVM IR and of machine code in the page of a small program, to keep it small; %%compile
# has more, --full all. A large program's page has all that fits.
_CODE = 100
_LARGE = 1_000  # equations
_LINKED = ("jaxpr", "stablehlo", "hlo", "optimized", "kernels")
_HEAD = 4  # lines of each program in the page as markup; the rest is deflated


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


def facts(capture: Capture) -> ExploreFacts:
    """Returns the facts of a capture, each computed on first use but for the links."""
    web = weave(capture.links, _LINKED)
    atoms = beside(capture.links, web) if web else None
    return ExploreFacts(overview.facts(capture), web, atoms)


def blocks(explored: ExploreFacts, full: bool) -> list[Block]:
    """Returns the findings and all panes, untruncated if `full`."""
    found = explored.overview
    subject = found.subject
    module = _equations(subject)
    done, runs = compile_view.counted_works(found)
    first = jaxpr_view.findings(subject, module) if module else ()
    sentences = (*first, runs, *_sizes(found))
    tabs = (
        *_front(found, done),
        *_middle(subject, full, explored.atoms),
        *_back(subject, done, full),
    )
    return [Findings(sentences), Tabs(tabs)]


def _equations(subject: Subject) -> Module | None:
    """Returns the jaxpr; None for a program opened from a later stage."""
    try:
        return subject.jaxpr.module
    except UnavailableError:
        return None


def _sizes(program: Overview) -> list[Finding]:
    """Returns a finding on cost (flops and bytes) and one on memory."""
    found: list[Finding] = []
    reports: tuple[Callable[[], Report], ...] = (
        lambda: cost_report(program.counted.get()),
        lambda: memory_report(program.memory.get()),
    )
    for report in reports:
        try:
            found += report().findings[:1]
        except LensError as why:
            found.append(Finding(f"{why}.", "unknown"))
    return found


def _front(found: Overview, done: Sequence[Work]) -> list[Tab]:
    """Returns the panes of JAX: the user's lines, the jaxpr, its graph."""
    source = pane(
        "source",
        lambda: stage_blocks.costs(found.counted.get(), done),
        title="Your code",
        in_text=True,
        help="Your lines, tinted by flops, over the kernels that each became.",
    )
    subject = found.subject
    module = _equations(subject)
    if module is None:
        return [source, pane("jaxpr", lambda: [stage_blocks.listing(subject.jaxpr)])]
    jaxpr = jaxpr_tab(subject, module, jaxpr_lines.equations(module), full=False)
    return [
        source,
        shortened(replace(jaxpr, in_text=False), _HEAD),
        jaxpr_view.graph_tab(subject, module),
    ]


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


def _back(subject: Subject, done: Sequence[Work], full: bool) -> list[Tab]:
    """Returns the panes of what runs: kernels, LLVM IR and machine code."""
    module = _equations(subject)
    regions = module.regions.values() if module else ()
    large = module is None or sum(len(region.nodes) for region in regions) > _LARGE
    most = MOST if full or large else _CODE
    return [
        pane(
            "kernels",
            lambda: compile_view.kernels(done),
            title="Kernels",
            in_text=True,
            help="What each kernel computes, from which lines, and the bytes it moves.",
        ),
        machine_pane(subject, done, "llvm", most, _HEAD),
        machine_pane(subject, done, "asm", most, _HEAD),
    ]
