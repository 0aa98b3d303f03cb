"""The view of `%%numerics`: where digits are lost, and the errors in tables."""

from jaxlens.questions.numerics.facts import Numerics
from jaxlens.questions.numerics.report import report
from jaxlens.render.document import Block, Findings, Tab, TableBlock, Tabs
from jaxlens.views import source_pane
from jaxlens.views.listings.panes import equation_lines, jaxpr_tab


def blocks(facts: Numerics, full: bool = False) -> list[Block]:
    """Returns the sentences, the tables, your lines, and the jaxpr."""
    answer = report(facts, full)
    module = facts.subject().jaxpr.module
    lines = equation_lines(facts.subject())
    listing = jaxpr_tab(facts.subject(), full, lines, in_text=full)
    tables = tuple(TableBlock(table) for table in answer.tables)
    help = "The errors of equations, results and products, in ulps."
    source: tuple[Tab, ...] = ()
    if answer.overlays:
        sources = facts.subject().sources
        panes = source_pane.blocks(module, sources, lines, answer.overlays[0], "digits")
        tint = "Your lines, tinted by the digits that they lose."
        source = (Tab("Your code", panes, help=tint, key="source"),) if panes else ()
    tabs = ((Tab("Errors", tables, True, help, "errors"),) if tables else ()) + (*source, listing)
    return [Findings(answer.findings), Tabs(tabs)]
