"""The view of `%%explore`: the user's lines and every stage, linked, in panes side by side."""

from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.graph import Module
from jaxlens.links.match.instruction_fates import ProgramChange
from jaxlens.program.fusion_change import again
from jaxlens.program.sentences import quoter
from jaxlens.render.document import Block, Tab
from jaxlens.render.link_data import Web
from jaxlens.viewer import compile as compile_view
from jaxlens.viewer import jaxpr as jaxpr_view
from jaxlens.viewer.compile import EXPLORED, Overview
from jaxlens.viewer.hlo import Change, change_pane
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.panes import jaxpr_tab, pane, stage_pane
from jaxlens.views.passes.pane import Atoms, passes_blocks


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
    change = _change(facts)
    told = [*again(change, quoter(subject))] if change else []
    first = "graph" if module and jaxpr_view.is_small(module) else "change"
    open = ("source", first, "optimized")
    return compile_view.blocks(overview, full, programs, change, told, open)


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
    listed = jaxpr_tab(subject, full=False, in_text=False, head=EXPLORED)
    return [listed, jaxpr_view.graph_tab(subject, module)]


def _middle(facts: ExploreFacts, full: bool) -> list[Tab]:
    """Returns the panes of XLA, from StableHLO to optimised HLO and its graph."""
    subject, atoms = facts.overview.subject, facts.atoms
    return [
        stage_pane(subject, "stablehlo", full, head=EXPLORED),
        stage_pane(subject, "hlo", full, "HLO", EXPLORED),
        change_pane(subject, facts.change, full),
        pane(
            "passes", lambda: passes_blocks(subject, everything=full, atoms=atoms), title="Passes"
        ),
        stage_pane(subject, "optimized", full, head=EXPLORED),
        pane(
            "hlo-graph",
            lambda: [hlo_figure.pane(subject, heat=facts.overview.heat)],
            title="HLO graph",
            help="Instructions of the optimised program as boxes; a fusion opens in place.",
        ),
    ]
