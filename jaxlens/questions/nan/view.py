"""Where the first NaN comes from, beside the jaxpr."""

from jaxlens.questions.nan.first_nan import FirstNan
from jaxlens.questions.nan.report import report
from jaxlens.render.document import Block, Findings, Tab, TableBlock, Tabs
from jaxlens.views.listings.panes import jaxpr_tab


def blocks(facts: FirstNan, full: bool = False) -> list[Block]:
    """Returns the sentences, the path of the NaN, and the jaxpr."""
    answer = report(facts)
    listing = jaxpr_tab(facts.subject(), full, in_text=full)
    tables = tuple(TableBlock(table) for table in answer.tables)
    help = "The equations whose results had it, in order of first occurrence."
    tabs = ((Tab("Path", tables, True, help, "way"),) if tables else ()) + (listing,)
    return [Findings(answer.findings), Tabs(tabs)]
