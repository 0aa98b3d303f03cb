"""The view of `%%check --values`: what each line, module and equation held."""

from jaxlens.questions.values.facts import Values
from jaxlens.questions.values.report import report
from jaxlens.render.document import Block, Findings, Tab, TableBlock, Tabs
from jaxlens.views.listings.panes import jaxpr_tab

_TABS = {  # by the title of a table
    "Values by line": ("By line", "lines", "What the floats of each line held."),
    "Values by module": ("By module", "modules", "What the floats of each module held."),
    "Values by equation": ("By equation", "equations", "What the results of each equation held."),
}


def blocks(facts: Values, full: bool = False) -> list[Block]:
    """Returns the sentences, the tables, and the jaxpr."""
    answer = report(facts, full)
    listing = jaxpr_tab(facts.subject(), full, in_text=full)
    tabs = tuple(
        Tab(title, (TableBlock(table),), True, help, key)
        for table in answer.tables
        for title, key, help in [_TABS[table.title]]
    )
    return [Findings(answer.findings), Tabs((*tabs, listing))]
