"""The view of `%%silent`: a sentence for each fault, and the jaxpr."""

from jaxlens.questions.silent.facts import Silent
from jaxlens.questions.silent.report import report
from jaxlens.render.document import Block, Findings, Tabs
from jaxlens.views.listings.panes import jaxpr_tab


def blocks(facts: Silent, full: bool = False) -> list[Block]:
    """Returns the sentences, and the jaxpr that they are linked to."""
    listing = jaxpr_tab(facts.subject(), full, in_text=full)
    return [Findings(report(facts).findings), Tabs((listing,))]
