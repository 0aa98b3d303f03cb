"""What `%%explore` shows: your lines and every stage below them, linked, in panes side by side."""

from collections.abc import Sequence
from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.driver import Needs
from jaxlens.ir.graph import Module
from jaxlens.lenses.cost.report import cost as cost_report
from jaxlens.lenses.memory.report import memory as memory_report
from jaxlens.lenses.program.kernels import Work
from jaxlens.options import ExploreOptions, JaxprOptions
from jaxlens.render.document import Block, Document, Findings, Tab, Tabs
from jaxlens.report import Finding
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.header import taken
from jaxlens.views.links import weave
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.machine import MOST
from jaxlens.views.listings.panes import jaxpr_tab, machine_pane, pane, shortened, stage_pane
from jaxlens.views.passes.pane import Atoms, beside, passes_blocks
from jaxlens.views.verbs import compile as compile_view
from jaxlens.views.verbs import jaxpr as jaxpr_view

# Lines of LLVM IR and of machine code of a small program, whose page is to stay small: %%compile
# has more, --full all. A large program's page has all that fits.
_CODE = 100
_LARGE = 1_000  # equations
_LINKED = ("jaxpr", "stablehlo", "hlo", "optimized", "kernels")
_HEAD = 4  # lines of each program that stand in the page; the rest of so many is deflated


def document(capture: Capture, options: ExploreOptions | None = None) -> Document:
    """The output for one capture; traces, lowers and compiles it, and runs nothing.

    Args:
        capture: What to look at.
        options: What to show.
    """
    options = options or ExploreOptions()
    module = _equations(capture)
    capture.gather(Needs(passes="fusing"))
    done, runs = compile_view.counted_works(capture)
    web = weave(capture, _LINKED)
    first = jaxpr_view.findings(capture, module) if module else ()
    sentences = (*first, runs, *_sizes(capture))
    middle = _middle(capture, options, beside(capture, web) if web else None)
    tabs = (*_front(capture, done), *middle, *_back(capture, done, options.full))
    blocks: tuple[Block, ...] = (Findings(sentences), Tabs(tabs))
    return Document("explore", taken(capture.program), blocks, web)


def _equations(capture: Capture) -> Module | None:
    """The jaxpr; None of a program that was opened from a later stage."""
    try:
        return capture.jaxpr.module
    except UnavailableError:
        return None


def _sizes(capture: Capture) -> list[Finding]:
    """What it costs in a sentence each: flops and bytes, then memory."""
    found: list[Finding] = []
    for lens in (cost_report, memory_report):
        try:
            found += lens(capture).findings[:1]
        except LensError as why:
            found.append(Finding(f"{why}.", "unknown"))
    return found


def _front(capture: Capture, done: Sequence[Work]) -> list[Tab]:
    """What JAX made of it: the user's lines, the jaxpr, its graph."""
    source = pane(
        "source",
        lambda: stage_blocks.costs(capture, done),
        title="Your code",
        in_text=True,
        help="Your lines, tinted by flops, over the kernels that each became.",
    )
    module = _equations(capture)
    if module is None:
        return [source, pane("jaxpr", lambda: [stage_blocks.listing(capture.jaxpr)])]
    jaxpr = jaxpr_tab(capture, module, jaxpr_lines.equations(module), full=False)
    return [
        source,
        shortened(replace(jaxpr, in_text=False), _HEAD),
        jaxpr_view.graph_tab(capture, module, JaxprOptions()),
    ]


def _middle(capture: Capture, options: ExploreOptions, atoms: Atoms | None) -> list[Tab]:
    """What XLA made of it, from the program it was given to the one that runs."""
    return [
        stage_pane(capture, "stablehlo", options.full, head=_HEAD),
        stage_pane(capture, "hlo", options.full, "HLO", _HEAD),
        pane(
            "passes",
            lambda: passes_blocks(capture, everything=options.full, atoms=atoms),
            title="Passes",
        ),
        stage_pane(capture, "optimized", options.full, head=_HEAD),
        pane(
            "hlo-graph",
            lambda: [hlo_figure.pane(capture)],
            title="HLO graph",
            help="Instructions of the optimised program as boxes; a fusion opens in place.",
        ),
    ]


def _back(capture: Capture, done: Sequence[Work], full: bool) -> list[Tab]:
    """What runs: kernels and their code."""
    module = _equations(capture)
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
        machine_pane(capture, done, "llvm", most, _HEAD),
        machine_pane(capture, done, "asm", most, _HEAD),
    ]
