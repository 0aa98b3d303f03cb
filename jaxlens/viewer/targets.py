"""The view of several targets: a table with a column each, then the panes of each, linked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxlens.render.document import Block, Findings, Listing, Tab, TableBlock, Tabs
from jaxlens.viewer import compile as compile_view
from jaxlens.viewer.compile import EXPLORED, Overview
from jaxlens.viewer.side_by_side_report import SideBySide, report
from jaxlens.views.listings.panes import jaxpr_tab, pane, stage_pane
from jaxlens.views.report_blocks import report_blocks


@dataclass(frozen=True, slots=True)
class TargetsFacts:
    """The facts of several targets.

    Attributes:
        programs: The figures, a column for each target.
        overviews: The programs by name, without those that did not compile.
    """

    programs: SideBySide
    overviews: Sequence[tuple[str, Overview]]


def blocks(facts: TargetsFacts, verb: str, full: bool = False) -> list[Block]:
    """Returns the table, and panes: the kernels of each target, then the program of each.

    Args:
        facts: The facts.
        verb: "compile", which opens the kernels, or "explore", which opens two programs.
        full: Whether nothing is left out.
    """
    above = report_blocks(report(facts.programs))
    if not facts.overviews:
        return above
    targets = list(enumerate(facts.overviews, 1))
    kernels = [_kernels(n, name, overview, verb) for n, (name, overview) in targets]
    programs = [_program(n, name, overview, full) for n, (name, overview) in targets]
    _, first = facts.overviews[0]
    jaxpr = pane("jaxpr", lambda: jaxpr_tab(first.subject, full=False, head=EXPLORED).blocks)
    shared = [compile_view.source_pane(first, ()), jaxpr]
    opened = kernels if verb == "compile" else [*shared[:1], *programs[:2]]
    panes = (*kernels, *shared, *programs) if verb == "compile" else (*shared, *programs, *kernels)
    return [*above, Tabs(panes, open=tuple(tab.key for tab in opened[:3]))]


def _kernels(number: int, name: str, overview: Overview, verb: str) -> Tab:
    """Returns the pane with the kernels and memory of one target."""

    def shown() -> list[Block]:
        works, runs = compile_view.counted_works(overview)
        memory = [r for question, r in overview.reports() if question.key == "memory"]
        ranked = compile_view.costliest(works, overview)
        sentences = Findings((runs, *(f for report in memory for f in report.findings[:2])))
        return [sentences, *(_renamed(b, name) for b in compile_view.kernels(ranked, overview))]

    help = f"What each kernel for {name} computes, from which lines, and the bytes it moves."
    return pane(
        f"kernels-{number}",
        shown,
        title=f"Kernels for {name}",
        in_text=verb == "compile",
        help=help,
    )


def _program(number: int, name: str, overview: Overview, full: bool) -> Tab:
    """Returns the pane with the optimised program of one target."""
    tab = stage_pane(overview.subject, "optimized", full, head=EXPLORED)
    blocks = tuple(_renamed(block, name) for block in tab.blocks)
    return replace(tab, title=f"HLO for {name}", blocks=blocks, key=f"optimized-{number}")


def _renamed(block: Block, name: str) -> Block:
    """Returns a block whose nodes are those of one target, as `weave_targets` names them."""
    if isinstance(block, Listing):
        return replace(block, stage=f"{block.stage} on {name}")
    if isinstance(block, TableBlock) and block.table.stage:
        table = replace(block.table, stage=f"{block.table.stage} on {name}")
        return replace(block, table=table)
    return block
