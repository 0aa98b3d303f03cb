"""The view of `%%hlo --fusion`: findings, tables, and the programs before and after fusion."""

from jaxlens.links.links import Links
from jaxlens.questions.fusion.facts import Fusions
from jaxlens.questions.fusion.report import report
from jaxlens.render.document import Block, Tab, Tabs
from jaxlens.render.link_data import Web
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.links import weave
from jaxlens.views.passes.hlo_diff import diff as change_diff
from jaxlens.views.report_blocks import report_blocks

_LARGE = 500  # operations before fusion


def web(links: Links, fusions: Fusions) -> Web | None:
    """Returns links of tables and diff; None for a large program, where they are slow."""
    return weave(links, ("jaxpr", "optimized")) if fusions.before < _LARGE else None


def blocks(fusions: Fusions, full: bool = False) -> list[Block]:
    """Returns findings, tables and the diff.

    Args:
        fusions: The fusions.
        full: Whether to add the graph, in which fusions open, and to leave nothing out.
    """
    inputs = fusions.subject().program.inputs
    shown = change_diff(fusions.change, "Before fusion", "After", fusions.note, full, inputs)
    tabs = [Tab("Before and after fusion", (shown,), in_text=True, key="change")]
    tabs += [Tab("Graph", (hlo_figure.pane(fusions.subject()),), key="graph")] if full else []
    return [*report_blocks(report(fusions)), Tabs(tuple(tabs))]
